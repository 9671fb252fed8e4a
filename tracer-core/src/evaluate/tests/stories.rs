//! The field's cases that need more than one nat table and one answer.

use super::Store::{Ipset, IptablesNft, Legacy, Legacy6};
use super::{EXT, POD, lines, nat, node, outward, ruleset, table, tcp, told};
use crate::evaluate::{Flow, FlowState, Packet, Rules, Seen, Way, evaluate};

/// C31: chance is not predicted, but what conntrack tells of the destination decides.
#[test]
fn c31_the_branch_that_was_taken() {
    let rules = nat(
        ":KUBE-SVC-A - [0:0]\n:KUBE-SEP-1 - [0:0]\n:KUBE-SEP-2 - [0:0]\n\
         -A PREROUTING -d 10.96.0.44/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
         -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE\n\
         -A KUBE-SVC-A -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-1\n\
         -A KUBE-SVC-A -j KUBE-SEP-2\n\
         -A KUBE-SEP-1 -p tcp -j DNAT --to-destination 10.77.1.10:8080\n\
         -A KUBE-SEP-2 -j MARK --set-xmark 0x4000/0x4000\n\
         -A KUBE-SEP-2 -p tcp -j DNAT --to-destination 10.77.2.11:8080",
    );
    let stores = ruleset(&[Legacy(&rules)]);
    let rules = Rules::new(&stores);
    let packet = tcp(POD, "10.96.0.44", 80, "veth-pod", "eth0");
    let outcome = evaluate(&rules, &packet, Way::Forwarded, &node());
    assert_eq!(outcome.ends.len(), 2);
    assert_eq!(
        outcome.source().depends_on,
        ["-m statistic --mode random --probability 0.50000000000 (KUBE-SVC-A 1)"]
    );
    let seen = Seen {
        source: None,
        destination: Some("10.77.2.11:8080".parse().unwrap()),
    };
    assert_eq!(
        lines(&outcome.given(&seen)),
        "dst 10.77.2.11:8080 by [PREROUTING 1, KUBE-SVC-A 2, KUBE-SEP-2 2] of iptables-legacy\n\
         src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy marked by [PREROUTING 1, KUBE-SVC-A 2, KUBE-SEP-2 1]\n\
         near miss POSTROUTING 1: mark & 0x4000 is 0x4000"
    );
}

/// C34: the destination is in a pool, so the negated match failed.
#[test]
fn c34_a_member_exempts() {
    let sets = "create all hash:net family inet\nadd all 192.168.0.0/16\nadd all 192.168.50.64/26 nomatch\n";
    let rules = nat("-A POSTROUTING -m set ! --match-set all dst -j MASQUERADE --random-fully");
    let ask = |packet: &Packet| told(&[Ipset(sets), Legacy(&rules)], packet, Way::Forwarded);
    assert_eq!(
        ask(&outward()),
        "kept from POSTROUTING 1 by [POSTROUTING 1] member 192.168.0.0/16"
    );
    let excepted = tcp(POD, "192.168.50.77", 80, "veth-pod", "eth0");
    assert_eq!(
        ask(&excepted),
        "src 192.168.50.10:any by [POSTROUTING 1] of iptables-legacy"
    );
}

/// C35: IPv4 is masqueraded, IPv6 has no rule.
#[test]
fn c35_no_rule_for_ipv6() {
    let v4 = nat("-A POSTROUTING -j MASQUERADE");
    let v6 = nat("-A POSTROUTING -s fd77:2::/64 -j MASQUERADE");
    let packet = tcp("fd77:1::10", "fd50::20", 80, "veth-pod", "eth0");
    assert_eq!(
        told(&[Legacy(&v4), Legacy6(&v6)], &packet, Way::Forwarded),
        "passes\nnear miss POSTROUTING 1: source address is fd77:2::/64\nno rule matches"
    );
}

/// C46: the policy drops, or a rule.
#[test]
fn c46_dropped_in_forward() {
    let policy = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i eth0 -j ACCEPT\nCOMMIT\n";
    let masquerade = nat("-A POSTROUTING -j MASQUERADE");
    let text = policy.to_owned() + &masquerade;
    assert_eq!(
        told(&[Legacy(&text)], &outward(), Way::Forwarded),
        "dropped by policy of FORWARD"
    );
    let rule = table("filter", &["FORWARD"], "-A FORWARD -s 10.77.0.0/16 -j DROP");
    assert_eq!(
        told(&[Legacy(&rule)], &outward(), Way::Forwarded),
        "dropped by [FORWARD 1]"
    );
}

/// C48: INVALID packets are not translated, and a rule may drop them.
#[test]
fn c48_invalid_is_not_translated() {
    let rules = nat("-A POSTROUTING -j MASQUERADE");
    let mut packet = outward();
    packet.flow = Flow {
        state: FlowState::Invalid,
        ..Flow::unknown()
    };
    assert_eq!(
        told(&[Legacy(&rules)], &packet, Way::Forwarded),
        "passes\nno rule matches"
    );
    let filter = table(
        "filter",
        &["FORWARD"],
        "-A FORWARD -m conntrack --ctstate INVALID -j DROP",
    );
    assert_eq!(
        told(&[Legacy(&(rules + &filter))], &packet, Way::Forwarded),
        "dropped by [FORWARD 1]"
    );
}

