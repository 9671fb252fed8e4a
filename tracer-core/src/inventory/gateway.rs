//! Pods that forward for others, by what their namespaces hold: no packet has to pass.
//!
//! `net.ipv4.ip_forward=1` alone shows nothing. A node forwards, and a new namespace begins with the values of the
//! initial one (`devinet_init_net`; 0 and 1 of `net.core.devconf_inherit_init_net`), so on many nodes it is 1 in every
//! pod. A second sign must be there: a tunnel's device, another device with an address, or NAT rules for others.

use super::{Inventory, Link, Namespace, Role};
use crate::event::NetnsId;
use crate::ruleset::{
    Action, Chain, ChainKind, Condition, Field, Hook, Nat, NatKind, Op, Rule, Ruleset, Step, Table,
    Test, Value, Verdict,
};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// Kinds of devices whose far end is elsewhere.
const TUNNELS: [&str; 2] = ["tun", "wireguard"];

/// A pod that forwards for others, or is set up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its namespace.
    pub netns: NetnsId,
    /// Whether it forwards IPv4, and IPv6; `None`: not known.
    pub forwards: [Option<bool>; 2],
    /// What else shows it; at least one.
    pub signs: Vec<Sign>,
}

/// What shows that a pod is there for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A tunnel's device that is up: its name and kind.
    Tunnel(String, String),
    /// Another device with an address, beside that of the default route: its name.
    Device(String),
    /// A rule that translates what is none of its own: by its store, table, chain and number.
    Nat(String),
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunnel(name, kind) => write!(f, "its device {name} ({kind})"),
            Self::Device(name) => write!(f, "its second device {name}"),
            Self::Nat(rule) => write!(f, "its own NAT rule {rule}"),
        }
    }
}

impl Inventory {
    /// What shows that a pod is a gateway; `None` where nothing does. `rules`: its own, where they were read.
    #[must_use]
    pub fn gateway(&self, netns: NetnsId, rules: Option<&Ruleset>) -> Option<Gateway> {
        let ns = self.namespaces.get(&netns)?;
        if self.role(netns) != Role::Pod {
            return None;
        }
        let mut signs: Vec<Sign> = ns
            .links
            .iter()
            .filter_map(|(index, link)| of_device(ns, *index, link))
            .collect();
        signs.extend(rules.and_then(|rules| of_rules(ns, rules, |_| true)));
        (!signs.is_empty()).then_some(Gateway {
            netns,
            forwards: [ns.forwards, ns.forwards_v6],
            signs,
        })
    }

    /// Whether a namespace has a NAT rule for packets of that IP version which are none of its own.
    #[must_use]
    pub fn translates_for_others(&self, netns: NetnsId, rules: &Ruleset, version: u8) -> bool {
        let ns = self.namespaces.get(&netns);
        let takes = |table: &Table| table.id.family.takes(version);
        ns.is_some_and(|ns| of_rules(ns, rules, takes).is_some())
    }
}

fn of_device(ns: &Namespace, index: u32, link: &Link) -> Option<Sign> {
    let mut defaults = ns.routes.iter().filter(|route| route.to.prefix_len() == 0);
    if !link.up || link.loopback || defaults.any(|route| route.ifindex == index) {
        return None;
    }
    let name = link.name.clone();
    if TUNNELS.contains(&link.kind.as_str()) {
        return Some(Sign::Tunnel(name, link.kind.clone()));
    }
    let local = |addr| match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let routed = link.addrs.iter().any(|net| !local(net.addr()));
    routed.then_some(Sign::Device(name))
}

/// The first rule that translates the source of what leaves, or sends on what comes in.
fn of_rules(ns: &Namespace, rules: &Ruleset, counts: impl Fn(&Table) -> bool) -> Option<Sign> {
    let own: BTreeSet<IpAddr> = ns
        .links
        .values()
        .flat_map(|link| link.addrs.iter().map(|net| net.addr()))
        .collect();
    let counts = |table: &&Table| !table.dormant && counts(table);
    let tables = rules.tables.iter().filter(counts);
    tables
        .flat_map(|table| reached(table).map(move |(hook, chain)| (table, hook, chain)))
        .find_map(|(table, hook, chain)| {
            let rule = chain
                .rules
                .iter()
                .find(|rule| is_for_others(rule, hook, &own))?;
            Some(Sign::Nat(format!(
                "{} {}/{} {}",
                table.id.backend, table.id.name, chain.name, rule.index
            )))
        })
}

