//! Where destinations begin to fare differently, and which stretches fare alike.

use crate::evaluate::range;
use crate::foresee::Ground;
use crate::inventory::Namespace;
use crate::ruleset::{
    Action, Base, Chain, Condition, Element, Field, NatKind, Op, Ruleset, Set, SetId, Step, Value,
};
use crate::space::{addr, is_special, last, number, specials};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// Ranges that hold a stretch, at most, for it to be compared with others.
const COMPARED: usize = 256;

/// The destinations of one family, cut at every edge.
#[derive(Clone, Debug)]
pub struct Space {
    pub(super) v4: bool,
    /// In order; the first begins at 0.
    pub(super) stretches: Vec<Stretch>,
    /// One destination of each place among the routes.
    pub(super) scouts: Vec<IpAddr>,
    everybodys: HashSet<IpAddr>,
    /// What could not be cut.
    doubts: Vec<String>,
}

/// Destinations between two edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its first address.
    pub(super) start: u128,
    /// The first address of the first stretch which the same values hold: what becomes of that one becomes
    /// of this.
    pub(super) like: u128,
}

/// Collects the ranges that anything compares a destination with.
struct Edges {
    v4: bool,
    ranges: BTreeSet<(u128, u128)>,
    gaps: bool,
    mapped: bool,
}

impl Space {
    /// What rules, routes and addresses tell apart.
    #[must_use]
    pub fn of(ground: &Ground<'_, '_>, v4: bool) -> Self {
        let mut edges = Edges {
            v4,
            ranges: BTreeSet::new(),
            gaps: false,
            mapped: false,
        };
        for rules in ground.rules.values() {
            edges.of_rules(rules.ruleset);
        }
        for (netns, ns) in &ground.inventory.namespaces {
            edges.of_namespace(ns, ground.rules.contains_key(netns));
        }
        for net in specials(v4).chain(ground.routes.edges()) {
            edges.net(net);
        }
        let pinned = ground.pinned.and_then(|maps| maps.nets.as_ref().ok());
        for net in pinned.into_iter().flatten() {
            edges.net(*net);
        }
        let everybodys = everybodys(ground);
        for addr in &everybodys {
            edges.range(*addr, *addr);
        }
        let gaps = edges.gaps.then_some(GAPS);
        let mapped = edges.mapped.then_some(MAPPED);
        let mut space = Self {
            v4,
            stretches: edges.stretches(),
            scouts: Vec::new(),
            everybodys,
            doubts: gaps.into_iter().chain(mapped).map(str::to_owned).collect(),
        };
        space.scouts = space.scouts(&ground.routes.places(v4));
        space
    }

    /// What makes maps of it inexact.
    #[must_use]
    pub fn doubts(&self) -> &[String] {
        &self.doubts
    }

    /// The first address of each kind of stretches.
    pub(super) fn kinds(&self) -> impl Iterator<Item = u128> + '_ {
        let firsts = self.stretches.iter().filter(|at| at.start == at.like);
        firsts.map(|at| at.start)
    }

    /// Whether it is no host's address.
    pub(super) fn is_nobodys(&self, dst: IpAddr) -> bool {
        is_special(dst) || self.everybodys.contains(&dst)
    }

    fn scouts(&self, places: &[u128]) -> Vec<IpAddr> {
        let mut scouts = BTreeMap::new();
        for start in self.kinds() {
            let dst = addr(start, self.v4);
            if !self.is_nobodys(dst) {
                let place = places.partition_point(|place| *place <= start);
                scouts.entry(place).or_insert(dst);
            }
        }
        scouts.into_values().collect()
    }
}

const GAPS: &str = "a rule compares destinations under a mask with gaps: prefixes do not cut it";
const MAPPED: &str = "a rule turns each destination of a prefix to one of another: of each prefix one destination was looked at";

