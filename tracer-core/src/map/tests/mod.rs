//! Maps of made-up rules, against what is foreseen for single destinations.

mod diffs;
mod properties;

use super::*;
use crate::evaluate::Rules;
use crate::event::NetnsId;
use crate::foresee::Routes;
use crate::inventory::{Inventory, Link, Namespace, Route};
use crate::ruleset::{Dumps, Family, Ruleset, assemble};
use std::collections::BTreeMap;

const NODE: NetnsId = NetnsId(1);
const POD: NetnsId = NetnsId(2);

fn link(name: &str, addrs: &[&str], peer: Option<(NetnsId, u32)>) -> Link {
    Link {
        name: name.to_owned(),
        kind: "veth".to_owned(),
        peer,
        addrs: addrs.iter().map(|a| a.parse().unwrap()).collect(),
        up: true,
        ..Link::default()
    }
}

fn route(to: &str, via: Option<&str>, ifindex: u32) -> Route {
    Route {
        to: to.parse().unwrap(),
        via: via.map(|via| via.parse().unwrap()),
        ifindex,
    }
}

/// A node with one pod and a way out.
fn host() -> Inventory {
    let node = Namespace {
        links: [
            (2, link("eth0", &["10.100.0.5/24", "fd10:100::5/64"], None)),
            (
                3,
                link(
                    "veth-pod",
                    &["10.12.3.1/24", "fd12:3::1/64"],
                    Some((POD, 2)),
                ),
            ),
        ]
        .into(),
        routes: vec![
            route("0.0.0.0/0", Some("10.100.0.1"), 2),
            route("10.100.0.0/24", None, 2),
            route("10.12.3.0/24", None, 3),
            route("::/0", Some("fd10:100::1"), 2),
            route("fd12:3::/64", None, 3),
        ],
        forwards: Some(true),
        ..Namespace::default()
    };
    let pod = Namespace {
        name: Some("pod".to_owned()),
        links: [(
            2,
            link("eth0", &["10.12.3.4/24", "fd12:3::4/64"], Some((NODE, 3))),
        )]
        .into(),
        routes: vec![
            route("0.0.0.0/0", Some("10.12.3.1"), 2),
            route("10.12.3.0/24", None, 2),
            route("::/0", Some("fd12:3::1"), 2),
        ],
        ..Namespace::default()
    };
    Inventory {
        node: Some(NODE),
        namespaces: [(NODE, node), (POD, pod)].into(),
        ..Inventory::default()
    }
}

fn legacy(family: Family, nat: &str) -> Ruleset {
    with_sets(None, family, nat)
}

fn with_sets(ipset: Option<String>, family: Family, nat: &str) -> Ruleset {
    let dump = format!(
        "*nat\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n:MASQ - [0:0]\n-A POSTROUTING -j MASQ\n{nat}COMMIT\n"
    );
    assemble(&Dumps {
        ipset,
        legacy: vec![(family, dump)],
        ..Dumps::default()
    })
}

fn with<T>(rules: &Ruleset, work: impl FnOnce(&Ground<'_, '_>) -> T) -> T {
    let (inventory, routes, none) = (host(), Routes::default(), Ruleset::default());
    let rules = BTreeMap::from([(NODE, Rules::new(rules)), (POD, Rules::new(&none))]);
    work(&Ground {
        inventory: &inventory,
        rules: &rules,
        routes: &routes,
        pinned: None,
    })
}

/// As the program makes maps.
fn with_many<T>(rules: &Ruleset, work: impl FnOnce(&Ground<'_, '_>) -> T) -> T {
    let (inventory, routes, none) = (host(), Routes::default(), Ruleset::default());
    let rules = BTreeMap::from([(NODE, Rules::of_many(rules)), (POD, Rules::new(&none))]);
    work(&Ground {
        inventory: &inventory,
        rules: &rules,
        routes: &routes,
        pinned: None,
    })
}

fn pod() -> Sender {
    Sender {
        kind: OriginKind::Pod,
        netns: POD,
        iif: None,
        src: None,
    }
}