/// The chains that NAT goes through, each with the hook by which it is reached.
fn reached(table: &Table) -> impl Iterator<Item = (Hook, &Chain)> {
    let nat = |chain: &&Chain| {
        let base = chain.base.as_ref();
        base.is_some_and(|base| base.kind == ChainKind::Nat)
    };
    let mut found: Vec<(Hook, &Chain)> = Vec::new();
    for base in table.chains.iter().filter(nat) {
        let Some(hook) = base.base.as_ref().map(|base| base.hook) else {
            continue;
        };
        let mut next = vec![base];
        while let Some(chain) = next.pop() {
            if found
                .iter()
                .any(|(h, c)| *h == hook && c.name == chain.name)
            {
                continue;
            }
            found.push((hook, chain));
            let steps = chain.rules.iter().flat_map(|rule| &rule.steps);
            next.extend(
                steps
                    .filter_map(called)
                    .filter_map(|name| table.chain(name)),
            );
        }
    }
    found.into_iter()
}

fn called(step: &Step) -> Option<&str> {
    match step {
        Step::Do(Action::Verdict(Verdict::Jump(to) | Verdict::Goto(to))) => Some(to),
        _ => None,
    }
}

/// Whether a rule is one for packets that are forwarded: not one for what the namespace itself sends, such as the
/// one for a container engine's name server on a loopback address, nor one that leads to a process here.
fn is_for_others(rule: &Rule, hook: Hook, own: &BTreeSet<IpAddr>) -> bool {
    let mine = |addr: IpAddr| addr.is_loopback() || own.contains(&addr);
    let only_mine = |step: &Step| match step {
        Step::Test(test) => is_of(test, &mine),
        Step::Do(_) => false,
    };
    let translates = |step: &Step| match step {
        Step::Do(Action::Nat(nat)) => forwards(nat, hook, &mine),
        _ => false,
    };
    rule.steps.iter().any(translates) && !rule.steps.iter().any(only_mine)
}

fn forwards(nat: &Nat, hook: Hook, mine: &dyn Fn(IpAddr) -> bool) -> bool {
    let elsewhere = || nat.addrs.iter().any(|to| !all(to, mine));
    match hook {
        Hook::Postrouting => nat.kind.is_source(hook),
        Hook::Prerouting => nat.kind == NatKind::Dnat && (elsewhere() || nat.map.is_some()),
        _ => false,
    }
}

/// Whether a test lets only this namespace's own packets pass.
fn is_of(test: &Test, mine: &dyn Fn(IpAddr) -> bool) -> bool {
    match &test.condition {
        Condition::Compare {
            field: Field::Saddr,
            op: Op::Equal,
            values,
        } => !test.negated && values.iter().all(|value| all(value, mine)),
        _ => false,
    }
}

