//! Pods that forward for others, found without any traffic: for `doctor`.

use crate::system::netns::Netns;
use crate::system::rules::{self, Programs, Stores};
use crate::system::{Roots, Scope, Survey};
use tracer_core::inventory::{Gateway, Inventory, Role};
use tracer_core::report::Capability;

/// A line for each gateway of this machine; one that says why where nobody could look.
pub(super) fn gateways() -> Vec<Capability> {
    let roots = Roots::default();
    let survey = Netns::own(&roots).and_then(|own| Survey::take(&roots, &own, Scope::All));
    match survey {
        Ok(survey) => found(&roots, &survey),
        Err(error) => vec![Capability {
            what: "gateway pods".to_owned(),
            available: false,
            why: error.to_string(),
            effect: "pods that forward for others are known only by traffic that passes them"
                .to_owned(),
        }],
    }
}

fn found(roots: &Roots, survey: &Survey) -> Vec<Capability> {
    let inventory = survey.inventory();
    let programs = Programs::find();
    let stores = Stores::of_kernel(roots).ok();
    let ids = inventory.namespaces.keys();
    let mut pods: Vec<_> = ids.filter(|id| inventory.role(**id) == Role::Pod).collect();
    pods.sort_by_key(|id| inventory.called(**id));
    pods.into_iter()
        .filter_map(|id| {
            let forwards = inventory.namespaces.get(id)?.is_forwarding();
            // Where nothing is forwarded rules translate nobody else.
            let netns = survey.netns(*id).filter(|_| forwards);
            let rules = netns.zip(stores);
            let rules =
                rules.and_then(|(at, stores)| rules::read(at, roots, stores, &programs).ok());
            let gateway = inventory.gateway(*id, rules.as_ref())?;
            Some(line(inventory, &gateway))
        })
        .collect()
}

const V4: &str = "net.ipv4.ip_forward";
const V6: &str = "net.ipv6.conf.all.forwarding";

fn line(inventory: &Inventory, gateway: &Gateway) -> Capability {
    let name = inventory.called(gateway.netns);
    let name = name.map_or_else(|| gateway.netns.0.to_string(), str::to_owned);
    let signs: Vec<String> = gateway.signs.iter().map(ToString::to_string).collect();
    let signs = signs.join(", ");
    let why = match gateway.forwards {
        [Some(true), Some(true)] => {
            format!("forwards for others: {V4}=1 and {V6}=1 there, and {signs}")
        }
        [Some(true), _] => format!("forwards for others: {V4}=1 there, and {signs}"),
        [_, Some(true)] => format!("forwards for others, IPv6 only: {V6}=1 there, and {signs}"),
        [Some(false), _] => {
            format!("is set up to forward and does not: {V4}=0 there, in spite of {signs}")
        }
        [None, _] => format!("may forward: {V4} there cannot be read; it has {signs}"),
    };
    Capability {
        what: format!("gateway {name}"),
        available: true,
        why,
        effect: "what it rewrites is told apart from what the node does; explain and map tell its clients apart from it"
            .to_owned(),
    }
}
