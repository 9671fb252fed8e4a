//! The range in which a pod's address lies, as the node knows it: what another network has to route back.

use super::{Inventory, Namespace};
use crate::event::NetnsId;
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;

/// A range of pod addresses, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRange {
    /// The range.
    pub net: IpNet,
    /// How it is known.
    pub known: RangeKnown,
}

/// How a range is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeKnown {
    /// A route of the node leads there without another hop, by this device.
    Route(String),
    /// An address of this device of the node is in it.
    NodeDevice(String),
    /// The pod's own address on this device says so.
    PodDevice(String),
    /// Nothing but the address itself is known.
    Address,
}

impl fmt::Display for RangeKnown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Route(device) => write!(f, "the node's own route by {device}"),
            Self::NodeDevice(device) => write!(f, "the address of the node's {device}"),
            Self::PodDevice(device) => write!(f, "the prefix of the pod's {device}"),
            Self::Address => {
                f.write_str("the address alone: no range around it is known on this node")
            }
        }
    }
}

impl Inventory {
    /// The widest range around a source that this node knows to be its own pods': by its routes without
    /// a next hop, by its devices' addresses, by the pod's own. `pod` is where the flow began.
    #[must_use]
    pub fn pod_range(&self, source: IpAddr, pod: Option<NetnsId>) -> PodRange {
        let node = self.node.and_then(|id| self.namespaces.get(&id));
        let own = pod
            .filter(|id| self.node != Some(*id))
            .and_then(|id| self.namespaces.get(&id));
        let routes = node.into_iter().flat_map(|ns| {
            let on_link = ns.routes.iter().filter(|route| route.via.is_none());
            on_link.map(|route| (route.to, RangeKnown::Route(device(ns, route.ifindex))))
        });
        let devices = node
            .into_iter()
            .flat_map(|ns| nets(ns).map(|(net, device)| (net, RangeKnown::NodeDevice(device))));
        let pods = own
            .into_iter()
            .flat_map(|ns| nets(ns).map(|(net, device)| (net, RangeKnown::PodDevice(device))));
        let around = |net: &IpNet| {
            net.contains(&source) && net.prefix_len() > 0 && net.prefix_len() < net.max_prefix_len()
        };
        let all = routes.chain(devices).chain(pods);
        let widest = all
            .filter(|(net, _)| around(net))
            .min_by_key(|(net, _)| net.prefix_len());
        match widest {
            Some((net, known)) => PodRange { net, known },
            None => PodRange {
                net: source.into(),
                known: RangeKnown::Address,
            },
        }
    }

    /// The addresses that a masquerade to another network may take on this node: those of this device, of
    /// the same family, that can be used beyond it.
    #[must_use]
    pub fn addresses_of(&self, netns: NetnsId, ifindex: u32, like: IpAddr) -> Vec<IpAddr> {
        let link = self.link(netns, ifindex);
        let all = link.into_iter().flat_map(|link| &link.addrs);
        all.map(IpNet::addr)
            .filter(|addr| addr.is_ipv4() == like.is_ipv4() && !super::is_link_local(*addr))
            .collect()
    }
}

fn device(ns: &Namespace, ifindex: u32) -> String {
    let link = ns.links.get(&ifindex);
    link.map_or_else(|| format!("device {ifindex}"), |link| link.name.clone())
}

/// The networks of a namespace's devices.
fn nets(ns: &Namespace) -> impl Iterator<Item = (IpNet, String)> {
    let links = ns.links.values().filter(|link| !link.loopback);
    links.flat_map(|link| {
        let nets = link.addrs.iter();
        nets.map(|net| (net.trunc(), link.name.clone()))
    })
}