/// Whether a value is of such addresses only, as far as its ends tell.
fn all(value: &Value, mine: &dyn Fn(IpAddr) -> bool) -> bool {
    match value {
        Value::Addrs(first, last) => mine(*first) && mine(*last),
        Value::Masked { addr, mask } => match mask {
            IpAddr::V4(mask) if addr.is_loopback() => mask.octets()[0] == u8::MAX,
            IpAddr::V4(mask) => mask.is_broadcast() && mine(*addr),
            IpAddr::V6(mask) => u128::from(*mask) == u128::MAX && mine(*addr),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Route;
    use crate::ruleset::{Backend, Base, Family, Policy, TableId};
    use std::collections::BTreeMap;

    const NODE: NetnsId = NetnsId(1);
    const POD: NetnsId = NetnsId(2);

    fn link(name: &str, kind: &str, addr: Option<&str>) -> Link {
        Link {
            name: name.to_owned(),
            kind: kind.to_owned(),
            addrs: addr.into_iter().filter_map(|a| a.parse().ok()).collect(),
            up: true,
            ..Link::default()
        }
    }

    /// A pod behind the node, with its `eth0` and one more device.
    fn host(more: Option<Link>, forwards: bool) -> Inventory {
        let eth0 = Link {
            peer: Some((NODE, 9)),
            ..link("eth0", "veth", Some("10.12.9.4/24"))
        };
        let mut links = BTreeMap::from([(2, eth0)]);
        links.extend(more.map(|link| (3, link)));
        let pod = Namespace {
            links,
            pod: Some("shop/vpn-0".to_owned()),
            routes: vec![Route {
                to: "0.0.0.0/0".parse().unwrap(),
                via: "10.12.9.1".parse().ok(),
                ifindex: 2,
            }],
            forwards: Some(forwards),
            ..Namespace::default()
        };
        Inventory {
            node: Some(NODE),
            namespaces: BTreeMap::from([(NODE, Namespace::default()), (POD, pod)]),
            ..Inventory::default()
        }
    }

    fn signs(inventory: &Inventory, rules: Option<&Ruleset>) -> Vec<String> {
        let gateway = inventory.gateway(POD, rules);
        let signs = gateway.into_iter().flat_map(|gateway| gateway.signs);
        signs.map(|sign| sign.to_string()).collect()
    }

    fn chain(name: &str, hook: Option<Hook>, steps: Vec<Step>) -> Chain {
        Chain {
            name: name.to_owned(),
            base: hook.map(|hook| Base {
                kind: ChainKind::Nat,
                hook,
                priority: 100,
                policy: Policy::Accept,
                registered: None,
                devices: Vec::new(),
            }),
            rules: vec![Rule {
                index: 1,
                handle: None,
                text: String::new(),
                comment: None,
                owner: None,
                steps,
            }],
        }
    }

    fn rules(chains: Vec<Chain>) -> Ruleset {
        Ruleset {
            tables: vec![Table {
                id: TableId {
                    backend: Backend::IptablesLegacy,
                    family: Family::Ip,
                    name: "nat".to_owned(),
                },
                dormant: false,
                chains,
            }],
            ..Ruleset::default()
        }
    }

    fn nat(kind: NatKind, to: &[&str]) -> Step {
        let addr = |to: &&str| to.parse().map(|addr| Value::Addrs(addr, addr)).unwrap();
        Step::Do(Action::Nat(Nat {
            kind,
            addrs: to.iter().map(addr).collect(),
            ports: None,
            map: None,
            random: false,
        }))
    }

    fn from(addr: &str) -> Step {
        Step::Test(Test {
            negated: false,
            condition: Condition::Compare {
                field: Field::Saddr,
                op: Op::Equal,
                values: vec![Value::Masked {
                    addr: addr.parse().unwrap(),
                    mask: "255.255.255.255".parse().unwrap(),
                }],
            },
        })
    }

    #[test]
    fn forwarding_alone_is_no_sign() {
        let inventory = host(None, true);
        assert_eq!(inventory.gateway(POD, Some(&Ruleset::default())), None);
        assert_eq!(inventory.gateway(NODE, None), None);
    }

    #[test]
    fn a_tunnel_and_a_second_device_are_signs_whether_it_forwards_or_not() {
        let tun = host(Some(link("tun0", "tun", None)), false);
        assert_eq!(signs(&tun, None), ["its device tun0 (tun)"]);
        assert_eq!(
            tun.gateway(POD, None).unwrap().forwards,
            [Some(false), None]
        );
        let second = host(Some(link("net1", "macvlan", Some("10.60.0.2/24"))), true);
        assert_eq!(signs(&second, None), ["its second device net1"]);
        let bare = host(Some(link("net1", "macvlan", Some("fe80::1/64"))), true);
        assert_eq!(signs(&bare, None), [""; 0]);
        let down = Link {
            up: false,
            ..link("wg0", "wireguard", Some("10.8.0.1/24"))
        };
        assert_eq!(signs(&host(Some(down), true), None), [""; 0]);
    }

    #[test]
    fn a_rule_that_translates_others_is_a_sign_wherever_it_stands() {
        let inventory = host(None, true);
        let jump = Step::Do(Action::Verdict(Verdict::Jump("OUT".to_owned())));
        let found = rules(vec![
            chain("POSTROUTING", Some(Hook::Postrouting), vec![jump]),
            chain("OUT", None, vec![nat(NatKind::Masquerade, &[])]),
        ]);
        let sign = "its own NAT rule iptables-legacy nat/OUT 1";
        assert_eq!(signs(&inventory, Some(&found)), [sign]);
        let to = nat(NatKind::Dnat, &["10.12.3.4"]);
        let sent_on = rules(vec![chain("PREROUTING", Some(Hook::Prerouting), vec![to])]);
        let sign = "its own NAT rule iptables-legacy nat/PREROUTING 1";
        assert_eq!(signs(&inventory, Some(&sent_on)), [sign]);
    }

    /// As container engines, meshes and pods that translate themselves have them.
    #[test]
    fn rules_for_its_own_packets_are_none() {
        let inventory = host(None, true);
        let snat = || nat(NatKind::Snat, &["10.12.9.5"]);
        let post = |steps| chain("POSTROUTING", Some(Hook::Postrouting), steps);
        let pre = |steps| chain("PREROUTING", Some(Hook::Prerouting), steps);
        for chain in [
            post(vec![from("127.0.0.11"), snat()]),
            post(vec![from("10.12.9.4"), snat()]),
            pre(vec![nat(NatKind::Redirect, &[])]),
            pre(vec![nat(NatKind::Dnat, &["127.0.0.1"])]),
            chain("LOOSE", None, vec![snat()]),
            chain(
                "OUTPUT",
                Some(Hook::Output),
                vec![nat(NatKind::Dnat, &["10.1.1.1"])],
            ),
        ] {
            assert_eq!(signs(&inventory, Some(&rules(vec![chain]))), [""; 0]);
        }
    }
}
