//! The pods of the node and the networks around, as its devices show them.

use crate::cli::ConfigOptions;
use std::net::IpAddr;
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Inventory, Role};
use tracer_core::masqconfig::Ranges;

/// Pods of the node: an address, and the node's device to it.
pub(super) fn pods(inventory: &Inventory) -> Vec<(IpAddr, String)> {
    let Some(node) = inventory.node else {
        return Vec::new();
    };
    let spaces = inventory.namespaces.iter();
    let pods = spaces.filter(|(id, _)| inventory.role(**id) == Role::Pod);
    let mut found = Vec::new();
    for (_, ns) in pods {
        for link in ns.links.values().filter(|link| !link.loopback) {
            let Some((_, index)) = link.peer.filter(|(peer, _)| *peer == node) else {
                continue;
            };
            let Some(device) = inventory.link(node, index) else {
                continue;
            };
            let name = upper(inventory, node, index).unwrap_or_else(|| device.name.clone());
            let addrs = link.addrs.iter().map(|net| net.addr());
            found.extend(addrs.map(|addr| (addr, name.clone())));
        }
    }
    found
}

/// The bridge that a device belongs to: its packets come in by that.
fn upper(inventory: &Inventory, node: NetnsId, index: u32) -> Option<String> {
    let master = inventory.link(node, index)?.master?;
    Some(inventory.link(node, master)?.name.clone())
}

/// The networks around, as the node shows them.
pub(super) fn ranges(inventory: &Inventory, options: &ConfigOptions) -> Ranges {
    let mut ranges = Ranges {
        onprem: options.onprem.clone(),
        ..Ranges::default()
    };
    let usable = |net: &ipnet::IpNet| match net.addr() {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback(),
    };
    for (id, ns) in &inventory.namespaces {
        let role = inventory.role(*id);
        let links = ns.links.values().filter(|link| !link.loopback);
        for link in links {
            let to_pod = link
                .peer
                .is_some_and(|(peer, _)| inventory.role(peer) == Role::Pod);
            let of_pod = link
                .peer
                .is_some_and(|(peer, _)| Some(peer) == inventory.node);
            let nets = link
                .addrs
                .iter()
                .filter(|net| usable(net))
                .map(ipnet::IpNet::trunc);
            match role {
                Role::Pod if of_pod => ranges.pods.extend(nets),
                Role::Node if !to_pod && link.kind != "bridge" => ranges.nodes.extend(nets),
                _ => {}
            }
        }
    }
    ranges.pods = ipnet::IpNet::aggregate(&ranges.pods);
    ranges.nodes = ipnet::IpNet::aggregate(&ranges.nodes);
    ranges.nodes.retain(|net| !ranges.pods.contains(net));
    ranges
}
