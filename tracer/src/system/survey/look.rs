//! One short visit to a namespace: its devices, addresses and routes.

use super::sight::Sight;
use crate::system::SystemError;
use crate::system::netlink::Netlink;
use crate::system::netns::{Netns, enter, on_visitor};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::route::{RouteHeader, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::thread::LinkNameSpaceType;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use tracer_core::event::NetnsId;
use tracer_core::inventory::{BrNetfilter, Handing};

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
    let mut sight = Sight::default();
    sight.forwards = switch("ipv4/ip_forward");
    sight.forwards_v6 = forwards_v6();
    sight.br_netfilter = br_netfilter();
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
    let mut socket = Netlink::open().map_err(io::Error::other)?;
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
fn switch(name: &str) -> Option<bool> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?;
    Some(text.trim() != "0")
}

/// `None` also where the namespace does not forward, and one of its devices does (net/ipv6/ip6_output.c, `ip6_forward`).
fn forwards_v6() -> Option<bool> {
    let all = switch("ipv6/conf/all/forwarding")?;
    // Kernels before 6.17 have no such switch.
    let forced = |of: &str| switch(&format!("ipv6/conf/{of}/force_forwarding")) == Some(true);
    let by_a_device = || {
        let devices = std::fs::read_dir("/proc/sys/net/ipv6/conf")
            .into_iter()
            .flatten()
            .flatten();
        let mut names = devices.map(|device| device.file_name().to_string_lossy().into_owned());
        names.any(|name| forced(&name))
    };
    let has_switch = || switch("ipv6/conf/all/force_forwarding").is_some();
    (all || !has_switch() || !by_a_device()).then_some(all)
}

fn br_netfilter() -> BrNetfilter {
    let call = |tables| switch(&format!("bridge/bridge-nf-call-{tables}"));
    match (call("iptables"), call("ip6tables")) {
        (Some(ipv4), Some(ipv6)) => BrNetfilter::Loaded(Handing { ipv4, ipv6 }),
        // It makes the folder in each namespace.
        _ if !std::path::Path::new("/proc/sys/net/bridge").exists() => BrNetfilter::Absent,
        _ => BrNetfilter::Unknown,
    }
}

/// Which numbers a namespace has for others; `None` when it went away. The calling thread moves.
/// Asking assigns nothing: a namespace without a number stays without.
pub(super) fn numbers(at: &Netns, about: &[&Netns]) -> Option<BTreeMap<i32, NetnsId>> {
    enter(at.open().ok()?, LinkNameSpaceType::Network, at).ok()?;
    let mut socket = Netlink::open().ok()?;
    let numbers = about.iter().filter_map(|other| {
        let open = other.open().ok()?;
        let fd = u32::try_from(open.as_raw_fd()).ok()?;
        Some((number(&mut socket, fd)?, other.id))
    });
    Some(numbers.collect())
}

fn number(socket: &mut Netlink, fd: u32) -> Option<i32> {
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
