//! Where a client's packets come in, and which pods forward for others.

use crate::event::NetnsId;
use crate::inventory::{Inventory, Link, Namespace, Role};
use std::net::IpAddr;

/// Where the packets of a client come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The namespace.
    pub netns: NetnsId,
    /// Its device.
    pub ifname: String,
}

/// The device behind which a client is: of `netns`, else of the pods, else of the node. The longest prefix that holds
/// the client's address counts; a default route says nothing.
#[must_use]
pub fn arrival(inventory: &Inventory, netns: Option<NetnsId>, client: IpAddr) -> Option<Arrival> {
    let here = |role: Role| {
        inventory
            .namespaces
            .iter()
            .filter(move |(id, _)| inventory.role(**id) == role && !inventory.owns(**id, client))
    };
    let best = |spaces: &mut dyn Iterator<Item = (&NetnsId, &Namespace)>| {
        let all = spaces.filter_map(|(id, ns)| behind(ns, client).map(|found| (found, *id)));
        all.max_by_key(|((len, _), _)| *len)
    };
    let found = match netns {
        Some(id) => best(&mut inventory.namespaces.iter().filter(|(at, _)| **at == id)),
        None => best(&mut here(Role::Pod)).or_else(|| best(&mut here(Role::Node))),
    };
    let ((_, ifindex), netns) = found?;
    let ifname = inventory.link(netns, ifindex)?.name.clone();
    Some(Arrival { netns, ifname })
}

/// The device behind which an address is, with the length of the prefix that says so.
fn behind(ns: &Namespace, addr: IpAddr) -> Option<(u8, u32)> {
    let on_link = ns.links.iter().flat_map(|(index, link)| {
        let nets = link.addrs.iter().filter(|_| !link.loopback);
        nets.map(move |net| (net.trunc(), *index))
    });
    let routed = ns.routes.iter().map(|route| (route.to, route.ifindex));
    let holds = on_link.chain(routed).filter(|(net, _)| net.contains(&addr));
    let lengths = holds.map(|(net, index)| (net.prefix_len(), index));
    lengths
        .filter(|(len, _)| *len > 0)
        .max_by_key(|(len, _)| *len)
}

/// The device of a pod behind which it has others to forward for: a second one, with an address, that is not its way out.
#[must_use]
pub fn gateway_device(inventory: &Inventory, netns: NetnsId) -> Option<&str> {
    let ns = inventory.namespaces.get(&netns)?;
    if inventory.role(netns) != Role::Pod {
        return None;
    }
    let is_way_out = |index: u32| {
        let mut defaults = ns.routes.iter().filter(|route| route.to.prefix_len() == 0);
        defaults.any(|route| route.ifindex == index)
    };
    let behind = |(index, link): &(&u32, &Link)| {
        link.up && !link.loopback && !link.addrs.is_empty() && !is_way_out(**index)
    };
    // Without a way out there is nothing to forward to.
    let mut ways_out = ns.links.keys().filter(|index| is_way_out(**index));
    ways_out.next()?;
    let (_, link) = ns.links.iter().find(behind)?;
    Some(&link.name)
}
