//! The attribution oracles I1 to I15: what was measured, and what the evaluator must say.

use super::Store::{Ipset, IptablesNft, Legacy};
use super::{EXT, nat, outward, ruleset, table, told, told_of};
use crate::evaluate::{Agreement, Bits, Flow, FlowState, Rules, Seen, Way, evaluate};
use crate::ruleset::{
    Action, Chain, ChainKind, Family, Hook, Policy, Rule, Step, TableId, Verdict,
};
use crate::ruleset::{Backend, Base, Nat, NatKind, Ruleset, Table, Value};

fn forwarded(lines: &str) -> String {
    told(&[Legacy(&nat(lines))], &outward(), Way::Forwarded)
}

#[test]
fn i1_first_of_two_equal_rules() {
    assert_eq!(
        forwarded(
            "-A POSTROUTING -m comment --comment A -j MASQUERADE\n\
             -A POSTROUTING -m comment --comment B -j MASQUERADE"
        ),
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy\n\
         POSTROUTING 1 shadows POSTROUTING 2"
    );
}

#[test]
fn i2_accept_before_it() {
    assert_eq!(
        forwarded("-A POSTROUTING -d 192.168.50.0/24 -j ACCEPT\n-A POSTROUTING -j MASQUERADE"),
        "kept from POSTROUTING 2 by [POSTROUTING 1]"
    );
}

/// An nft base chain of type nat with one rule.
fn nat_chain(name: &str, priority: i32, registered: Option<u64>, action: Action) -> Table {
    let base = Base {
        kind: ChainKind::Nat,
        hook: Hook::Postrouting,
        priority,
        policy: Policy::Accept,
        registered,
        devices: Vec::new(),
    };
    let rule = Rule {
        index: 1,
        handle: Some(2),
        text: String::new(),
        comment: None,
        owner: None,
        steps: vec![Step::Do(action)],
    };
    Table {
        id: TableId {
            backend: Backend::Nft,
            family: Family::Ip,
            name: name.to_owned(),
        },
        dormant: false,
        chains: vec![Chain {
            name: name.to_owned(),
            base: Some(base),
            rules: vec![rule],
        }],
    }
}

fn snat(addr: &str) -> Action {
    let addr = addr.parse().unwrap();
    Action::Nat(Nat {
        kind: NatKind::Snat,
        addrs: vec![Value::Addrs(addr, addr)],
        ports: None,
        map: None,
        random: false,
    })
}

fn nft(tables: Vec<Table>) -> String {
    let ruleset = Ruleset {
        tables,
        ..Ruleset::default()
    };
    told_of(&ruleset, &outward(), Way::Forwarded)
}

#[test]
fn i3_accept_in_another_base_chain_protects_from_nothing() {
    let accept = Action::Verdict(Verdict::Accept);
    let early = nat_chain("early", 90, None, accept);
    let late = nat_chain("late", 110, None, snat("192.168.50.10"));
    let answer = "src 192.168.50.10 by [late handle 2] of nft";
    assert_eq!(nft(vec![early, late]), answer);
}

#[test]
fn i4_lower_priority_wins_whichever_was_first() {
    for order in [[Some(1), Some(2)], [Some(2), Some(1)], [None, None]] {
        let a = nat_chain("a", 90, order[0], snat("192.168.50.77"));
        let b = nat_chain("b", 110, order[1], snat("192.168.50.10"));
        let answer = "src 192.168.50.77 by [a handle 2] of nft\na handle 2 shadows b handle 2";
        assert_eq!(nft(vec![a, b]), answer);
    }
}

#[test]
fn i5_newest_of_equal_priority_wins() {
    let a = nat_chain("a", 100, Some(1), snat("192.168.50.77"));
    let b = nat_chain("b", 100, Some(2), snat("192.168.50.10"));
    let answer = "src 192.168.50.10 by [b handle 2] of nft\nb handle 2 shadows a handle 2";
    assert_eq!(nft(vec![a, b]), answer);
}

/// Nobody tells in which order legacy and nft tables were made: both may be.
#[test]
fn i6_two_stores_without_known_order() {
    let rule = |addr| nat(&format!("-A POSTROUTING -j SNAT --to-source {addr}"));
    let legacy = rule("192.168.50.77");
    let nft = rule("192.168.50.10");
    let answer = told(
        &[Legacy(&legacy), IptablesNft(&nft)],
        &outward(),
        Way::Forwarded,
    );
    assert_eq!(
        answer,
        "src 192.168.50.77 by [POSTROUTING 1] of iptables-legacy\n\
         src 192.168.50.10 by [POSTROUTING 1] of iptables-nft\n\
         POSTROUTING 1 shadows POSTROUTING 1\n\
         POSTROUTING 1 shadows POSTROUTING 1\n\
         depends on the order of registration (iptables-legacy ip nat POSTROUTING, then iptables-nft ip nat POSTROUTING)\n\
         depends on the order of registration (iptables-nft ip nat POSTROUTING, then iptables-legacy ip nat POSTROUTING)"
    );
}

#[test]
fn i7_drop_in_a_later_nat_chain_is_not_reached() {
    let a = nat_chain("a", 90, None, snat("192.168.50.77"));
    let b = nat_chain("b", 100, None, Action::Verdict(Verdict::Drop));
    assert_eq!(nft(vec![a, b]), "src 192.168.50.77 by [a handle 2] of nft");
}

