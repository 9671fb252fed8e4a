//! What each agent makes of its files.

use super::decode::{self, Fields, Item, LIST, LOCAL, RESYNC};
use super::traps::{Trap, TrapKind};
use super::{Agent, Config, Entry, Flags, Invalid, Reading, Refusal, Span, cidr, yaml};
use ipnet::IpNet;

/// A file as the agent has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, or the ConfigMap's key.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

pub(super) const PRIVATE: &[&str] = &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];
pub(super) const RESERVED: &[&str] = &[
    "100.64.0.0/10",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
];
const LIMIT: i64 = 64;

/// What an agent makes of its files (upstream and Cilium have one). Without any it takes its defaults.
#[must_use]
pub fn read(agent: Agent, files: &[File], flags: &Flags) -> Reading {
    let mut traps = Vec::new();
    let config = match (agent, files) {
        (_, []) => Ok(defaults(agent, flags)),
        (Agent::Azure, files) => azure(files, flags, &mut traps),
        (Agent::Cilium, [file, ..]) => cilium(file, flags, &mut traps),
        (Agent::Upstream, [file, ..]) => upstream(file, flags, &mut traps),
    };
    if let Ok(config) = &config {
        covered(config, &mut traps);
    }
    Reading {
        agent,
        found: !files.is_empty(),
        config,
        traps,
    }
}

fn defaults(agent: Agent, flags: &Flags) -> Config {
    let all = flags.reserved_ranges || agent == Agent::Cilium;
    let reserved = RESERVED.iter().filter(|_| all);
    let nets = PRIVATE.iter().chain(reserved);
    Config {
        entries: nets
            .filter_map(|net| net.parse().ok())
            .map(Entry::own)
            .collect(),
        defaults: true,
        ..empty(agent, flags)
    }
}

fn empty(agent: Agent, flags: &Flags) -> Config {
    Config {
        entries: Vec::new(),
        defaults: false,
        cidr_limit: LIMIT,
        masq_link_local: false,
        masq_link_local_v6: false,
        resync: match agent {
            Agent::Upstream => Some(Span::seconds(60)),
            Agent::Azure => Some(flags.resync),
            Agent::Cilium => None,
        },
    }
}

/// The keys that are there override the defaults, one by one.
fn upstream(file: &File, flags: &Flags, traps: &mut Vec<Trap>) -> Result<Config, Invalid> {
    let fields = fields(file, Agent::Upstream, traps)?;
    let mut config = defaults(Agent::Upstream, flags);
    config.cidr_limit = fields.cidr_limit.unwrap_or(config.cidr_limit);
    config.resync = fields.resync.or(config.resync);
    if let Some(list) = &fields.cidrs {
        config.defaults = false;
        let list = leftovers(list.as_deref().unwrap_or_default(), &config.entries, traps);
        within(list.len(), config.cidr_limit, fields.cidrs_line)?;
        config.entries = entries(&list, flags, traps)?;
        emptied(&fields, traps);
    } else {
        within(config.entries.len(), config.cidr_limit, None)?;
    }
    link_local(&mut config, &fields, traps);
    interval(&config, &fields, traps);
    Ok(config)
}

/// Every file is checked alone, then their lists are joined and their switches or-ed.
fn azure(files: &[File], flags: &Flags, traps: &mut Vec<Trap>) -> Result<Config, Invalid> {
    let mut config = empty(Agent::Azure, flags);
    for file in files {
        let named = |error: Invalid| Invalid {
            why: format!("{} (in {})", error.why, file.name),
            ..error
        };
        let fields = fields(file, Agent::Azure, traps).map_err(named)?;
        let list = fields.cidrs.clone().flatten().unwrap_or_default();
        within(list.len(), LIMIT, fields.cidrs_line).map_err(named)?;
        for entry in entries(&list, flags, traps).map_err(named)? {
            if !config.entries.iter().any(|known| known.net == entry.net) {
                config.entries.push(entry);
            }
        }
        let mut alone = config.clone();
        link_local(&mut alone, &fields, traps);
        config.masq_link_local |= alone.masq_link_local;
        config.masq_link_local_v6 |= alone.masq_link_local_v6;
    }
    if config.entries.is_empty() {
        let text = "no file lists a prefix: everything but link-local is masqueraded (ip-masq-agent-v2 has \
                    no defaults once there is a file)";
        traps.push(Trap::new(TrapKind::EmptyList, None, text));
    }
    let resync = Fields::default();
    interval(&config, &resync, traps);
    Ok(config)
}

