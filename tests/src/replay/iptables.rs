//! Made-up rules for both of iptables' backends.

use super::draft::{Chain, Draft, Table, Tool};
use super::random::Random;
use super::words::{ALIASES, ELSEWHERE, MARKS, MASKS, PORT_RANGES, PREFIXES};

/// The ipsets that rules name.
pub(super) const IPSETS: &str = "\
create nets hash:net family inet
add nets 10.12.3.0/26
add nets 10.40.0.0/16
add nets 10.40.1.64/26 nomatch
add nets 203.0.113.0/24
create pairs hash:ip,port family inet
add pairs 10.40.1.1,tcp:80
add pairs 203.0.113.5,udp:53
add pairs 10.40.2.2,udp:30000-30100
";

/// What a table's chains may do, by where they are called from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Raw,
    Mangle,
    NatBefore,
    NatAfter,
    Filter,
}

/// A table: name, built-in chains, and the roles of its own.
type Shape = (&'static str, &'static [(&'static str, Role)]);

const SHAPES: &[Shape] = &[
    ("raw", &[("PREROUTING", Role::Raw), ("OUTPUT", Role::Raw)]),
    (
        "mangle",
        &[
            ("PREROUTING", Role::Mangle),
            ("INPUT", Role::Mangle),
            ("FORWARD", Role::Mangle),
            ("OUTPUT", Role::Mangle),
            ("POSTROUTING", Role::Mangle),
        ],
    ),
    (
        "nat",
        &[
            ("PREROUTING", Role::NatBefore),
            ("INPUT", Role::NatAfter),
            ("OUTPUT", Role::NatBefore),
            ("POSTROUTING", Role::NatAfter),
        ],
    ),
    (
        "filter",
        &[
            ("INPUT", Role::Filter),
            ("FORWARD", Role::Filter),
            ("OUTPUT", Role::Filter),
        ],
    ),
];

/// A ruleset for one of the backends.
pub(super) fn tables(tool: Tool, random: &mut Random) -> Vec<Table> {
    let tables = SHAPES
        .iter()
        .filter(|(name, _)| *name == "nat" || random.percent(60));
    let tables: Vec<&Shape> = tables.collect();
    tables
        .into_iter()
        .map(|shape| table(tool, shape, random))
        .collect()
}

/// Every table, with no rules and policies that accept: a table that is not mentioned keeps both.
pub(super) fn empty(six: bool) -> Draft {
    let chain = |(name, _): &(&str, Role)| Chain {
        name: (*name).to_owned(),
        head: "ACCEPT".to_owned(),
        rules: Vec::new(),
    };
    let table = |(name, builtin): &Shape| Table {
        tool: Tool::Legacy,
        name: (*name).to_owned(),
        sets: String::new(),
        chains: builtin.iter().map(chain).collect(),
    };
    Draft {
        six,
        tables: SHAPES.iter().map(table).collect(),
    }
}

fn table(tool: Tool, (name, builtin): &Shape, random: &mut Random) -> Table {
    let mut roles: Vec<Role> = builtin.iter().map(|(_, role)| *role).collect();
    roles.dedup();
    roles.sort_by_key(|role| *role == Role::NatAfter);
    roles.dedup();
    let own: Vec<(String, Role)> = (0..random.below(5))
        .map(|n| (format!("OWN-{n}"), roles[random.below(roles.len())]))
        .collect();
    let mut chains = Vec::new();
    for (chain, role) in *builtin {
        let policy = if *role == Role::Filter && random.percent(6) {
            "DROP"
        } else {
            "ACCEPT"
        };
        chains.push(filled(chain, policy, *role, &own, random));
    }
    for (n, (chain, role)) in own.iter().enumerate() {
        chains.push(filled(chain, "-", *role, &own[n + 1..], random));
    }
    Table {
        tool,
        name: (*name).to_owned(),
        sets: String::new(),
        chains,
    }
}

fn filled(
    name: &str,
    head: &str,
    role: Role,
    callable: &[(String, Role)],
    random: &mut Random,
) -> Chain {
    let callable: Vec<&str> = callable
        .iter()
        .filter(|(_, of)| *of == role)
        .map(|(name, _)| name.as_str())
        .collect();
    let rules = (0..random.below(7)).map(|_| {
        let mut words: Vec<String> = Vec::new();
        for _ in 0..random.below(4) {
            let test = test(name, role, random);
            // x_tables takes each of its own options once.
            if !words.iter().any(|word| clashes(word, &test)) {
                words.push(test);
            }
        }
        words.sort_by_key(|word| !word.starts_with("-p ") && !word.starts_with("! -p "));
        let target = target(name, role, &callable, random);
        if target.starts_with("-p ") {
            words.retain(|word| !of_transport(word));
        }
        words.push(target);
        words.join(" ")
    });
    Chain {
        name: name.to_owned(),
        head: head.to_owned(),
        rules: rules.collect(),
    }
}

/// Whether a test asks for the protocol or what only it has.
fn of_transport(test: &str) -> bool {
    test.contains("-p ")
}

fn clashes(one: &str, other: &str) -> bool {
    let flag = |test: &str| {
        let word = test.split(' ').find(|word| word.starts_with('-'));
        word.map(|w| {
            if w == "-m" {
                test.to_owned()
            } else {
                w.to_owned()
            }
        })
    };
    flag(one) == flag(other)
}

fn not(random: &mut Random) -> &'static str {
    if random.percent(25) { "! " } else { "" }
}

fn test(chain: &str, role: Role, random: &mut Random) -> String {
    let not = not(random);
    match random.below(15) {
        0 | 1 => format!("{not}-s {}", random.pick(PREFIXES)),
        2 | 3 => format!("{not}-d {}", random.pick(PREFIXES)),
        4 => ports(random),
        5 if !matches!(chain, "OUTPUT" | "POSTROUTING") => {
            format!("{not}-i {}", random.pick(&["veth-pod", "veth+", "eth0"]))
        }
        6 if !matches!(chain, "PREROUTING" | "INPUT") => {
            format!("{not}-o {}", random.pick(&["eth0", "eth+", "ens5"]))
        }
        7 | 8 => {
            let (mark, mask) = (MARKS[random.below(6)], MASKS[random.below(6)]);
            format!("-m mark {not}--mark {:#x}/{mask:#x}", mark & mask)
        }
        9 if role != Role::Raw => {
            let state = random.pick(&["NEW", "INVALID,NEW", "ESTABLISHED", "DNAT", "NEW,SNAT"]);
            format!("-m conntrack {not}--ctstate {state}")
        }
        10 => {
            let kind = random.pick(&["LOCAL", "UNICAST", "MULTICAST"]);
            format!("-m addrtype {not}--dst-type {kind}")
        }
        11 => format!(
            "-m set {not}--match-set nets {}",
            random.pick(&["src", "dst"])
        ),
        12 => format!("-m set {not}--match-set pairs dst,dst"),
        13 => format!(
            "-m length {not}--length {}",
            random.pick(&["40", "28:39", "41:1500"])
        ),
        _ => format!("-m iprange {not}--dst-range 10.40.1.50-10.40.2.5"),
    }
}

fn ports(random: &mut Random) -> String {
    let not = not(random);
    match random.below(5) {
        0 => format!("{not}-p {}", random.pick(&["tcp", "udp", "icmp"])),
        1 => format!("-p icmp -m icmp {not}--icmp-type 8"),
        2 => format!("-p tcp -m tcp {not}--tcp-flags SYN,RST,ACK SYN"),
        3 => {
            let proto = random.pick(&["tcp", "udp"]);
            format!("-p {proto} -m multiport {not}--dports 53,443,8000:8100")
        }
        _ => {
            let proto = random.pick(&["tcp", "udp"]);
            let ports = random.pick(PORT_RANGES);
            format!("-p {proto} -m {proto} {not}--dport {ports}")
        }
    }
}

fn target(chain: &str, role: Role, callable: &[&str], random: &mut Random) -> String {
    if !callable.is_empty() && random.percent(40) {
        let how = if random.percent(80) { "-j" } else { "-g" };
        return format!("{how} {}", random.pick(callable));
    }
    let common = random.below(10);
    match (role, common) {
        (_, 0) => "-j ACCEPT".to_owned(),
        (_, 1 | 2) => "-j RETURN".to_owned(),
        (_, 3) => String::new(),
        (Role::Raw, 4) => "-j CT --notrack".to_owned(),
        (Role::Raw | Role::Filter, 5) => "-j DROP".to_owned(),
        (Role::Filter, 6 | 7) => "-j REJECT --reject-with icmp-port-unreachable".to_owned(),
        (Role::Filter | Role::Raw, _) => "-j ACCEPT".to_owned(),
        (Role::Mangle, 4) => "-j DROP".to_owned(),
        (Role::Mangle, 5) => "-j CONNMARK --save-mark --nfmask 0xffff --ctmask 0xffff".to_owned(),
        (Role::Mangle, 6) => "-j CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff".to_owned(),
        (Role::Mangle, _) | (_, 4) => mark(random),
        // Where it comes back to the node, nobody may answer: only the node's UDP sockets are silent.
        (Role::NatBefore, 5) if chain == "PREROUTING" => {
            "-p udp -j REDIRECT --to-ports 8080".to_owned()
        }
        (Role::NatBefore, 6) => format!(
            "-p tcp -j DNAT --to-destination {}:8080",
            random.pick(ELSEWHERE)
        ),
        (Role::NatAfter, 5 | 6) if chain == "POSTROUTING" => "-j MASQUERADE".to_owned(),
        (Role::NatBefore, _) => format!("-j DNAT --to-destination {}", random.pick(ELSEWHERE)),
        (Role::NatAfter, _) => format!("-j SNAT --to-source {}", random.pick(ALIASES)),
    }
}

fn mark(random: &mut Random) -> String {
    let mark = MARKS[random.below(MARKS.len())];
    match random.below(4) {
        0 => format!("-j MARK --set-mark {mark:#x}"),
        1 => format!("-j MARK --xor-mark {mark:#x}"),
        2 => format!("-j MARK --and-mark {:#x}", !mark),
        _ => format!("-j MARK --or-mark {mark:#x}"),
    }
}