impl Edges {
    /// Cuts the space, and finds the stretches that the same ranges hold.
    fn stretches(&self) -> Vec<Stretch> {
        // At each edge: the ranges that end before it, and those that begin there.
        let mut turns: BTreeMap<u128, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        turns.entry(0).or_default();
        for (n, (low, high)) in self.ranges.iter().enumerate() {
            turns.entry(*low).or_default().1.push(n);
            if *high < last(self.v4) {
                turns.entry(*high + 1).or_default().0.push(n);
            }
        }
        let mut holding: BTreeSet<usize> = BTreeSet::new();
        let mut first: HashMap<Vec<usize>, u128> = HashMap::new();
        let cut = |(start, (ends, begins)): (u128, (Vec<usize>, Vec<usize>))| {
            for n in ends {
                holding.remove(&n);
            }
            holding.extend(begins);
            let shared = holding.len() <= COMPARED && !self.gaps && !self.mapped;
            let like = match shared {
                true => *first
                    .entry(holding.iter().copied().collect())
                    .or_insert(start),
                false => start,
            };
            Stretch { start, like }
        };
        turns.into_iter().map(cut).collect()
    }

    fn range(&mut self, low: IpAddr, high: IpAddr) {
        if low.is_ipv4() == self.v4 && high.is_ipv4() == self.v4 && low <= high {
            self.ranges.insert((number(low), number(high)));
        }
    }

    fn net(&mut self, net: IpNet) {
        self.range(net.network(), net.broadcast());
    }

    /// A value that something is compared with. `ordered`: what lies before it is told from what lies behind.
    fn value(&mut self, value: &Value, ordered: bool) {
        match (range(value), value) {
            (Some((low, high)), _) => {
                self.range(low, high);
                if ordered && low.is_ipv4() == self.v4 && number(low) > 0 {
                    self.ranges.insert((0, number(low) - 1));
                }
            }
            (None, Value::Masked { addr, .. }) => self.gaps |= addr.is_ipv4() == self.v4,
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
        for chain in rules.tables.iter().flat_map(|table| &table.chains) {
            for step in chain.rules.iter().flat_map(|rule| &rule.steps) {
                match step {
                    Step::Test(test) => self.condition(rules, &test.condition),
                    Step::Do(action) => self.action(rules, chain, action),
                }
            }
        }
    }

    fn action(&mut self, rules: &Ruleset, chain: &Chain, action: &Action) {
        match action {
            Action::VerdictMap { fields, map } => self.set(rules, fields, map),
            Action::ChanceOf(actions) => {
                for action in actions {
                    self.action(rules, chain, action);
                }
            }
            Action::Nat(nat) => {
                let map = nat.map.as_ref();
                let elements = map.and_then(|(_, map)| rules.sets.get(map));
                let elements = elements.into_iter().flat_map(|set| &set.elements);
                let mut to = nat.addrs.iter().chain(elements.flat_map(|e| &e.data));
                let source = |base: &Base| nat.kind.is_source(base.hook);
                let source = nat.kind == NatKind::Snat || chain.base.as_ref().is_some_and(source);
                self.mapped |= !source && to.any(|to| self.is_prefix(to));
                if let Some((fields, map)) = map {
                    self.set(rules, fields, map);
                }
            }
            _ => {}
        }
    }

    /// Addresses of which a translation takes the one that the packet's own names.
    fn is_prefix(&self, to: &Value) -> bool {
        let several = range(to).is_none_or(|(low, high)| low != high);
        matches!(to, Value::Masked { addr, .. } if addr.is_ipv4() == self.v4 && several)
    }

    fn condition(&mut self, rules: &Ruleset, condition: &Condition) {
        match condition {
            Condition::Compare { field, op, values } if is_destination(field) => {
                let ordered = *op != Op::Equal;
                values.iter().for_each(|value| self.value(value, ordered));
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
            parts.for_each(|part| self.value(part, false));
        }
    }
}

fn is_destination(field: &Field) -> bool {
    matches!(field, Field::Daddr | Field::CtOrigDaddr)
}

/// Addresses of the host's networks that belong to nobody: broadcasts, and all routers of a network.
fn everybodys(ground: &Ground<'_, '_>) -> HashSet<IpAddr> {
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