/// Only the list and the switches; a prefix is aligned without a word.
fn cilium(file: &File, flags: &Flags, traps: &mut Vec<Trap>) -> Result<Config, Invalid> {
    if file.bytes.is_empty() {
        return Ok(defaults(Agent::Cilium, flags));
    }
    let fields = fields(file, Agent::Cilium, traps)?;
    let mut config = empty(Agent::Cilium, flags);
    for (text, line) in fields.cidrs.iter().flatten().flatten() {
        let text = text.as_deref().unwrap_or_default();
        let cidr = cidr::parse(text).map_err(|why| {
            Invalid::of(LIST, Some(*line), format!("{text:?} is no prefix: {why}"))
        })?;
        if cidr.misaligned {
            let told = format!("{text:?} is taken as {}", cidr.net);
            traps.push(
                Trap::new(TrapKind::Realigned, Some(*line), told)
                    .fix(format!("write {}", cidr.net)),
            );
        }
        config.entries.push(Entry {
            net: cidr.net,
            line: Some(*line),
        });
    }
    if config.entries.is_empty() {
        let text = "the file lists no prefix: everything but link-local is masqueraded (the defaults are for \
                    a file that is absent or has no byte)";
        traps.push(Trap::new(TrapKind::EmptyList, fields.cidrs_line, text));
    }
    link_local(&mut config, &fields, traps);
    Ok(config)
}

fn fields(file: &File, agent: Agent, traps: &mut Vec<Trap>) -> Result<Fields, Invalid> {
    let document = yaml::read(&file.bytes).map_err(|malformed| Invalid {
        line: malformed.line,
        key: None,
        why: malformed.why,
        by: Refusal::Agent,
    })?;
    decode::decode(&document, agent, traps)
}

fn within(count: usize, most: i64, line: Option<usize>) -> Result<(), Invalid> {
    if i64::try_from(count).unwrap_or(i64::MAX) <= most {
        return Ok(());
    }
    let why = format!("{count} entries, and at most {most} are taken");
    Err(Invalid::of(LIST, line, why))
}

/// Go's decoder writes a list over the default one, and an entry without a value leaves what stood there:
/// the default of that place (run with Go 1.19).
fn leftovers(list: &[Item], defaults: &[Entry], traps: &mut Vec<Trap>) -> Vec<Item> {
    let taken = |(n, (text, line)): (usize, &Item)| {
        let Some(left) = defaults.get(n).filter(|_| text.is_none()) else {
            return (text.clone(), *line);
        };
        let told = format!(
            "an entry has no value: the agent takes {} for it, its own default at this place",
            left.net
        );
        traps.push(Trap::new(TrapKind::Realigned, Some(*line), told).fix("take the line out"));
        (Some(left.net.to_string()), *line)
    };
    list.iter().enumerate().map(taken).collect()
}

