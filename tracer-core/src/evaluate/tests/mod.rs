//! Rules as their tools print them, a packet, and what the evaluator says.

mod cases;
mod fixtures;
mod many;
mod oracles;
mod properties;
mod stories;

use super::{
    Bits, End, Fate, Outcome, Owner, Packet, Port, Rules, Target, Translation, Way, evaluate, words,
};
use crate::inventory::{Link, Namespace, Route};
use crate::packet::{Proto, Tuple};
use crate::ruleset::{Backend, Family, Ruleset, ipset, iptables};
use ipnet::IpNet;

/// The address of a pod behind the node.
const POD: &str = "10.77.1.10";
/// The outside.
const EXT: &str = "192.168.50.20";

/// A store's rules, by the tool that prints them.
enum Store<'a> {
    Ipset(&'a str),
    Legacy(&'a str),
    Legacy6(&'a str),
    IptablesNft(&'a str),
}

/// All of a namespace's stores. ipsets come first.
fn ruleset(stores: &[Store<'_>]) -> Ruleset {
    let mut all = Ruleset::default();
    for store in stores {
        let (backend, family, text) = match store {
            Store::Ipset(text) => {
                all.sets.extend(ipset::parse(text).sets);
                continue;
            }
            Store::Legacy(text) => (Backend::IptablesLegacy, Family::Ip, text),
            Store::Legacy6(text) => (Backend::IptablesLegacy, Family::Ip6, text),
            Store::IptablesNft(text) => (Backend::IptablesNft, Family::Ip, text),
        };
        let sets = &all.sets;
        let saved = iptables::parse(
            text,
            &iptables::Origin {
                backend,
                family,
                sets,
            },
        );
        all.tables.extend(saved.tables);
        all.unread.extend(saved.unread);
    }
    all
}

/// A nat table with these lines after the built-in chains.
fn nat(lines: &str) -> String {
    table(
        "nat",
        &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        lines,
    )
}

fn table(name: &str, chains: &[&str], lines: &str) -> String {
    let chains: String = chains
        .iter()
        .map(|chain| format!(":{chain} ACCEPT [0:0]\n"))
        .collect();
    format!("*{name}\n{chains}{lines}\nCOMMIT\n")
}

/// The node of the field's lab: a pod's network behind `veth-pod`, the world behind `eth0`.
fn node() -> Namespace {
    let net = |text: &str| text.parse::<IpNet>().unwrap();
    let link = |name: &str, addrs: &[&str]| Link {
        name: name.to_owned(),
        addrs: addrs.iter().map(|a| net(a)).collect(),
        loopback: name == "lo",
        up: true,
        ..Link::default()
    };
    let links = [
        (1, link("lo", &["127.0.0.1/8", "::1/128"])),
        (2, link("veth-pod", &["10.77.1.1/24", "fd77:1::1/64"])),
        (3, link("eth0", &["192.168.50.10/24", "192.168.50.99/24"])),
    ];
    Namespace {
        links: links.into(),
        routes: vec![Route {
            to: net("0.0.0.0/0"),
            via: Some("192.168.50.1".parse().unwrap()),
            ifindex: 3,
        }],
        ..Namespace::default()
    }
}

/// The first TCP packet of a flow.
fn tcp(src: &str, dst: &str, dport: u16, iif: &str, oif: &str) -> Packet {
    let tuple = Tuple {
        src: src.parse().unwrap(),
        sport: 40_000,
        dst: dst.parse().unwrap(),
        dport,
        proto: Proto::TCP,
    };
    Packet {
        mark: Bits::all(0),
        tcp_flags: Some(2),
        length: Some(60),
        uid: Owner::None,
        gid: Owner::None,
        ..Packet::first(tuple, Some(iif), Some(oif))
    }
}

/// The packet of most cases: from the pod to the outside.
fn outward() -> Packet {
    tcp(POD, EXT, 8080, "veth-pod", "eth0")
}

/// What the evaluator says, in lines.
fn told(stores: &[Store<'_>], packet: &Packet, way: Way) -> String {
    told_of(&ruleset(stores), packet, way)
}

fn told_of(ruleset: &Ruleset, packet: &Packet, way: Way) -> String {
    let rules = Rules::new(ruleset);
    let outcome = evaluate(&rules, packet, way, &node());
    lines(&outcome)
}

fn lines(outcome: &Outcome<'_>) -> String {
    let mut lines: Vec<String> = outcome.ends.iter().flat_map(end_lines).collect();
    for miss in &outcome.near_misses {
        lines.push(format!(
            "near miss {}: {}",
            miss.rule,
            words::test(miss.test)
        ));
    }
    for late in &outcome.shadowed {
        lines.push(format!("{} shadows {}", late.by, late.rule));
    }
    let mut depends = outcome.source().depends_on;
    for text in [outcome.destination().depends_on, outcome.fate().depends_on].concat() {
        if !depends.contains(&text) {
            depends.push(text);
        }
    }
    lines.extend(depends.iter().map(|text| format!("depends on {text}")));
    if outcome.no_rule_matches() {
        lines.push("no rule matches".to_owned());
    }
    lines.join("\n")
}

fn end_lines(end: &End<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (what, decision) in [("dst", &end.destination), ("src", &end.source)] {
        let Some(decision) = decision else { continue };
        let mut line = format!(
            "{what} {} by {:?} of {}",
            translation(&decision.translation),
            decision.path,
            decision.by.table.id.backend
        );
        if !decision.marked_by.is_empty() {
            let paths = decision.marked_by.iter();
            let paths: Vec<String> = paths.map(|m| format!("{:?}", m.path)).collect();
            line.push_str(&format!(" marked by {}", paths.join(" and ")));
        }
        lines.push(line);
    }
    if let Some(exemption) = end.exempted_by() {
        let member = exemption.member.as_ref();
        let member = member.map_or(String::new(), |m| format!(" member {m}"));
        let from = exemption.from.map(|at| at.to_string()).unwrap_or_default();
        lines.push(format!("kept from {from} by {:?}{member}", exemption.path));
    }
    lines.extend(end.untracked.map(|at| format!("untracked by {at}")));
    lines.extend(end.stateless.iter().map(|at| format!("written by {at}")));
    match &end.fate {
        Fate::Passes if lines.is_empty() => lines.push("passes".to_owned()),
        Fate::Passes => {}
        Fate::Dropped { path, .. } => lines.push(format!("dropped by {path:?}")),
        Fate::Policy { chain, .. } => lines.push(format!("dropped by policy of {}", chain.0.name)),
        Fate::Queued(at) => lines.push(format!("queued by {at}")),
    }
    lines
}

fn translation(translation: &Translation) -> String {
    let addr = match &translation.addr {
        Target::Same => "same".to_owned(),
        Target::One(addr) => addr.to_string(),
        Target::OneOf(values) => values
            .iter()
            .map(words::value)
            .collect::<Vec<_>>()
            .join(","),
        Target::Unknown(why) => format!("? ({why})"),
    };
    match translation.port {
        Port::Kept => addr,
        Port::Within(low, high) if low == high => format!("{addr}:{low}"),
        Port::Within(low, high) => format!("{addr}:{low}-{high}"),
        Port::Any => format!("{addr}:any"),
    }
}
