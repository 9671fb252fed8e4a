//! One short visit to a namespace: its devices, addresses and routes.

use crate::system::SystemError;
use crate::system::netlink::Rtnetlink;
use crate::system::netns::{Netns, enter, on_visitor};
use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::LinkNameSpaceType;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Link, Namespace, Route};

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
    forwards: Option<bool>,
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
        }
    }
}

/// Visits namespaces in turn; `None` for one that went away or may not be entered. The calling
/// thread moves.
pub(super) fn look_at(targets: &[&Netns]) -> Vec<(NetnsId, Option<Sight>)> {
    targets
        .iter()
        .map(|netns| (netns.id, look(netns).ok()))
        .collect()
}

/// Why a namespace that must be looked at could not be.
pub(super) fn why_not(netns: &Netns) -> SystemError {
    match on_visitor(|| look(netns).err()) {
        Ok(Some(error)) | Err(error) => error,
        Ok(None) => SystemError::Vanished(netns.to_string()),
    }
}

fn look(netns: &Netns) -> Result<Sight, SystemError> {
    enter(netns.open()?, LinkNameSpaceType::Network, netns)?;
    read().map_err(|e| SystemError::os("list the devices of", netns, e))
}

fn read() -> io::Result<Sight> {
    let mut sight = Sight {
        forwards: forwards(),
        ..Sight::default()
    };
    ask(RouteNetlinkMessage::GetLink(all_links()), |answer| {
        if let RouteNetlinkMessage::NewLink(message) = answer {
            sight.add_link(&message);
        }
        ControlFlow::Continue(())
    })?;
    let addresses = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    ask(addresses, |answer| {
        if let RouteNetlinkMessage::NewAddress(message) = answer {
            sight.add_address(&message);
        }
        ControlFlow::Continue(())
    })?;
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let routes = ask(
            RouteNetlinkMessage::GetRoute(main_table(family)),
            |answer| sight.add_answered_routes(answer, family),
        );
        routes.or_else(unless_no_table)?;
    }
    Ok(sight)
}

/// A namespace that never had a route has no main table, and a kernel without IPv6 none for it.
fn unless_no_table(error: io::Error) -> io::Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::EAFNOSUPPORT) => Ok(()),
        _ => Err(error),
    }
}

/// Asks one question on a socket of its own: one that is left in the middle of a long answer is
/// closed, which ends the answer too.
fn ask(
    question: RouteNetlinkMessage,
    take: impl FnMut(RouteNetlinkMessage) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut socket = Rtnetlink::open().map_err(io::Error::other)?;
    socket.dump(question, take)
}

fn all_links() -> LinkMessage {
    let mut question = LinkMessage::default();
    let lean = LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]);
    question.attributes.push(lean);
    question
}

fn main_table(family: AddressFamily) -> RouteMessage {
    let mut question = RouteMessage::default();
    question.header.address_family = family;
    question.header.table = RouteHeader::RT_TABLE_MAIN;
    question
}

/// Of the thread's namespace, as all of /proc/sys/net.
fn forwards() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").ok()?;
    Some(text.trim() != "0")
}

impl Sight {
    fn add_link(&mut self, message: &LinkMessage) {
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

    fn add_address(&mut self, message: &AddressMessage) {
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
    fn add_answered_routes(
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

fn destination(message: &RouteMessage) -> Option<IpNet> {
    let length = message.header.destination_prefix_length;
    let given = message.attributes.iter().find_map(|a| match a {
        RouteAttribute::Destination(addr) => ip(addr),
        _ => None,
    });
    let any = match message.header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    IpNet::new(given.unwrap_or(any), length).ok()
}

/// Next hop and out device of a route or of one of its paths.
fn hop(attributes: &[RouteAttribute], device: Option<u32>) -> Option<(Option<IpAddr>, u32)> {
    let mut via = None;
    let mut out = device;
    for attribute in attributes {
        match attribute {
            RouteAttribute::Gateway(addr) => via = ip(addr),
            RouteAttribute::Via(RouteVia::Inet6(addr)) => via = Some((*addr).into()),
            RouteAttribute::Via(RouteVia::Inet(addr)) => via = Some((*addr).into()),
            RouteAttribute::Oif(index) => out = Some(*index),
            _ => {}
        }
    }
    Some((via, out?))
}

/// The address of a route attribute, unless it is an MPLS label.
pub(in crate::system) fn ip(addr: &RouteAddress) -> Option<IpAddr> {
    match addr {
        RouteAddress::Inet(addr) => Some((*addr).into()),
        RouteAddress::Inet6(addr) => Some((*addr).into()),
        _ => None,
    }
}

/// Which numbers a namespace has for others; `None` when it went away. The calling thread moves.
/// Asking assigns nothing: a namespace without a number stays without.
pub(super) fn numbers(at: &Netns, about: &[&Netns]) -> Option<BTreeMap<i32, NetnsId>> {
    enter(at.open().ok()?, LinkNameSpaceType::Network, at).ok()?;
    let mut socket = Rtnetlink::open().ok()?;
    let numbers = about.iter().filter_map(|other| {
        let open = other.open().ok()?;
        let fd = u32::try_from(open.as_raw_fd()).ok()?;
        Some((number(&mut socket, fd)?, other.id))
    });
    Some(numbers.collect())
}

fn number(socket: &mut Rtnetlink, fd: u32) -> Option<i32> {
    let mut question = NsidMessage::default();
    question.attributes.push(NsidAttribute::Fd(fd));
    let answer = socket.get(RouteNetlinkMessage::GetNsId(question)).ok()??;
    let RouteNetlinkMessage::NewNsId(message) = answer else {
        return None;
    };
    let number = message.attributes.iter().find_map(|a| match a {
        NsidAttribute::Id(id) => Some(*id),
        _ => None,
    });
    number.filter(|number| *number >= 0)
}