/// Checks the entries in order; the first bad one throws all away.
fn entries(list: &[Item], flags: &Flags, traps: &mut Vec<Trap>) -> Result<Vec<Entry>, Invalid> {
    let mut refused = None;
    let mut all = Vec::new();
    for (text, line) in list {
        let text = text.as_deref().unwrap_or_default();
        let wrong = |why: String| Invalid::of(LIST, Some(*line), format!("{text:?} {why}"));
        let cidr = cidr::parse(text).map_err(|why| wrong(format!("is no prefix: {why}")))?;
        if cidr.misaligned {
            return Err(wrong(format!(
                "is not aligned; its network is {}",
                cidr.net
            )));
        }
        if cidr.net.addr().is_ipv6() && !cidr.mapped && !flags.ipv6 {
            return Err(wrong(
                "is IPv6, and the agent runs without --enable-ipv6".to_owned(),
            ));
        }
        let unwritable = match (cidr.mapped, cidr.octal) {
            (true, _) => {
                Some("is IPv4 written as IPv6: the agent takes it, and iptables refuses the rule")
            }
            (_, Some(None)) => Some(
                "has a length that begins with 0: the agent takes it, and iptables refuses the rule",
            ),
            _ => None,
        };
        if let Some(why) = unwritable.filter(|_| refused.is_none()) {
            refused = Some(Invalid {
                by: Refusal::Iptables,
                ..wrong(why.to_owned())
            });
        }
        let net = cidr.octal.flatten().unwrap_or(cidr.net);
        if net != cidr.net {
            let told = format!(
                "{text:?} becomes {net} in the rule: iptables reads a length that begins with 0 as octal"
            );
            let trap = Trap::new(TrapKind::Realigned, Some(*line), told);
            traps.push(trap.fix(format!("write {}", cidr.net)));
        }
        all.push(Entry {
            net,
            line: Some(*line),
        });
    }
    refused.map_or(Ok(all), Err)
}

/// An empty list is another thing than no list.
fn emptied(fields: &Fields, traps: &mut Vec<Trap>) {
    let how = match &fields.cidrs {
        Some(None) => "has no value",
        Some(Some(list)) if list.is_empty() => "is an empty list",
        _ => return,
    };
    let text = format!(
        "{LIST} {how}: that is no default, nothing but link-local (unless masqLinkLocal) is exempt"
    );
    traps.push(
        Trap::new(TrapKind::EmptyList, fields.cidrs_line, text).fix(format!(
            "take the line out to have the defaults ({})",
            PRIVATE.join(", ")
        )),
    );
}

fn link_local(config: &mut Config, fields: &Fields, traps: &mut Vec<Trap>) {
    config.masq_link_local = fields.link_local.unwrap_or(false);
    config.masq_link_local_v6 = fields.link_local_v6.unwrap_or(false);
    let switches = [config.masq_link_local, config.masq_link_local_v6];
    for (masqueraded, (key, own)) in switches.into_iter().zip([
        (LOCAL, super::LINK_LOCAL[0]),
        (decode::LOCAL_V6, super::LINK_LOCAL[1]),
    ]) {
        let Ok(own) = own.parse::<IpNet>() else {
            continue;
        };
        let again = config.entries.iter().find(|entry| entry.net.contains(&own));
        if let Some(entry) = again.filter(|_| masqueraded) {
            let text = format!(
                "{key} is true, and {} in the list exempts {own} again",
                entry.net
            );
            traps.push(Trap::new(TrapKind::LinkLocal, entry.line, text));
        }
    }
}

fn interval(config: &Config, fields: &Fields, traps: &mut Vec<Trap>) {
    const DAY: Span = Span::seconds(24 * 3600);
    let Some(span) = config.resync else { return };
    let line = fields.resync_line;
    if span <= Span(0) {
        let text =
            format!("{RESYNC} {span}: the agent never rests, it writes its rules again and again");
        traps.push(Trap::new(TrapKind::BusyLoop, line, text).fix("write \"60s\""));
    } else if span > DAY {
        let text = format!(
            "{RESYNC} {span}: an edit is read, and damaged rules are healed, only so often"
        );
        traps.push(Trap::new(TrapKind::NeverReread, line, text).fix("write \"60s\""));
    }
}

/// Entries that an earlier one covers do nothing. Of very long lists it is not told.
fn covered(config: &Config, traps: &mut Vec<Trap>) {
    const MOST: usize = 1000;
    if config.entries.len() > MOST {
        return;
    }
    for (n, entry) in config.entries.iter().enumerate() {
        let earlier = config.entries[..n]
            .iter()
            .find(|e| e.net.contains(&entry.net));
        if let Some(wider) = earlier {
            let text = format!(
                "{} adds nothing: {} before it covers it",
                entry.net, wider.net
            );
            traps.push(Trap::new(TrapKind::Covered, entry.line, text));
        }
    }
}
