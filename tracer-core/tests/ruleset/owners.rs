//! The rules that CNIs, proxies and firewalls write: understood, and known by their owner.

use crate::{rule_in, tests};
use std::collections::BTreeMap;
use tracer_core::ruleset::{Action, Condition, Family, Rule, Set, SetId, Step, ipset, iptables};

const SETS: &str = "create cilium_node_set_v4 hash:ip family inet\ncreate cali40masq-ipam-pools hash:net family inet\n\
    create cali40all-ipam-pools hash:net family inet\ncreate KUBE-EXTERNAL-IP hash:ip,port family inet\n";

/// Rules as they are saved, each with its owner (empty: none) and, where a part of it cannot be
/// evaluated, that part.
const RULES: &[(&str, &str, &str)] = &[
    (
        "-A POSTROUTING -m comment --comment \"flanneld masq\" -j FLANNEL-POSTRTG",
        "Flannel",
        "",
    ),
    (
        "-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment \"flanneld masq\" -j RETURN",
        "Flannel",
        "",
    ),
    (
        "-A FLANNEL-POSTRTG -s 10.77.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully",
        "Flannel",
        "",
    ),
    (
        "-A FLANNEL-POSTRTG ! -s 10.77.0.0/16 -d 10.77.1.0/24 -j RETURN",
        "Flannel",
        "",
    ),
    (
        "-A CNI-HOSTPORT-SETMARK -m comment --comment \"CNI portfwd masquerade mark\" -j MARK --set-xmark 0x2000/0x2000",
        "CNI portmap",
        "",
    ),
    (
        "-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE",
        "CNI portmap",
        "",
    ),
    (
        "-A CNI-DN-abcdef0123456789abcdef -s 127.0.0.1/32 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK",
        "CNI portmap",
        "",
    ),
    (
        "-A POSTROUTING -s 172.30.0.0/24 ! -o br-lab01 -j MASQUERADE",
        "",
        "",
    ),
    (
        "-A POSTROUTING -s 172.30.0.2/32 -d 172.30.0.2/32 -p tcp -m tcp --dport 80 -j MASQUERADE",
        "",
        "",
    ),
    ("-A DOCKER -i docker0 -j RETURN", "Docker", ""),
    (
        "-A POSTROUTING -m comment --comment \"AWS SNAT CHAIN\" -j AWS-SNAT-CHAIN-0",
        "AWS VPC CNI",
        "",
    ),
    (
        "-A AWS-SNAT-CHAIN-0 -d 10.50.0.0/16 -m comment --comment \"AWS SNAT CHAIN\" -j RETURN",
        "AWS VPC CNI",
        "",
    ),
    (
        "-A AWS-SNAT-CHAIN-0 ! -o vlan+ -m comment --comment \"AWS, SNAT\" -m addrtype ! --dst-type LOCAL -j SNAT --to-source 192.168.50.10 --random-fully",
        "AWS VPC CNI",
        "",
    ),
    (
        "-A CILIUM_POST_nat -s 10.77.1.0/24 -m set --match-set cilium_node_set_v4 dst -j ACCEPT",
        "Cilium",
        "",
    ),
    (
        "-A CILIUM_POST_nat -s 10.77.1.0/24 ! -d 10.77.0.0/16 ! -o cilium_+ -j MASQUERADE",
        "Cilium",
        "",
    ),
    (
        "-A CILIUM_POST_nat -m mark --mark 0xa00/0xe00 -j ACCEPT",
        "Cilium",
        "",
    ),
    (
        "-A cali-nat-outgoing -m comment --comment \"cali:AbCdEfGhIjKlMnOp\" -m set --match-set cali40masq-ipam-pools src -m set ! --match-set cali40all-ipam-pools dst -j MASQUERADE --random-fully",
        "Calico",
        "",
    ),
    (
        "-A cali-POSTROUTING -o tunl0 -m addrtype ! --src-type LOCAL --limit-iface-out -m addrtype --src-type LOCAL -j MASQUERADE",
        "Calico",
        "",
    ),
    (
        "-A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE",
        "Tailscale",
        "",
    ),
    (
        "-A KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT",
        "kube-proxy",
        "",
    ),
    ("-A PREROUTING -p tcp -j ISTIO_INBOUND", "Istio", ""),
    (
        "-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006",
        "Istio",
        "",
    ),
    (
        "-A ISTIO_OUTPUT -s 127.0.0.6/32 -o lo -j RETURN",
        "Istio",
        "",
    ),
    (
        "-A ISTIO_OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m multiport ! --dports 53,15008 -m owner --uid-owner 1337 -j ISTIO_IN_REDIRECT",
        "Istio",
        "",
    ),
    (
        "-A OUTPUT -p udp -m udp --dport 53 -m owner --uid-owner 1337 -j CT --zone 1",
        "",
        "",
    ),
    (
        "-A ISTIO_TPROXY ! -d 127.0.0.1/32 -p tcp -j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark 0x539/0xffffffff",
        "Istio",
        "",
    ),
    (
        "-A POSTROUTING -m comment --comment \"ip-masq-agent: jump\" -m addrtype ! --dst-type LOCAL -j IP-MASQ",
        "ip-masq-agent",
        "",
    ),
    (
        "-A IP-MASQ -m comment --comment \"ip-masq-agent: all of it\" -j RETURN",
        "ip-masq-agent",
        "",
    ),
    (
        "-A POSTROUTING -s 10.77.0.0/16 -m comment --comment OLD-GLUE -j MASQUERADE",
        "",
        "",
    ),
];

