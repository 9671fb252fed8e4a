//! Where destinations begin to fare differently.

use crate::foresee::Ground;
use crate::inventory::Namespace;
use crate::ruleset::{Action, Condition, Element, Field, Rule, Ruleset, Set, SetId, Step, Value};
use ipnet::IpNet;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The destinations of one family, cut at every edge.
pub(super) struct Space {
    /// The first address of each stretch, in order; the first is 0.
    pub(super) starts: Vec<u128>,
    /// What could not be cut.
    pub(super) doubts: Vec<String>,
}

/// Collects edges.
struct Edges {
    v4: bool,
    starts: BTreeSet<u128>,
    gaps: bool,
}

impl Space {
    pub(super) fn of(ground: &Ground<'_, '_>, v4: bool) -> Self {
        let mut edges = Edges {
            v4,
            starts: BTreeSet::from([0]),
            gaps: false,
        };
        for rules in ground.rules.values() {
            edges.of_rules(rules.ruleset);
        }
        for (netns, ns) in &ground.inventory.namespaces {
            edges.of_namespace(ns, ground.rules.contains_key(netns));
        }
        for net in specials(v4).into_iter().chain(ground.routes.edges()) {
            edges.net(net);
        }
        let gaps = "a rule compares destinations under a mask with gaps: prefixes do not cut it";
        Self {
            starts: edges.starts.into_iter().collect(),
            doubts: edges.gaps.then(|| gaps.to_owned()).into_iter().collect(),
        }
    }
}

impl Edges {
    /// From `low` on, and behind `high`.
    fn range(&mut self, low: IpAddr, high: IpAddr) {
        if low.is_ipv4() != self.v4 || high.is_ipv4() != self.v4 {
            return;
        }
        self.starts.insert(number(low));
        let last = if self.v4 { u32::MAX.into() } else { u128::MAX };
        let high = number(high);
        if high < last {
            self.starts.insert(high + 1);
        }
    }

    fn net(&mut self, net: IpNet) {
        self.range(net.network(), net.broadcast());
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Addrs(low, high) => self.range(*low, *high),
            Value::Masked { addr, mask } => match ipnet::ip_mask_to_prefix(*mask) {
                Ok(len) => {
                    if let Ok(net) = IpNet::new(*addr, len) {
                        self.net(net);
                    }
                }
                Err(_) => self.gaps |= addr.is_ipv4() == self.v4,
            },
            _ => {}
        }
    }

    /// What a namespace's own addresses and routes tell apart. `asked`: its rules and routes are.
    fn of_namespace(&mut self, ns: &Namespace, asked: bool) {
        for net in ns.links.values().flat_map(|link| &link.addrs) {
            self.net(IpNet::from(net.addr()));
            if asked {
                self.net(*net);
                self.net(IpNet::from(net.network()));
                self.net(IpNet::from(net.broadcast()));
            }
        }
        for route in ns.routes.iter().filter(|_| asked) {
            self.net(route.to);
        }
    }

    fn of_rules(&mut self, rules: &Ruleset) {
        let chains = rules.tables.iter().flat_map(|table| &table.chains);
        for rule in chains.flat_map(|chain| &chain.rules) {
            self.of_rule(rules, rule);
        }
    }

    fn of_rule(&mut self, rules: &Ruleset, rule: &Rule) {
        for step in &rule.steps {
            match step {
                Step::Test(test) => self.condition(rules, &test.condition),
                Step::Do(Action::VerdictMap { fields, map }) => self.set(rules, fields, map),
                Step::Do(Action::Nat(nat)) => {
                    if let Some((fields, map)) = &nat.map {
                        self.set(rules, fields, map);
                    }
                }
                Step::Do(_) => {}
            }
        }
    }

    fn condition(&mut self, rules: &Ruleset, condition: &Condition) {
        match condition {
            Condition::Compare { field, values, .. } if is_destination(field) => {
                values.iter().for_each(|value| self.value(value));
            }
            Condition::Member { fields, set } => self.set(rules, fields, set),
            Condition::AnyOf(tests) => {
                tests
                    .iter()
                    .for_each(|test| self.condition(rules, &test.condition));
            }
            _ => {}
        }
    }

    fn set(&mut self, rules: &Ruleset, fields: &[Field], id: &SetId) {
        let Some(Set { elements, .. }) = rules.sets.get(id) else {
            return;
        };
        let at = fields
            .iter()
            .enumerate()
            .filter(|(_, field)| is_destination(field));
        for (at, _) in at {
            let parts = elements
                .iter()
                .filter_map(|Element { key, .. }| key.get(at));
            parts.for_each(|part| self.value(part));
        }
    }
}

fn is_destination(field: &Field) -> bool {
    matches!(field, Field::Daddr | Field::CtOrigDaddr)
}

pub(super) fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

pub(super) fn addr(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(low) if v4 => Ipv4Addr::from_bits(low).into(),
        _ => Ipv6Addr::from_bits(number).into(),
    }
}

/// Destinations that no new unicast flow to another host has.
pub(super) fn is_special(addr: IpAddr) -> bool {
    specials(addr.is_ipv4())
        .iter()
        .any(|net| net.contains(&addr))
}

/// Addresses of the host's networks that belong to nobody: broadcasts, and all routers of a network.
pub(super) fn everybodys(ground: &Ground<'_, '_>) -> HashSet<IpAddr> {
    let spaces = ground.inventory.namespaces.values();
    let links = spaces.flat_map(|ns| ns.links.values());
    let nets = links.flat_map(|link| &link.addrs);
    let wide = nets.filter(|net| net.prefix_len() + 1 < net.max_prefix_len());
    let both = wide.flat_map(|net| match net {
        IpNet::V4(net) => [net.network().into(), net.broadcast().into()],
        IpNet::V6(net) => [net.network().into(), net.network().into()],
    });
    both.collect()
}

fn specials(v4: bool) -> Vec<IpNet> {
    let nets: &[&str] = match v4 {
        true => &["0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3"],
        false => &["::/127", "fe80::/10", "ff00::/8"],
    };
    nets.iter().filter_map(|net| net.parse().ok()).collect()
}
