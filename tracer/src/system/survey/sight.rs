//! What one visit to a namespace showed, made from the kernel's messages.

use crate::system::prefixes::destination;
use crate::system::route::hop;
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tracer_core::inventory::{BrNetfilter, Handing, Link, Namespace, Route};

/// Routes kept of one namespace; a router with a full table has more than roles and hints need.
const ROUTES: usize = 4096;

/// What a namespace showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Devices by index, without peers.
    pub(super) links: BTreeMap<u32, Link>,
    /// What each device says of the one it is tied to.
    pub(super) ties: BTreeMap<u32, Tie>,
    routes: Vec<Route>,
    pub(super) forwards: Option<bool>,
    pub(super) forwards_v6: Option<bool>,
    pub(super) br_netfilter: BrNetfilter,
}

/// A device's tie to another: the other end of a pair, or the device below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tie {
    /// Index of the other device.
    pub(super) ifindex: u32,
    /// Its namespace as this one numbers it; `None` for the same namespace.
    pub(super) nsid: Option<i32>,
}

impl Sight {
    /// The inventory's view, with names and peers added.
    pub(super) fn namespace(
        &self,
        names: super::names::Names,
        links: BTreeMap<u32, Link>,
    ) -> Namespace {
        Namespace {
            name: names.name,
            pod: names.pod,
            links,
            routes: self.routes.clone(),
            forwards: self.forwards,
            forwards_v6: self.forwards_v6,
            br_netfilter: self.br_netfilter,
        }
    }
}

impl Sight {
    pub(super) fn add_link(&mut self, message: &LinkMessage) {
        let index = message.header.index;
        let has = |flag| message.header.flags.contains(flag);
        let mut link = Link {
            loopback: has(LinkFlags::Loopback),
            up: has(LinkFlags::Up),
            ..Link::default()
        };
        let (mut tied, mut nsid) = (None, None);
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::Controller(master) => link.master = Some(*master),
                LinkAttribute::Link(other) => tied = Some(*other),
                LinkAttribute::LinkNetNsId(id) => nsid = Some(*id),
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = kind(infos);
                    link.handing = handing(infos);
                    tied = tied.or_else(|| underlay(infos));
                }
                _ => {}
            }
        }
        if let Some(ifindex) = tied.filter(|other| *other != 0) {
            self.ties.insert(index, Tie { ifindex, nsid });
        }
        self.links.insert(index, link);
    }

    pub(super) fn add_address(&mut self, message: &AddressMessage) {
        let pick = |local| {
            message.attributes.iter().find_map(|a| match a {
                AddressAttribute::Local(addr) if local => Some(*addr),
                AddressAttribute::Address(addr) if !local => Some(*addr),
                _ => None,
            })
        };
        // On point-to-point devices "address" is the other end's.
        let addr = pick(true).or_else(|| pick(false));
        let net = addr.and_then(|a| IpNet::new(a, message.header.prefix_len).ok());
        if let (Some(net), Some(link)) = (net, self.links.get_mut(&message.header.index)) {
            link.addrs.push(net);
        }
    }

    /// Takes a route; breaks off when there are enough.
    pub(super) fn add_answered_routes(
        &mut self,
        answer: RouteNetlinkMessage,
        family: AddressFamily,
    ) -> ControlFlow<()> {
        match answer {
            // Where a family is not there, the kernel answers for all.
            RouteNetlinkMessage::NewRoute(message)
                if message.header.address_family == family
                    && message.header.kind == RouteType::Unicast =>
            {
                self.add_routes(&message);
            }
            _ => {}
        }
        match self.routes.len() < ROUTES {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn add_routes(&mut self, message: &RouteMessage) {
        let Some(to) = destination(message) else {
            return;
        };
        let one = hop(&message.attributes, None);
        let many = message.attributes.iter().flat_map(|a| match a {
            RouteAttribute::MultiPath(hops) => hops.as_slice(),
            _ => &[],
        });
        let many = many.filter_map(|h| hop(&h.attributes, Some(h.interface_index)));
        let routes = one.into_iter().chain(many);
        self.routes
            .extend(routes.map(|(via, ifindex)| Route { to, via, ifindex }));
    }
}

fn kind(infos: &[LinkInfo]) -> String {
    let found = infos.iter().find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind),
        _ => None,
    });
    found.map(InfoKind::to_string).unwrap_or_default()
}

/// What a bridge asks for; other devices do not say.
fn handing(infos: &[LinkInfo]) -> Option<Handing> {
    let data = infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Bridge(data)) => Some(data),
        _ => None,
    })?;
    let mut handing = Handing::default();
    for asked in data {
        match asked {
            InfoBridge::NfCallIpTables(on) => handing.ipv4 = *on,
            InfoBridge::NfCallIp6Tables(on) => handing.ipv6 = *on,
            _ => {}
        }
    }
    Some(handing)
}

/// The device that a VXLAN sends by, which it does not tell as its link.
fn underlay(infos: &[LinkInfo]) -> Option<u32> {
    infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vxlan(data)) => data.iter().find_map(|d| match d {
            InfoVxlan::Link(index) => Some(*index),
            _ => None,
        }),
        _ => None,
    })
}
