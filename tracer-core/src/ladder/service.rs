//! Which addresses are Services': never to be asked by ICMP, for nothing answers there but by chance.

use crate::event::NetnsId;
use crate::inventory::{IPVS_DEVICE, Inventory, Link};
use crate::ruleset::{Action, Condition, Field, Rule, Ruleset, SetId, Step, Test, Value};
use std::net::IpAddr;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Namespace;
    use crate::ruleset::{Dumps, Family, assemble};
    use std::collections::BTreeMap;

    const NODE: NetnsId = NetnsId(1);

    fn link(name: &str, addr: &str) -> Link {
        Link {
            name: name.to_owned(),
            addrs: vec![addr.parse().unwrap()],
            up: true,
            ..Link::default()
        }
    }

    fn node() -> Inventory {
        let links = [
            link("eth0", "10.100.0.5/24"),
            link("kube-ipvs0", "10.96.0.50/32"),
        ];
        let node = Namespace {
            links: (1..).zip(links).collect(),
            ..Namespace::default()
        };
        Inventory {
            node: Some(NODE),
            namespaces: BTreeMap::from([(NODE, node)]),
            ..Inventory::default()
        }
    }

    /// Addresses in rules of others, in ranges, as sources and of endpoints are no Services.
    #[test]
    fn what_kube_proxy_translates_for_is_a_service() {
        let nat = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:OTHER - [0:0]\n\
            -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
            -A KUBE-SERVICES ! -s 10.12.0.0/16 -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j KUBE-SEP-A\n\
            -A KUBE-SERVICES -d 10.97.0.0/16 -j KUBE-SEP-A\n\
            -A KUBE-SERVICES ! -d 10.96.0.77/32 -j RETURN\n\
            -A KUBE-SERVICES -d 10.100.0.5/32 -p tcp -m tcp --dport 30080 -j KUBE-SEP-A\n\
            -A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-SEP-A\n\
            -A KUBE-SEP-A -s 10.12.4.4/32 -j RETURN\n\
            -A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.12.4.4:8080\n\
            -A KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE\n\
            -A OTHER -d 10.20.30.40/32 -j RETURN\nCOMMIT\n";
        let sets = "create KUBE-CLUSTER-IP hash:ip,port family inet\nadd KUBE-CLUSTER-IP 10.96.0.60,tcp:80\n\
            create KUBE-LOOP-BACK hash:ip,port,ip family inet\nadd KUBE-LOOP-BACK 10.12.4.5,tcp:80,10.12.4.5\n";
        let rules = assemble(&Dumps {
            ipset: Some(sets.to_owned()),
            legacy: vec![(Family::Ip, nat.to_owned())],
            ..Dumps::default()
        });
        assert_eq!(rules.unread, []);
        for (addr, should) in [
            ("10.96.0.10", true),
            ("10.96.0.60", true),
            ("10.96.0.50", true),
            ("10.97.0.1", false),
            ("10.96.0.77", false),
            ("10.100.0.5", false),
            ("10.12.4.4", false),
            ("10.12.4.5", false),
            ("10.20.30.40", false),
        ] {
            assert_eq!(
                is_service(&rules, &node(), addr.parse().unwrap()),
                should,
                "{addr}"
            );
        }
    }
}