/// One table of all these rules, with the chains that they name.
fn read() -> Vec<Rule> {
    let sets = ipset::parse(SETS).sets;
    let lines: Vec<_> = RULES.iter().map(|(line, ..)| *line).collect();
    let called = "FLANNEL-POSTRTG CNI-HOSTPORT-SETMARK AWS-SNAT-CHAIN-0 ISTIO_INBOUND ISTIO_IN_REDIRECT IP-MASQ";
    let chains: String = called
        .split(' ')
        .map(|chain| format!(":{chain} - [0:0]\n"))
        .collect();
    let dump = format!("*nat\n{chains}{}\nCOMMIT\n", lines.join("\n"));
    let backend = tracer_core::ruleset::Backend::IptablesLegacy;
    let saved = iptables::parse(
        &dump,
        &iptables::Origin {
            backend,
            family: Family::Ip,
            sets: &sets,
        },
    );
    assert_eq!(saved.unread, []);
    let rules = saved
        .tables
        .into_iter()
        .flat_map(|table| table.chains)
        .flat_map(|chain| chain.rules);
    rules.collect()
}

#[test]
fn rules_of_cnis_and_proxies() {
    let rules = read();
    assert_eq!(rules.len(), RULES.len());
    for (line, owner, unknown) in RULES {
        let rule = rules.iter().find(|rule| rule.text == *line).unwrap();
        assert_eq!(rule.owner.unwrap_or_default(), *owner, "{line}");
        let mut unknowns = rule.steps.iter().filter_map(|step| match step {
            Step::Test(test) => match &test.condition {
                Condition::Unknown(text) => Some(text.as_str()),
                _ => None,
            },
            Step::Do(Action::Unknown(text)) => Some(text.as_str()),
            Step::Do(_) => None,
        });
        assert_eq!(unknowns.next().unwrap_or_default(), *unknown, "{line}");
        assert!(!rule.steps.is_empty(), "{line}");
    }
}

/// An exemption of 0.0.0.0/0 is saved without `-d`.
#[test]
fn an_exemption_of_everything_has_no_test() {
    let none: BTreeMap<SetId, Set> = BTreeMap::new();
    let rule = rule_in(
        "-m comment --comment \"ip-masq-agent: x\" -j RETURN",
        Family::Ip,
        &none,
    );
    assert_eq!(tests(&rule), []);
}
