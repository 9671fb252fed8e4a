//! Which addresses are Services': never to be asked by ICMP, for nothing answers there but by chance.

use crate::event::NetnsId;
use crate::inventory::{Inventory, Link};
use crate::ruleset::{Action, Condition, Field, Rule, Ruleset, SetId, Step, Test, Value};
use std::net::IpAddr;

/// The device on which kube-proxy's IPVS mode puts the addresses of Services.
const IPVS_DEVICE: &str = "kube-ipvs0";
const OWNER: &str = "kube-proxy";

/// Whether an address is a Service's: kube-proxy's rules name it as a destination, or it is on the device of its
/// IPVS mode. An address of the node itself is none, though its ports may be NodePorts.
#[must_use]
pub fn is_service(rules: &Ruleset, inventory: &Inventory, addr: IpAddr) -> bool {
    match inventory.node.and_then(|node| owner(inventory, node, addr)) {
        Some(link) => link.name == IPVS_DEVICE,
        None => named(rules, addr),
    }
}

fn owner(inventory: &Inventory, node: NetnsId, addr: IpAddr) -> Option<&Link> {
    let links = inventory.namespaces.get(&node)?.links.values();
    let has = |link: &&Link| link.addrs.iter().any(|net| net.addr() == addr);
    links.into_iter().find(has)
}

fn named(rules: &Ruleset, addr: IpAddr) -> bool {
    let chains = rules.tables.iter().flat_map(|table| &table.chains);
    let mut owned = chains
        .flat_map(|chain| &chain.rules)
        .filter(|rule| rule.owner == Some(OWNER));
    owned.any(|rule| names(rules, rule, addr))
}

fn names(rules: &Ruleset, rule: &Rule, addr: IpAddr) -> bool {
    rule.steps.iter().any(|step| match step {
        Step::Test(test) => tests(rules, test, addr),
        Step::Do(Action::VerdictMap { fields, map }) => keyed(rules, fields, map, addr),
        Step::Do(_) => false,
    })
}

fn tests(rules: &Ruleset, test: &Test, addr: IpAddr) -> bool {
    match &test.condition {
        _ if test.negated => false,
        Condition::Compare {
            field: Field::Daddr,
            values,
            ..
        } => values.iter().any(|value| is_exactly(value, addr)),
        Condition::Member { fields, set } => keyed(rules, fields, set, addr),
        Condition::AnyOf(parts) => parts.iter().any(|part| tests(rules, part, addr)),
        _ => false,
    }
}

/// Whether a set or map has it as a destination. Those with sources too are about endpoints that call themselves.
fn keyed(rules: &Ruleset, fields: &[Field], id: &SetId, addr: IpAddr) -> bool {
    if fields.contains(&Field::Saddr) {
        return false;
    }
    let at = fields.iter().position(|field| *field == Field::Daddr);
    let (Some(at), Some(set)) = (at, rules.sets.get(id)) else {
        return false;
    };
    let parts = set.elements.iter().filter_map(|e| e.key.get(at));
    parts.into_iter().any(|value| is_exactly(value, addr))
}

/// One address, and no range that holds it among others.
fn is_exactly(value: &Value, addr: IpAddr) -> bool {
    match value {
        Value::Addrs(low, high) => (*low, *high) == (addr, addr),
        Value::Masked { addr: bits, mask } => {
            let whole =
                ipnet::ip_mask_to_prefix(*mask).ok() == Some(if addr.is_ipv4() { 32 } else { 128 });
            whole && *bits == addr
        }
        _ => false,
    }
}
