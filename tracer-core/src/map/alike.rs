//! Which pods get the same map: those that no rule, and no route, tells apart.

use crate::event::NetnsId;
use crate::foresee::{Ground, Sender};
use crate::inventory::{Inventory, Namespace};
use crate::report::OriginKind;
use crate::ruleset::{Action, Condition, Field, Ruleset, SetId, Step, Value};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What rules see of a pod.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Face {
    /// Which values of the rules of the others hold of its addresses and device names.
    held: Vec<bool>,
    /// Which sources and devices that routing rules ask for are its own.
    steered: Vec<bool>,
    /// The namespace whose rules equal its own.
    rules: Option<NetnsId>,
    /// Its routes, without devices and next hops.
    routes: Vec<IpNet>,
}

/// Groups senders: the first of each group stands for all of it. Only pods are grouped; they differ in what
/// reaches themselves.
#[must_use]
pub fn alike(ground: &Ground<'_, '_>, senders: &[Sender]) -> Vec<(Sender, Vec<Sender>)> {
    let mut groups: Vec<(Sender, Vec<Sender>)> = Vec::new();
    let mut faces: BTreeMap<Face, usize> = BTreeMap::new();
    let values = values(ground);
    for sender in senders {
        let own = ground.inventory.namespaces.get(&sender.netns);
        let (OriginKind::Pod, Some(own)) = (sender.kind, own) else {
            groups.push((*sender, Vec::new()));
            continue;
        };
        let face = face(ground, sender, own, &values);
        match faces.get(&face).and_then(|at| groups.get_mut(*at)) {
            Some((_, others)) => others.push(*sender),
            None => {
                faces.insert(face, groups.len());
                groups.push((*sender, Vec::new()));
            }
        }
    }
    groups
}

fn face(ground: &Ground<'_, '_>, sender: &Sender, own: &Namespace, values: &[&Value]) -> Face {
    let addrs: Vec<IpAddr> = own
        .links
        .values()
        .filter(|link| !link.loopback)
        .flat_map(|link| link.addrs.iter().map(IpNet::addr))
        .filter(|addr| !matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local()))
        .collect();
    let devices = devices(ground.inventory, own);
    let holds = |value: &&Value| match value {
        Value::Masked { addr, mask } => addrs
            .iter()
            .any(|own| under(*own, *mask) == under(*addr, *mask)),
        Value::Addrs(low, high) => {
            let same = |own: &IpAddr| own.is_ipv4() == low.is_ipv4();
            addrs
                .iter()
                .any(|own| same(own) && low <= own && own <= high)
        }
        Value::Name(name) => devices.contains(&name.as_str()),
        Value::NamePrefix(prefix) => devices.iter().any(|device| device.starts_with(prefix)),
        _ => false,
    };
    let rules = ground.rules.get(&sender.netns);
    let twin = rules.and_then(|rules| {
        let mut all = ground.rules.iter();
        let twin = all.find(|(_, other)| other.ruleset == rules.ruleset);
        twin.map(|(id, _)| *id)
    });
    let mut routes: Vec<IpNet> = own.routes.iter().map(|route| route.to).collect();
    routes.retain(|to| to.prefix_len() == 0 || !addrs.iter().any(|own| to.contains(own)));
    routes.sort_unstable();
    Face {
        held: values.iter().map(holds).collect(),
        steered: steered(ground, &addrs, &devices),
        rules: twin,
        routes,
    }
}

/// Of every source and device that a routing rule asks for, whether it is the pod's.
fn steered(ground: &Ground<'_, '_>, addrs: &[IpAddr], devices: &[&str]) -> Vec<bool> {
    let each = ground.routes.steerings().flat_map(|steering| {
        let sources = steering.sources.iter();
        let sources = sources.map(|net| addrs.iter().any(|addr| net.contains(addr)));
        let by = steering.devices.iter();
        sources.chain(by.map(|device| devices.contains(&device.as_str())))
    });
    each.collect()
}

/// The devices at the other ends of a pod's, and the bridges these belong to.
fn devices<'a>(inventory: &'a Inventory, own: &Namespace) -> Vec<&'a str> {
    let peers = own.links.values().filter_map(|link| link.peer);
    let named = peers.flat_map(|(netns, index)| {
        let link = inventory.link(netns, index);
        let master = link.and_then(|link| inventory.link(netns, link.master?));
        [link, master]
            .into_iter()
            .flatten()
            .map(|link| link.name.as_str())
    });
    named.collect()
}

fn under(addr: IpAddr, mask: IpAddr) -> Option<IpAddr> {
    match (addr, mask) {
        (IpAddr::V4(addr), IpAddr::V4(mask)) => Some((addr & mask).into()),
        (IpAddr::V6(addr), IpAddr::V6(mask)) => Some((addr & mask).into()),
        _ => None,
    }
}

/// Every value with which rules of the namespaces on the way compare a source or the device that it came by.
fn values<'r>(ground: &Ground<'_, 'r>) -> Vec<&'r Value> {
    let mut found = Vec::new();
    for rules in ground.rules.values() {
        let rules = rules.ruleset;
        let chains = rules.tables.iter().flat_map(|table| &table.chains);
        for step in chains
            .flat_map(|chain| &chain.rules)
            .flat_map(|rule| &rule.steps)
        {
            match step {
                Step::Test(test) => of_condition(rules, &test.condition, &mut found),
                Step::Do(Action::VerdictMap { fields, map }) => {
                    of_set(rules, fields, map, &mut found)
                }
                Step::Do(Action::Nat(nat)) => {
                    if let Some((fields, map)) = &nat.map {
                        of_set(rules, fields, map, &mut found);
                    }
                }
                Step::Do(_) => {}
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn of_condition<'r>(rules: &'r Ruleset, condition: &'r Condition, found: &mut Vec<&'r Value>) {
    match condition {
        Condition::Compare { field, values, .. } if is_source(field) => found.extend(values),
        Condition::Member { fields, set } => of_set(rules, fields, set, found),
        Condition::AnyOf(tests) => {
            tests
                .iter()
                .for_each(|test| of_condition(rules, &test.condition, found));
        }
        _ => {}
    }
}

fn of_set<'r>(rules: &'r Ruleset, fields: &[Field], id: &SetId, found: &mut Vec<&'r Value>) {
    let elements = rules.sets.get(id).map(|set| set.elements.as_slice());
    for (at, _) in fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_source(field))
    {
        found.extend(
            elements
                .unwrap_or_default()
                .iter()
                .filter_map(|e| e.key.get(at)),
        );
    }
}

fn is_source(field: &Field) -> bool {
    matches!(field, Field::Saddr | Field::CtOrigSaddr | Field::Iif)
}