fn short(map: &Mapped) -> Vec<String> {
    let lines = map.lines.iter().map(|line| {
        let said = &line.said;
        let rule = said
            .rule
            .as_ref()
            .map_or(String::new(), |rule| format!(" {}", rule.short()));
        let wire = said
            .source_on_wire
            .map_or("-".to_owned(), |addr| addr.to_string());
        format!("{} {wire} {:?}{rule}", line.prefix, said.fate)
    });
    lines.collect()
}

#[test]
fn an_agents_exemptions_are_prefixes() {
    let rules = legacy(
        Family::Ip,
        "-A MASQ -d 10.20.0.0/16 -j RETURN\n-A MASQ -d 10.30.0.10/32 -j RETURN\n-A MASQ -j MASQUERADE\n",
    );
    let told = with(&rules, |ground| short(&map(ground, &pod(), true)));
    let nobody = told
        .iter()
        .position(|line| line.starts_with("10.12.3.0/24"));
    assert_eq!(nobody, Some(1), "{told:?}");
    assert_eq!(
        told,
        [
            "0.0.0.0/0 10.100.0.5 Leaves iptables-legacy nat/MASQ 3",
            "10.12.3.0/24 - NoRoute",
            "10.12.3.1/32 10.12.3.4 Delivered",
            "10.20.0.0/16 10.12.3.4 Leaves iptables-legacy nat/MASQ 1",
            "10.30.0.10/32 10.12.3.4 Leaves iptables-legacy nat/MASQ 2",
            "10.100.0.5/32 10.12.3.4 Delivered",
        ]
    );
}

#[test]
fn ipv6_has_a_map_of_its_own() {
    let rules = legacy(
        Family::Ip6,
        "-A MASQ -d fd50::/16 -j RETURN\n-A MASQ -j MASQUERADE\n",
    );
    let told = with(&rules, |ground| short(&map(ground, &pod(), false)));
    assert!(
        told.contains(&"::/0 fd10:100::5 Leaves ip6tables-legacy nat/MASQ 2".to_owned()),
        "{told:?}"
    );
    assert!(
        told.contains(&"fd50::/16 fd12:3::4 Leaves ip6tables-legacy nat/MASQ 1".to_owned()),
        "{told:?}"
    );
}

#[test]
fn ports_that_rules_test_are_what_it_depends_on() {
    let rules = legacy(
        Family::Ip,
        "-A MASQ -d 10.20.0.0/16 -p tcp -m tcp --dport 53 -j RETURN\n-A MASQ -j MASQUERADE\n",
    );
    let depends: Vec<(String, Vec<String>)> = with(&rules, |ground| {
        let map = map(ground, &pod(), true);
        let open = map
            .lines
            .into_iter()
            .filter(|line| !line.said.depends_on.is_empty());
        open.map(|line| (line.prefix.to_string(), line.said.depends_on))
            .collect()
    });
    let on = ["destination port is 53", "the protocol is tcp"].map(str::to_owned);
    assert_eq!(depends, [("10.20.0.0/16".to_owned(), on.to_vec())]);
}

#[test]
fn a_change_of_an_exemption_is_told_and_a_rule_number_is_not() {
    let old = legacy(
        Family::Ip,
        "-A MASQ -d 10.20.0.0/16 -j RETURN\n-A MASQ -j MASQUERADE\n",
    );
    let new = legacy(
        Family::Ip,
        "-A MASQ -d 10.99.0.0/16 -j MASQUERADE\n-A MASQ -d 10.20.0.0/17 -j RETURN\n-A MASQ -j MASQUERADE\n",
    );
    let old = with(&old, |ground| map(ground, &pod(), true).lines);
    let new = with(&new, |ground| map(ground, &pod(), true).lines);
    let told = diff(&old, &new, true);
    let told: Vec<String> = told
        .iter()
        .map(|c| format!("{} {:?} {:?}", c.prefix, c.from.source_is, c.to.source_is))
        .collect();
    assert_eq!(told, ["10.20.128.0/17 Sender Node"]);
    assert!(diff(&new, &new, true).is_empty());
}
