//! Real dumps: agents, kube-proxy's nftables form, and whatever nft can say.

use super::{EXT, POD, outward, tcp, told_of};
use crate::evaluate::{Packet, Way};
use crate::ruleset::{Dumps, Family, Ruleset, assemble};

fn native() -> Ruleset {
    let json = include_str!("../../../tests/fixtures/rules/native.nft.json");
    let text = include_str!("../../../tests/fixtures/rules/native.nft");
    assemble(&Dumps {
        nft_json: Some(json.to_owned()),
        nft_text: Some(text.to_owned()),
        ..Dumps::default()
    })
}

fn agent(dump: &str) -> String {
    let ruleset = assemble(&Dumps {
        nft_save: vec![(Family::Ip, dump.to_owned())],
        ..Dumps::default()
    });
    let ask = |dst| {
        let packet = tcp(POD, dst, 443, "veth-pod", "eth0");
        told_of(&ruleset, &packet, Way::Forwarded)
    };
    [EXT, "10.11.3.4", "10.99.0.1", "169.254.169.254"]
        .map(|dst| format!("{dst}: {}", ask(dst)))
        .join("\n")
}

#[test]
fn agent_as_written() {
    let dump = include_str!("../../../tests/fixtures/rules/K01-as-written.iptables-nft-save");
    assert_eq!(
        agent(dump),
        "192.168.50.20: src 192.168.50.10:any by [POSTROUTING 1, IP-MASQ-AGENT 3] of iptables-nft\n\
         10.11.3.4: kept from IP-MASQ-AGENT 3 by [POSTROUTING 1, IP-MASQ-AGENT 1]\n\
         10.99.0.1: src 192.168.50.10:any by [POSTROUTING 1, IP-MASQ-AGENT 3] of iptables-nft\n\
         169.254.169.254: src 192.168.50.10:any by [POSTROUTING 1, IP-MASQ-AGENT 3] of iptables-nft"
    );
}

#[test]
fn agent_with_a_null_list() {
    let dump = include_str!("../../../tests/fixtures/rules/K04-null-list.iptables-nft-save");
    assert_eq!(
        agent(dump),
        "192.168.50.20: src 192.168.50.10:any by [POSTROUTING 1, IP-MASQ-AGENT 2] of iptables-nft\n\
         10.11.3.4: src 192.168.50.10:any by [POSTROUTING 1, IP-MASQ-AGENT 2] of iptables-nft\n\
         10.99.0.1: src 192.168.50.10:any by [POSTROUTING 1, IP-MASQ-AGENT 2] of iptables-nft\n\
         169.254.169.254: kept from IP-MASQ-AGENT 2 by [POSTROUTING 1, IP-MASQ-AGENT 1]"
    );
}

#[test]
fn agent_that_exempts_everything() {
    let dump = include_str!("../../../tests/fixtures/rules/K12-zero.iptables-nft-save");
    assert_eq!(
        agent(dump),
        "192.168.50.20: kept from IP-MASQ-AGENT 3 by [POSTROUTING 1, IP-MASQ-AGENT 2]\n\
         10.11.3.4: kept from IP-MASQ-AGENT 3 by [POSTROUTING 1, IP-MASQ-AGENT 2]\n\
         10.99.0.1: kept from IP-MASQ-AGENT 3 by [POSTROUTING 1, IP-MASQ-AGENT 2]\n\
         169.254.169.254: kept from IP-MASQ-AGENT 3 by [POSTROUTING 1, IP-MASQ-AGENT 1]"
    );
}

fn ask(packet: &Packet) -> String {
    told_of(&native(), packet, Way::Forwarded)
}

/// Both the marking and the masquerading rule, through verdict maps and gotos.
#[test]
fn kube_proxy_in_nftables() {
    let packet = tcp(EXT, "192.168.50.99", 80, "eth0", "veth-pod");
    assert_eq!(
        ask(&packet),
        "dst 10.77.1.10:8080 by [nat-prerouting handle 19, services handle 24, external-AAAAAAAA-shop/cart/tcp/http handle 32, service-AAAAAAAA-shop/cart/tcp/http handle 35, endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 37] of nft\n\
         src 10.77.1.1:any by [nat-postrouting handle 21, masquerading handle 28] of nft marked by [nat-prerouting handle 19, services handle 24, external-AAAAAAAA-shop/cart/tcp/http handle 31, mark-for-masquerade handle 29]\n\
         dst 10.77.2.11:8080 by [nat-prerouting handle 19, services handle 24, external-AAAAAAAA-shop/cart/tcp/http handle 32, service-AAAAAAAA-shop/cart/tcp/http handle 35, endpoint-22222222-shop/cart/tcp/http__10.77.2.11/8080 handle 39] of nft\n\
         src 10.77.1.1:any by [nat-postrouting handle 21, masquerading handle 28] of nft marked by [nat-prerouting handle 19, services handle 24, external-AAAAAAAA-shop/cart/tcp/http handle 31, mark-for-masquerade handle 29]\n\
         endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 37 shadows pre handle 38\n\
         endpoint-22222222-shop/cart/tcp/http__10.77.2.11/8080 handle 39 shadows pre handle 38\n\
         depends on branch 1 of 2 (service-AAAAAAAA-shop/cart/tcp/http handle 35)\n\
         depends on branch 2 of 2 (service-AAAAAAAA-shop/cart/tcp/http handle 35)"
    );
}

