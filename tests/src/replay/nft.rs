//! Made-up rules for nft itself.

use super::draft::{Chain, Table, Tool};
use super::random::Random;
use super::words::{ALIASES, ELSEWHERE, MARKS, MASKS, PREFIXES};

const SETS: &str = "\tset nets {
\t\ttype ipv4_addr
\t\tflags interval
\t\telements = { 10.12.3.0/26, 10.40.0.0/16, 203.0.113.0/24 }
\t}
\tset pairs {
\t\ttype ipv4_addr . inet_service
\t\telements = { 10.40.1.1 . 80, 203.0.113.5 . 53, 10.40.2.2 . 30080 }
\t}
\tmap aliases {
\t\ttype ipv4_addr : ipv4_addr
\t\tflags interval
\t\telements = { 10.12.3.0/26 : 10.99.0.7, 10.12.3.200 : 10.99.0.8 }
\t}
";

/// What a chain may do, by the hooks from which it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Filter chains, before conntrack.
    Raw,
    /// Filter chains.
    Filter,
    /// Filter chains of hooks at which a packet may be rejected.
    Gate,
    /// nat, prerouting and output.
    Before,
    /// nat, postrouting and input.
    After,
}

/// Hooks with their kinds, priorities and roles.
const BASES: &[(&str, &str, Role)] = &[
    ("filter", "prerouting priority -300", Role::Raw),
    ("filter", "prerouting priority -150", Role::Filter),
    ("nat", "prerouting priority -100", Role::Before),
    ("nat", "prerouting priority -90", Role::Before),
    ("filter", "prerouting priority -50", Role::Filter),
    ("filter", "forward priority 0", Role::Gate),
    ("filter", "forward priority -10", Role::Gate),
    ("filter", "postrouting priority 0", Role::Filter),
    ("nat", "postrouting priority 90", Role::After),
    ("nat", "postrouting priority 100", Role::After),
    ("nat", "postrouting priority 110", Role::After),
    ("filter", "postrouting priority 200", Role::Filter),
    ("filter", "input priority 0", Role::Gate),
    ("filter", "output priority -300", Role::Raw),
    ("filter", "output priority 10", Role::Gate),
    ("nat", "output priority -100", Role::Before),
];

/// A ruleset of one or two tables.
pub(super) fn tables(random: &mut Random) -> Vec<Table> {
    let tables = (0..1 + random.below(2)).map(|n| {
        let family = random.pick(&["ip", "inet"]);
        table(&format!("{family} made-{n}"), random)
    });
    tables.collect()
}

fn table(name: &str, random: &mut Random) -> Table {
    let own: Vec<(String, Role)> = (0..random.below(7))
        .map(|n| (format!("own-{n}"), BASES[random.below(BASES.len())].2))
        .collect();
    let mut chains = Vec::new();
    for (n, (chain, role)) in own.iter().enumerate() {
        chains.push(filled(chain, String::new(), *role, &own[n + 1..], random));
    }
    for (n, (kind, hook, role)) in BASES.iter().enumerate() {
        if !random.percent(45) {
            continue;
        }
        let drop = *kind == "filter" && random.percent(4);
        let policy = if drop { "drop" } else { "accept" };
        let head = format!("\t\ttype {kind} hook {hook}; policy {policy};");
        chains.push(filled(&format!("base-{n}"), head, *role, &own, random));
    }
    Table {
        tool: Tool::Nft,
        name: name.to_owned(),
        sets: SETS.to_owned(),
        chains,
    }
}

fn filled(
    name: &str,
    head: String,
    role: Role,
    callable: &[(String, Role)],
    random: &mut Random,
) -> Chain {
    let callable: Vec<&str> = callable
        .iter()
        .filter(|(_, of)| *of == role)
        .map(|(name, _)| name.as_str())
        .collect();
    let rules = 0..random.below(7);
    let rules = rules.map(|_| {
        let mut words: Vec<String> = Vec::new();
        for _ in 0..random.below(4) {
            let test = test(role, random);
            // nft refuses rules that want two protocols at once.
            if !words
                .iter()
                .any(|word| of_transport(word) && of_transport(&test))
            {
                words.push(test);
            }
        }
        let action = action(&head, role, &callable, random);
        if of_transport(&action) {
            words.retain(|word| !of_transport(word));
            words.push("meta l4proto udp".to_owned());
        }
        // Every rule counts, where all its tests have held.
        words.extend(["counter".to_owned(), action]);
        words.join(" ")
    });
    let rules = rules.collect();
    Chain {
        name: name.to_owned(),
        head,
        rules,
    }
}

fn of_transport(test: &str) -> bool {
    test.contains("dport") || test.contains("l4proto")
}

fn not(random: &mut Random) -> &'static str {
    if random.percent(25) { "!= " } else { "" }
}

