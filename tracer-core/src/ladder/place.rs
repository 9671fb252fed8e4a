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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Route;
    use std::collections::BTreeMap;

    const NODE: NetnsId = NetnsId(1);
    const VPN: NetnsId = NetnsId(2);
    const POD: NetnsId = NetnsId(3);

    fn link(name: &str, addr: &str, peer: Option<(NetnsId, u32)>) -> Link {
        Link {
            name: name.to_owned(),
            addrs: vec![addr.parse().unwrap()],
            up: true,
            peer,
            ..Link::default()
        }
    }

    fn space(links: Vec<Link>, routes: &[(&str, u32)]) -> Namespace {
        let routes = routes.iter().map(|(to, ifindex)| Route {
            to: to.parse().unwrap(),
            via: None,
            ifindex: *ifindex,
        });
        Namespace {
            routes: routes.collect(),
            links: (1..).zip(links).collect(),
            ..Namespace::default()
        }
    }

    /// A VPN pod with a pool behind `tun0` and another network behind that, and a plain pod.
    fn inventory() -> Inventory {
        let pair = |at| Some((NODE, at));
        let vpn = vec![
            link("eth0", "10.12.9.4/24", pair(1)),
            link("tun0", "10.8.0.1/24", None),
        ];
        let node = vec![
            link("veth-vpn", "10.12.9.1/24", Some((VPN, 1))),
            link("veth-pod", "10.12.3.1/24", Some((POD, 1))),
            link("eth0", "10.100.0.5/24", None),
        ];
        let pod = vec![link("eth0", "10.12.3.4/24", pair(2))];
        let namespaces = [
            (NODE, space(node, &[("0.0.0.0/0", 3), ("10.8.0.0/24", 1)])),
            (VPN, space(vpn, &[("0.0.0.0/0", 1), ("192.168.7.0/24", 2)])),
            (POD, space(pod, &[("0.0.0.0/0", 1)])),
        ];
        Inventory {
            node: Some(NODE),
            namespaces: BTreeMap::from(namespaces),
            ..Inventory::default()
        }
    }

    #[test]
    fn a_client_comes_in_where_the_longest_prefix_says() {
        let at = |netns, client: &str| {
            arrival(&inventory(), netns, client.parse().unwrap()).map(|at| (at.netns, at.ifname))
        };
        let tun = Some((VPN, "tun0".to_owned()));
        assert_eq!(at(None, "10.8.0.2"), tun);
        assert_eq!(at(Some(VPN), "192.168.7.9"), tun);
        // Only the node knows it, and a default route says nothing.
        assert_eq!(at(None, "10.100.0.9"), Some((NODE, "eth0".to_owned())));
        assert_eq!(at(None, "203.0.113.9"), None);
        assert_eq!(at(Some(POD), "10.8.0.2"), None);
    }

    #[test]
    fn a_pod_with_a_second_device_has_others_behind_it() {
        let device = |netns| gateway_device(&inventory(), netns).map(str::to_owned);
        assert_eq!(device(VPN).as_deref(), Some("tun0"));
        assert_eq!((device(POD), device(NODE)), (None, None));
        let mut stranded = inventory();
        let vpn = stranded.namespaces.get_mut(&VPN).unwrap();
        vpn.routes.clear();
        assert_eq!(gateway_device(&stranded, VPN), None);
    }
}