#[test]
fn kube_proxy_from_inside_is_not_marked() {
    let packet = tcp("10.77.3.3", "10.96.0.44", 80, "veth-pod", "veth-pod");
    assert_eq!(
        ask(&packet),
        "dst 10.77.1.10:8080 by [nat-prerouting handle 19, services handle 24, service-AAAAAAAA-shop/cart/tcp/http handle 35, endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 37] of nft\n\
         kept from masquerading handle 28 by [nat-postrouting handle 21, masquerading handle 26]\n\
         dst 10.77.2.11:8080 by [nat-prerouting handle 19, services handle 24, service-AAAAAAAA-shop/cart/tcp/http handle 35, endpoint-22222222-shop/cart/tcp/http__10.77.2.11/8080 handle 39] of nft\n\
         kept from masquerading handle 28 by [nat-postrouting handle 21, masquerading handle 26]\n\
         endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 37 shadows pre handle 38\n\
         endpoint-22222222-shop/cart/tcp/http__10.77.2.11/8080 handle 39 shadows pre handle 38\n\
         depends on branch 1 of 2 (service-AAAAAAAA-shop/cart/tcp/http handle 35)\n\
         depends on branch 2 of 2 (service-AAAAAAAA-shop/cart/tcp/http handle 35)"
    );
}

#[test]
fn map_of_addresses() {
    assert_eq!(
        ask(&outward()),
        "src 192.168.50.61 by [post handle 25] of nft\n\
         near miss pre handle 38: destination port is 80\n\
         near miss post handle 23: source address and out-device and mark in set pairs of table inet lab"
    );
}

#[test]
fn prefix_to_prefix() {
    let packet = tcp("10.88.0.7", EXT, 443, "veth-pod", "eth0");
    assert_eq!(
        ask(&packet),
        "src 10.200.88.7 by [post handle 27] of nft\n\
         near miss pre handle 38: destination port is 80\n\
         near miss post handle 23: source address and out-device and mark in set pairs of table inet lab"
    );
}

#[test]
fn numgen_map() {
    let packet = tcp("10.99.1.7", EXT, 443, "veth-pod", "eth0");
    assert_eq!(
        ask(&packet),
        "src 192.168.50.63,192.168.50.64 by [post handle 31] of nft\n\
         near miss pre handle 38: destination port is 80\n\
         near miss post handle 23: source address and out-device and mark in set pairs of table inet lab"
    );
}

#[test]
fn stateless_before_conntrack() {
    let packet = tcp("203.0.113.9", POD, 80, "eth0", "veth-pod");
    assert_eq!(
        ask(&packet),
        "dst 192.168.50.10:8080 by [pre handle 38] of nft\n\
         kept from masquerading handle 28 by [nat-postrouting handle 21, masquerading handle 26]\n\
         written by in handle 2\n\
         near miss post handle 31: source address is 10.99.0.0/16\n\
         near miss post handle 33: source address is 10.98.0.0/16"
    );
}

#[test]
fn nested_jump_from_a_port_map() {
    let packet = tcp(EXT, "192.168.50.10", 30080, "eth0", "veth-pod");
    assert_eq!(
        ask(&packet),
        "dst 10.77.1.10:8080 by [nat-prerouting handle 19, services handle 25, external-AAAAAAAA-shop/cart/tcp/http handle 32, service-AAAAAAAA-shop/cart/tcp/http handle 35, endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 37] of nft\n\
         src 10.77.1.1:any by [nat-postrouting handle 21, masquerading handle 28] of nft marked by [nat-prerouting handle 19, services handle 25, external-AAAAAAAA-shop/cart/tcp/http handle 31, mark-for-masquerade handle 29]\n\
         dst 10.77.2.11:8080 by [nat-prerouting handle 19, services handle 25, external-AAAAAAAA-shop/cart/tcp/http handle 32, service-AAAAAAAA-shop/cart/tcp/http handle 35, endpoint-22222222-shop/cart/tcp/http__10.77.2.11/8080 handle 39] of nft\n\
         src 10.77.1.1:any by [nat-postrouting handle 21, masquerading handle 28] of nft marked by [nat-prerouting handle 19, services handle 25, external-AAAAAAAA-shop/cart/tcp/http handle 31, mark-for-masquerade handle 29]\n\
         endpoint-11111111-shop/cart/tcp/http__10.77.1.10/8080 handle 37 shadows np handle 41\n\
         endpoint-22222222-shop/cart/tcp/http__10.77.2.11/8080 handle 39 shadows np handle 41\n\
         depends on branch 1 of 2 (service-AAAAAAAA-shop/cart/tcp/http handle 35)\n\
         depends on branch 2 of 2 (service-AAAAAAAA-shop/cart/tcp/http handle 35)"
    );
}