/// C56: an ACCEPT before NOTRACK keeps the flow tracked.
#[test]
fn c56_notrack_and_what_goes_before_it() {
    let masquerade = nat("-A POSTROUTING -j MASQUERADE");
    let raw = |lines| table("raw", &["PREROUTING", "OUTPUT"], lines) + &masquerade;
    let untracked = raw("-A PREROUTING -d 192.168.50.20/32 -p tcp -m tcp --dport 8080 -j NOTRACK");
    assert_eq!(
        told(&[Legacy(&untracked)], &outward(), Way::Forwarded),
        "untracked by PREROUTING 1"
    );
    let accepted = raw("-A PREROUTING -i veth-pod -j ACCEPT\n-A PREROUTING -j NOTRACK");
    assert_eq!(
        told(&[Legacy(&accepted)], &outward(), Way::Forwarded),
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-legacy"
    );
}

/// C60: the agent's RETURN lives in one store, the rule that masquerades in the other.
#[test]
fn c60_two_stores() {
    let legacy = nat("-A POSTROUTING -d 192.168.50.0/24 -j ACCEPT");
    let nft = nat("-A POSTROUTING -s 10.77.0.0/16 -j MASQUERADE");
    assert_eq!(
        told(
            &[Legacy(&legacy), IptablesNft(&nft)],
            &outward(),
            Way::Forwarded
        ),
        "src 192.168.50.10 by [POSTROUTING 1] of iptables-nft"
    );
}

/// A reply to a masqueraded request: the binding turns its destination back before FORWARD sees it,
/// and NAT rules are not asked.
#[test]
fn replies_are_translated_by_their_binding() {
    let filter = table(
        "filter",
        &["FORWARD"],
        "-A FORWARD -d 10.77.0.0/16 -m conntrack --ctstate ESTABLISHED -j DROP",
    );
    let rules = nat("-A POSTROUTING -j MASQUERADE") + &filter;
    let mut reply = tcp(EXT, "192.168.50.10", 40_000, "eth0", "veth-pod");
    reply.flow = Flow {
        state: FlowState::Established,
        reply: Some(true),
        becomes: Some(inward_tuple()),
        ..Flow::unknown()
    };
    let ask = |packet: &Packet| told(&[Legacy(&rules)], packet, Way::Forwarded);
    assert_eq!(ask(&reply), "dropped by [FORWARD 1]");
    reply.flow.becomes = None;
    assert_eq!(
        ask(&reply),
        "dropped by [FORWARD 1]\npasses\ndepends on destination address is 10.77.0.0/16"
    );
}

fn inward_tuple() -> crate::packet::Tuple {
    tcp(EXT, POD, 40_000, "eth0", "veth-pod").tuple
}

/// C22 and C23 with IPVS: the set marks by the Service's address, the masquerade is of the packet that IPVS sends on.
/// INPUT's own translations and what is behind IPVS there are not met.
#[test]
fn c23_marked_before_ipvs() {
    let sets = "create KUBE-CLUSTER-IP hash:ip,port\nadd KUBE-CLUSTER-IP 10.96.0.50,tcp:80\n";
    let rules = nat(":KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n\
         -A PREROUTING -j KUBE-SERVICES\n\
         -A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ\n\
         -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
         -A INPUT -j SNAT --to-source 192.0.2.1\n\
         -A OUTPUT -d 192.168.50.20/32 -j DNAT --to-destination 192.0.2.2\n\
         -A POSTROUTING -d 10.96.0.50/32 -j SNAT --to-source 192.0.2.3\n\
         -A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A POSTROUTING -d 192.168.50.20/32 -p tcp -m tcp --dport 8080 -j MASQUERADE");
    let mut packet = tcp(POD, "10.96.0.50", 80, "veth-pod", "eth0");
    packet.balanced = Some("192.168.50.20:8080".parse().unwrap());
    assert_eq!(
        told(&[Ipset(sets), Legacy(&rules)], &packet, Way::Forwarded),
        "src 192.168.50.10 by [POSTROUTING 3] of iptables-legacy marked by [PREROUTING 1, KUBE-SERVICES 1, KUBE-MARK-MASQ 1]\n\
         near miss POSTROUTING 1: destination address is 10.96.0.50/32"
    );
}

/// Between two rules that ask for the same, one that asks something else of a source that is not known.
#[test]
fn what_was_assumed_is_not_forgotten_where_ways_meet() {
    let rules = nat(
        "-A POSTROUTING -m iprange --src-range 10.77.1.8-10.77.1.12 -j RETURN\n\
         -A POSTROUTING ! -s 10.77.1.10/32 -d 203.0.113.0/25 -j MARK --set-xmark 0x4000/0x4000\n\
         -A POSTROUTING -m iprange --src-range 10.77.1.8-10.77.1.12 -j MASQUERADE",
    );
    let mut packet = outward();
    packet.known.src = false;
    assert_eq!(
        told(&[Legacy(&rules)], &packet, Way::Forwarded),
        "kept from POSTROUTING 3 by [POSTROUTING 1]\npasses"
    );
}
