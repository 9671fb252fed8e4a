//! Who could send from this machine, or through it.

use super::Sender;
use crate::event::NetnsId;
use crate::inventory::{Inventory, Link, Namespace, Role};
use crate::report::OriginKind;
use crate::ruleset::Ruleset;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Every sender that there is on this node for a destination's address family: its pods, itself, the
/// clients of pods that forward, and clients that come in by the node's own devices. A pod with one device
/// is known to forward by its NAT rules, where `rules` has them.
#[must_use]
pub fn senders(inventory: &Inventory, rules: &BTreeMap<NetnsId, Ruleset>, v4: bool) -> Vec<Sender> {
    let mut found = Vec::new();
    for (netns, ns) in &inventory.namespaces {
        match inventory.role(*netns) {
            Role::Pod if has_address(ns, v4) => {
                found.push(made_in(OriginKind::Pod, *netns));
                let before = found.len();
                found.extend(clients(*netns, ns, OriginKind::Gateway, v4));
                if found.len() == before && translates(inventory, *netns, rules.get(netns), v4) {
                    found.extend(on_one_arm(*netns, ns, v4));
                }
            }
            Role::Node if has_address(ns, v4) => {
                found.push(made_in(OriginKind::Node, *netns));
                found.extend(clients(*netns, ns, OriginKind::External, v4));
            }
            _ => {}
        }
    }
    // A namespace's number tells nothing, and is another each time.
    found.sort_by_key(|sender| {
        let name = inventory.called(sender.netns);
        (order(sender.kind), name.is_none(), name, *sender)
    });
    found
}

/// As they are told: pods, the node, clients of pods that forward, others.
fn order(kind: OriginKind) -> u8 {
    match kind {
        OriginKind::Pod => 0,
        OriginKind::Node => 1,
        OriginKind::Gateway => 2,
        OriginKind::External => 3,
    }
}

fn made_in(kind: OriginKind, netns: NetnsId) -> Sender {
    Sender {
        kind,
        netns,
        iif: None,
        src: None,
    }
}

fn has_address(ns: &Namespace, v4: bool) -> bool {
    let links = ns.links.values().filter(|link| !link.loopback);
    links
        .flat_map(|link| &link.addrs)
        .any(|net| counts(net, v4))
}

fn counts(net: &IpNet, v4: bool) -> bool {
    let local = matches!(net.addr(), IpAddr::V6(v6) if v6.is_unicast_link_local());
    net.addr().is_ipv4() == v4 && !local
}

/// Clients whose packets a namespace forwards. Of a pod: those behind its other devices (a tunnel), where
/// it forwards at all; of the node: those behind the devices of its default routes.
fn clients(
    netns: NetnsId,
    ns: &Namespace,
    kind: OriginKind,
    v4: bool,
) -> impl Iterator<Item = Sender> {
    let uplink = move |index: u32| {
        let mut defaults = ns.routes.iter().filter(|route| route.to.prefix_len() == 0);
        defaults.any(|route| route.ifindex == index)
    };
    let pod = kind == OriginKind::Gateway;
    let behind = move |(index, link): &(&u32, &Link)| {
        link.up
            && !link.loopback
            && link.addrs.iter().any(|net| counts(net, v4))
            && uplink(**index) != pod
    };
    let forwards = !pod || ns.forwards(v4) != Some(false);
    let links = ns.links.iter().filter(move |_| forwards).filter(behind);
    links.map(move |(index, link)| Sender {
        kind,
        netns,
        iif: Some(*index),
        src: pod.then(|| pool(link, v4)).flatten(),
    })
}

/// Whether a pod forwards and has NAT rules for others.
fn translates(inventory: &Inventory, netns: NetnsId, rules: Option<&Ruleset>, v4: bool) -> bool {
    let version = if v4 { 4 } else { 6 };
    let here = inventory.namespaces.get(&netns);
    here.is_some_and(|ns| ns.forwards(v4) == Some(true))
        && rules.is_some_and(|rules| inventory.translates_for_others(netns, rules, version))
}

/// Clients that come in by the device by which they go out again: who they are is not known.
fn on_one_arm(netns: NetnsId, ns: &Namespace, v4: bool) -> impl Iterator<Item = Sender> {
    let routes = ns.routes.iter();
    let default = routes.filter(move |r| r.to.prefix_len() == 0 && r.to.addr().is_ipv4() == v4);
    let devices: BTreeSet<u32> = default.map(|route| route.ifindex).collect();
    devices.into_iter().map(move |index| Sender {
        kind: OriginKind::Gateway,
        netns,
        iif: Some(index),
        src: None,
    })
}

/// An address that a client behind a tunnel may have: of the tunnel's network, the first that is not the
/// tunnel's own.
fn pool(link: &Link, v4: bool) -> Option<IpAddr> {
    let net = link.addrs.iter().find(|net| counts(net, v4))?;
    net.hosts().take(3).find(|addr| *addr != net.addr())
}
