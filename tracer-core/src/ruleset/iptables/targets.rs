//! Targets as actions.

use super::super::{Action, Nat, NatKind, Verdict, words};
use super::line::Part;
use std::net::IpAddr;

/// Targets that change nothing that decides a packet's way or addresses.
const PASSING: &[&str] = &[
    "LOG",
    "NFLOG",
    "ULOG",
    "TRACE",
    "AUDIT",
    "TCPMSS",
    "TCPOPTSTRIP",
    "CHECKSUM",
    "CLASSIFY",
    "CONNSECMARK",
    "SECMARK",
    "IDLETIMER",
    "LED",
    "RATEEST",
    "DSCP",
    "TOS",
    "TTL",
    "HL",
    "ECN",
    "TEE",
];

/// What a target does. Only names that no chain has come here.
pub(super) fn read(name: &str, part: &Part) -> Vec<Action> {
    known(name, part).unwrap_or_else(|| vec![Action::Unknown(part.raw())])
}

fn known(name: &str, part: &Part) -> Option<Vec<Action>> {
    let verdict = |verdict| Some(vec![Action::Verdict(verdict)]);
    match name {
        "ACCEPT" => verdict(Verdict::Accept),
        "DROP" => verdict(Verdict::Drop),
        "RETURN" => verdict(Verdict::Return),
        "QUEUE" | "NFQUEUE" => verdict(Verdict::Queue),
        "REJECT" => verdict(Verdict::Reject(reject(part))),
        "MARK" => mark(part, |and, xor| Action::SetMark { and, xor }).map(|a| vec![a]),
        "CONNMARK" => connmark(part).map(|action| vec![action]),
        "NOTRACK" => Some(vec![Action::Notrack]),
        "CT" => ct(part).map(|action| vec![action]),
        "TPROXY" => tproxy(part),
        "SET" if part.option("--map-set").is_none() => pass(part),
        "MASQUERADE" => nat(part, NatKind::Masquerade),
        "REDIRECT" => nat(part, NatKind::Redirect),
        "SNAT" => nat(part, NatKind::Snat),
        "DNAT" => nat(part, NatKind::Dnat),
        "NETMAP" => nat(part, NatKind::Netmap),
        name if PASSING.contains(&name) => pass(part),
        _ => None,
    }
}

fn pass(part: &Part) -> Option<Vec<Action>> {
    Some(vec![Action::Pass(part.raw())])
}

fn reject(part: &Part) -> String {
    part.option("--reject-with")
        .map_or("icmp-port-unreachable", |option| option.arg())
        .to_owned()
}

/// The five ways to write a mark: `--set-xmark V/M` clears M, then flips V; the others are saved as it.
fn mark(part: &Part, action: fn(u32, u32) -> Action) -> Option<Action> {
    let [option] = part.options.as_slice() else {
        return None;
    };
    let (value, mask) = words::masked32(option.arg())?;
    Some(match option.name.as_str() {
        "--set-xmark" => action(!mask, value),
        "--set-mark" => action(!(mask | value), value),
        "--or-mark" => action(!value, value),
        "--and-mark" => action(value, 0),
        "--xor-mark" => action(u32::MAX, value),
        _ => return None,
    })
}

fn connmark(part: &Part) -> Option<Action> {
    let mask = |name| match part.option(name).or_else(|| part.option("--mask")) {
        Some(option) => words::word32(option.arg()),
        None => Some(u32::MAX),
    };
    let others = |o: &&str| {
        part.options
            .iter()
            .all(|option| option.name == *o || option.name.ends_with("mask"))
    };
    let (nfmask, ctmask) = (mask("--nfmask")?, mask("--ctmask")?);
    if part.option("--restore-mark").is_some() && others(&"--restore-mark") {
        Some(Action::RestoreMark { nfmask, ctmask })
    } else if part.option("--save-mark").is_some() && others(&"--save-mark") {
        Some(Action::SaveMark { nfmask, ctmask })
    } else {
        mark(part, |and, xor| Action::SetCtMark { and, xor })
    }
}

/// `CT`: helpers, timeouts and events decide nothing; a zone for replies is not the request's.
fn ct(part: &Part) -> Option<Action> {
    if part.option("--notrack").is_some() {
        return Some(Action::Notrack);
    }
    let zone = part.option("--zone").or_else(|| part.option("--zone-orig"));
    match zone {
        Some(option) => option.arg().parse().ok().map(Action::SetZone),
        None => Some(Action::Pass(part.raw())),
    }
}

/// Marks the packet, hands it over and accepts it.
fn tproxy(part: &Part) -> Option<Vec<Action>> {
    let mark = match part.option("--tproxy-mark") {
        Some(option) => {
            let (value, mask) = words::masked32(option.arg())?;
            Some(Action::SetMark {
                and: !mask,
                xor: value,
            })
        }
        None => None,
    };
    let handed = [Action::Tproxy, Action::Verdict(Verdict::Accept)];
    Some(mark.into_iter().chain(handed).collect())
}

/// Reads every option of a translation; one that it does not know spoils it.
fn nat(part: &Part, kind: NatKind) -> Option<Vec<Action>> {
    let mut nat = Nat {
        kind,
        addrs: Vec::new(),
        ports: None,
        map: None,
        random: false,
    };
    for option in &part.options {
        match option.name.as_str() {
            "--to-source" | "--to-destination" => destination(option.arg(), &mut nat)?,
            "--to-ports" => nat.ports = Some(ports(option.arg())?),
            "--to" => nat.addrs.push(words::network(option.arg())?),
            "--random" | "--random-fully" => nat.random = true,
            "--persistent" => {}
            _ => return None,
        }
    }
    Some(vec![Action::Nat(nat)])
}

/// `A[-B][:P[-Q[/BASE]]]`, IPv6 addresses in brackets where ports follow.
fn destination(text: &str, nat: &mut Nat) -> Option<()> {
    let (addrs, after) = split_ports(text);
    if !addrs.is_empty() {
        let (from, to) = addrs.split_once('-').unwrap_or((addrs, addrs));
        nat.addrs.push(words::between(bare(from)?, bare(to)?)?);
    }
    if let Some(after) = after {
        nat.ports = Some(ports(after.split('/').next().unwrap_or_default())?);
    }
    Some(())
}

fn bare(text: &str) -> Option<IpAddr> {
    text.trim_matches(['[', ']']).parse().ok()
}

/// Addresses, and what stands behind the colon that begins the ports.
fn split_ports(text: &str) -> (&str, Option<&str>) {
    let is_v6 = text.starts_with('[') || text.matches(':').count() > 1;
    let split = if is_v6 {
        text.rsplit_once("]:")
    } else {
        text.split_once(':')
    };
    split.map_or((text, None), |(addrs, ports)| (addrs, Some(ports)))
}

fn ports(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    Some((low.parse().ok()?, high.parse().ok()?))
}