fn test(role: Role, random: &mut Random) -> String {
    let not = not(random);
    match random.below(16) {
        0 => format!("ip saddr {not}{}", random.pick(PREFIXES)),
        1 => format!("ip daddr {not}{}", random.pick(PREFIXES)),
        2 => format!("ip daddr {not}{{ 10.40.1.0/24, 172.20.0.9, 203.0.113.5-203.0.113.80 }}"),
        3 => format!("ip saddr {not}@nets"),
        4 => format!("ip daddr {not}@nets"),
        5 => format!("meta l4proto {{ tcp, udp }} ip daddr . th dport {not}@pairs"),
        6 => format!(
            "iifname {not}\"{}\"",
            random.pick(&["veth-pod", "veth*", "eth0"])
        ),
        7 => format!(
            "oifname {not}\"{}\"",
            random.pick(&["eth0", "eth*", "ens5"])
        ),
        8 | 9 => {
            let (mark, mask) = (MARKS[random.below(6)], MASKS[random.below(6)]);
            let op = random.pick(&["==", "!="]);
            format!("meta mark & {mask:#x} {op} {:#x}", mark & mask)
        }
        10 => format!("meta l4proto {not}{{ tcp, udp }}"),
        11 => format!(
            "tcp dport {not}{}",
            random.pick(&["80", "1-1023", "{ 443, 8080 }"])
        ),
        12 => format!(
            "udp dport {not}{}",
            random.pick(&["53", "8000-8100", "{ 53, 30080 }"])
        ),
        13 if role != Role::Raw => {
            format!(
                "ct state {}",
                random.pick(&["new", "invalid", "established,related", "{ new, related }"])
            )
        }
        14 => format!("fib daddr type {not}{}", random.pick(&["local", "unicast"])),
        15 if role != Role::Raw => format!("ct status {}", random.pick(&["dnat", "snat"])),
        _ => format!(
            "meta length {not}{}",
            random.pick(&["40", "28-39", "41-1500"])
        ),
    }
}

fn action(chain: &str, role: Role, callable: &[&str], random: &mut Random) -> String {
    if !callable.is_empty() && random.percent(40) {
        let to = random.pick(callable);
        return match random.below(8) {
            0 => format!("goto {to}"),
            5 if role != Role::Raw => {
                format!("ct state vmap {{ new : jump {to}, invalid : return }}")
            }
            6 => format!("iifname vmap {{ \"veth-pod\" : goto {to}, \"eth0\" : accept }}"),
            7 => format!(
                "meta mark vmap {{ 0x1 : jump {to}, 0x20-0x4000 : return, 0x8000 : accept }}"
            ),
            1 => format!("ip daddr vmap {{ 10.40.0.0/16 : jump {to}, 203.0.113.5 : return }}"),
            2 => format!("udp dport vmap {{ 53 : jump {to}, 80 : accept, 1000-9000 : goto {to} }}"),
            _ => format!("jump {to}"),
        };
    }
    let role = match role {
        Role::Gate if random.percent(15) => return "reject".to_owned(),
        Role::Gate => Role::Filter,
        role => role,
    };
    match (role, random.below(10)) {
        (_, 0) => "accept".to_owned(),
        (_, 1 | 2) => "return".to_owned(),
        (_, 3) => String::new(),
        (Role::Raw, 4) => "notrack".to_owned(),
        (Role::Raw | Role::Filter, 5) => "drop".to_owned(),
        (Role::Filter, 6) => "ct mark set meta mark".to_owned(),
        (Role::Filter, 7) => "meta mark set ct mark".to_owned(),
        (Role::Raw | Role::Filter | Role::Gate, _) | (_, 4) => mark(random),
        // Where it comes back to the node, nobody may answer: only the node's UDP sockets are silent.
        (Role::Before, 5) if chain.contains("prerouting") => {
            "udp dport 1-65535 redirect to :443".to_owned()
        }
        (Role::Before, 6) => {
            "dnat ip to ip daddr map { 10.40.1.1 : 10.41.1.1, 203.0.113.0/24 : 10.40.2.2 }"
                .to_owned()
        }
        (Role::Before, _) => format!("dnat ip to {}", random.pick(ELSEWHERE)),
        (Role::After, 5) => "snat ip to ip saddr map @aliases".to_owned(),
        (Role::After, 6) => "masquerade".to_owned(),
        (Role::After, _) => format!("snat ip to {}", random.pick(ALIASES)),
    }
}

fn mark(random: &mut Random) -> String {
    let mark = MARKS[random.below(MARKS.len())];
    match random.below(4) {
        0 => format!("meta mark set {mark:#x}"),
        1 => format!("meta mark set meta mark ^ {mark:#x}"),
        2 => format!("meta mark set meta mark & {:#x}", !mark),
        _ => format!("meta mark set meta mark | {mark:#x}"),
    }
}
