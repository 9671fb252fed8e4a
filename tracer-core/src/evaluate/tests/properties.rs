//! What must hold for any rules and any packet.

use super::Store::Legacy;
use super::{nat, node, outward, ruleset, tcp};
use crate::evaluate::{Bits, End, Flow, Owner, Packet, Rules, Way, evaluate};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const TESTS: &[&str] = &[
    "-s 10.77.0.0/16",
    "! -d 192.168.50.0/24",
    "-p tcp -m tcp --dport 8080",
    "-m mark --mark 0x4000/0x4000",
    "-m mark ! --mark 0x1/0x1",
    "-m conntrack --ctstate NEW",
    "-m conntrack --ctstate DNAT",
    "-m length --length 60:1500",
    "-m addrtype --dst-type LOCAL",
    "-m owner --uid-owner 1000",
    "-m u32 --u32 \"0x6&0xff=0x6\"",
    "-m statistic --mode nth --every 2 --packet 0",
];

/// Chains with what may stand in them; later ones are called from earlier ones.
const CHAINS: &[(&str, &[&str])] = &[
    (
        "PREROUTING",
        &[
            "-j BEFORE",
            "-j MARK --set-xmark 0x4000/0x4000",
            "-j DNAT --to-destination 10.77.1.10",
            "-j RETURN",
        ],
    ),
    (
        "POSTROUTING",
        &[
            "-j AFTER",
            "-g AFTER",
            "-j SNAT --to-source 192.168.50.60",
            "-j MASQUERADE",
            "-j RETURN",
            "-j ACCEPT",
        ],
    ),
    (
        "BEFORE",
        &[
            "-j MARK --set-xmark 0x1/0x0",
            "-j DNAT --to-destination 192.168.50.10:80",
            "-j RETURN",
        ],
    ),
    (
        "AFTER",
        &[
            "-j MARK --set-xmark 0x0/0x4000",
            "-j SNAT --to-source 192.168.50.61",
            "-j RETURN",
            "-j ACCEPT",
        ],
    ),
];

fn rule() -> impl Strategy<Value = String> {
    let tests = subsequence(TESTS.to_vec(), 0..3);
    select(CHAINS).prop_flat_map(move |(chain, targets)| {
        (tests.clone(), select(targets))
            .prop_map(move |(tests, target)| format!("-A {chain} {} {target}", tests.join(" ")))
    })
}

fn rules() -> impl Strategy<Value = String> {
    prop::collection::vec(rule(), 0..12).prop_map(|rules| {
        nat(&format!(
            ":BEFORE - [0:0]\n:AFTER - [0:0]\n{}",
            rules.join("\n")
        ))
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let dst = select(&["192.168.50.20", "192.168.50.10", "203.0.113.9"][..]);
    (dst, select(&[80, 8080][..]), any::<u32>()).prop_map(|(dst, dport, mark)| Packet {
        mark: Bits::all(mark),
        uid: Owner::Is(1000),
        ..tcp("10.77.1.10", dst, dport, "veth-pod", "eth0")
    })
}

/// The same packet with less known of it.
fn forgetful(packet: &Packet, what: [bool; 4]) -> Packet {
    let mut packet = packet.clone();
    if what[0] {
        packet.mark = Bits::UNKNOWN;
    }
    if what[1] {
        packet.length = None;
    }
    if what[2] {
        packet.uid = Owner::Unknown;
    }
    if what[3] {
        packet.flow = Flow::unknown();
    }
    packet
}

pub(super) fn same(known: &End<'_>, other: &End<'_>) -> bool {
    known.fate == other.fate
        && known.source.as_ref().map(|d| d.by) == other.source.as_ref().map(|d| d.by)
        && known.destination.as_ref().map(|d| d.by) == other.destination.as_ref().map(|d| d.by)
}

proptest! {
    /// Whatever is forgotten of a packet: how it really fares stays among the answers, or the
    /// answer says that it was cut short.
    #[test]
    fn what_is_not_known_is_never_guessed(
        text in rules(),
        packet in packet(),
        forget: [bool; 4],
    ) {
        let stores = ruleset(&[Legacy(&text)]);
        let rules = Rules::new(&stores);
        let here = node();
        let known = evaluate(&rules, &packet, Way::Forwarded, &here);
        let partly = evaluate(&rules, &forgetful(&packet, forget), Way::Forwarded, &here);
        prop_assert!(!known.ends.is_empty());
        for end in &known.ends {
            let among = partly.ends.iter().any(|other| same(end, other));
            prop_assert!(among || !partly.doubts.is_empty(), "{end:#?}\nis not in\n{partly:#?}");
        }
        if let Some(source) = partly.source().certain() {
            let by = source.map(|decision| decision.by);
            prop_assert!(known.ends.iter().all(|end| end.source.as_ref().map(|d| d.by) == by));
        }
    }

    /// Rules that call each other in rings, as no kernel takes them, end all the same.
    #[test]
    fn rings_end(jumps in prop::collection::vec((0..4u8, 0..4u8, any::<bool>()), 0..12)) {
        let mut lines = ":C0 - [0:0]\n:C1 - [0:0]\n:C2 - [0:0]\n:C3 - [0:0]\n-A POSTROUTING -j C0\n".to_owned();
        for (from, to, goto) in jumps {
            lines += &format!("-A C{from} -{} C{to}\n", if goto { 'g' } else { 'j' });
        }
        let stores = ruleset(&[Legacy(&nat(&(lines + "-A POSTROUTING -j MASQUERADE")))]);
        let outcome = evaluate(&Rules::new(&stores), &outward(), Way::Forwarded, &node());
        prop_assert!(!outcome.ends.is_empty());
    }
}

/// A node with 20,000 services: the answer is there without a doubt.
#[test]
fn twenty_thousand_rules() {
    let mut lines = String::from(":KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n");
    for n in 0..20_000 {
        let (high, low) = (n / 250, n % 250);
        lines += &format!(
            "-A KUBE-SERVICES -d 10.96.{high}.{low}/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.77.1.10:{}\n",
            1000 + n
        );
    }
    let stores = ruleset(&[Legacy(&nat(&lines))]);
    let packet = tcp("10.77.1.11", "10.96.79.249", 80, "veth-pod", "veth-pod");
    let outcome = evaluate(&Rules::new(&stores), &packet, Way::Forwarded, &node());
    let answer = outcome.destination();
    let decision = answer.certain().and_then(|decision| *decision).unwrap();
    assert_eq!(decision.by.rule.index, 20_000);
}