#[test]
fn i8_mark_without_mask_is_the_whole_mark() {
    let text = nat("-A POSTROUTING -m mark --mark 0x4000 -j MASQUERADE");
    let mut packet = outward();
    packet.mark = Bits::all(0x14000);
    assert_eq!(
        told(&[Legacy(&text)], &packet, Way::Forwarded),
        "passes\nnear miss POSTROUTING 1: mark is 0x4000\nno rule matches"
    );
}

#[test]
fn i9_chance_is_not_predicted() {
    assert_eq!(
        forwarded(
            "-A POSTROUTING -m statistic --mode nth --every 2 --packet 0 -j RETURN\n\
             -A POSTROUTING -j MASQUERADE"
        ),
        "src 192.168.50.10 by [POSTROUTING 2] of iptables-legacy\n\
         kept from POSTROUTING 2 by [POSTROUTING 1]\n\
         depends on -m statistic --mode nth --every 2 --packet 0 (POSTROUTING 1)"
    );
}

#[test]
fn i10_member_of_the_excluded_set() {
    let sets = "create pools-masq hash:net family inet hashsize 1024 maxelem 65536\n\
                add pools-masq 10.77.0.0/16\n\
                create pools-all hash:net family inet hashsize 1024 maxelem 65536\n\
                add pools-all 10.77.0.0/16\nadd pools-all 192.168.50.0/24\n";
    let rules = nat(
        "-A POSTROUTING -m set --match-set pools-masq src -m set ! --match-set pools-all dst -j MASQUERADE",
    );
    let answer = told(&[Ipset(sets), Legacy(&rules)], &outward(), Way::Forwarded);
    assert_eq!(
        answer,
        "kept from POSTROUTING 1 by [POSTROUTING 1] member 192.168.50.0/24"
    );
}

#[test]
fn i11_near_miss_by_the_out_device() {
    assert_eq!(
        forwarded("-A POSTROUTING -s 10.77.0.0/16 -o ens5 -j MASQUERADE"),
        "passes\nnear miss POSTROUTING 1: out-device is \"ens5\"\nno rule matches"
    );
    assert_eq!(
        forwarded("-A POSTROUTING -o eth+ -j MASQUERADE"),
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy"
    );
}

/// A binding that is older than the rules: NAT is not consulted, and a new flow would fare otherwise.
#[test]
fn i12_flow_older_than_the_rules() {
    let rules = nat("-A POSTROUTING -d 10.0.0.0/8 -j MASQUERADE");
    let ruleset = ruleset(&[Legacy(&rules)]);
    let mut packet = outward();
    let seen = Seen {
        source: Some("192.168.50.10:40000".parse().unwrap()),
        destination: None,
    };
    let indexed = Rules::new(&ruleset);
    let new = evaluate(&indexed, &packet, Way::Forwarded, &super::node());
    assert_eq!(new.explains(&seen), Agreement::Unexplained);
    packet.flow = Flow {
        state: FlowState::Established,
        ..Flow::unknown()
    };
    packet.tuple.dst = "10.1.1.1".parse().unwrap();
    assert_eq!(
        told_of(&ruleset, &packet, Way::Forwarded),
        "passes\nno rule matches"
    );
    packet.flow = Flow::new();
    let new = evaluate(&indexed, &packet, Way::Forwarded, &super::node());
    assert_eq!(new.explains(&seen), Agreement::Explained);
}

#[test]
fn i13_notrack_skips_nat() {
    let raw = table(
        "raw",
        &["PREROUTING", "OUTPUT"],
        "-A PREROUTING -s 10.77.0.0/16 -j CT --notrack",
    );
    let rules = raw + &nat("-A POSTROUTING -j MASQUERADE");
    assert_eq!(
        told(&[Legacy(&rules)], &outward(), Way::Forwarded),
        "untracked by PREROUTING 1"
    );
}

/// The node's eth0 has .10 first and .99 in the same network: masquerade takes the primary.
#[test]
fn i14_masquerade_takes_the_primary_address() {
    let mut packet = outward();
    packet.tuple.dst = "203.0.113.9".parse().unwrap();
    let rules = nat("-A POSTROUTING -j MASQUERADE");
    assert_eq!(
        told(&[Legacy(&rules)], &packet, Way::Forwarded),
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy"
    );
}

#[test]
fn i15_return_falls_through_to_the_next_chain() {
    let rules = "-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ\n\
                 -A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT\n\
                 -A IP-MASQ -d 192.168.0.0/16 -j RETURN\n-A IP-MASQ -j MASQUERADE\n\
                 -A IP-MASQ-AGENT -d 10.0.0.0/8 -j RETURN\n-A IP-MASQ-AGENT -j MASQUERADE";
    let text = format!(":IP-MASQ - [0:0]\n:IP-MASQ-AGENT - [0:0]\n{rules}");
    assert_eq!(
        forwarded(&text),
        "src 192.168.50.10 by [POSTROUTING 2, IP-MASQ-AGENT 2] of iptables-legacy"
    );
    assert_eq!(EXT, "192.168.50.20");
}
