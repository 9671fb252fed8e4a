//! Where the routes of a namespace, in whichever table, tell destinations apart.

use super::SystemError;
use super::netlink::Netlink;
use super::netns::{Netns, visit};
use super::route::ip;
use ipnet::IpNet;
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;

/// Prefixes kept of one namespace: a router with the Internet's table has too many to ask about each.
const MOST: usize = 20_000;

/// What the routes of a namespace tell apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// The destinations of all its routes and routing rules.
    pub nets: Vec<IpNet>,
    /// Whether there are no more.
    pub whole: bool,
    /// Whether a route has several next hops: which of them a packet takes is told by its addresses.
    pub several: bool,
}

/// Asks for them.
///
/// # Errors
/// When the namespace is gone or may not be entered.
pub fn prefixes(netns: &Netns) -> Result<Prefixes, SystemError> {
    visit(netns, || {
        let mut found = BTreeSet::new();
        let mut several = false;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut routes = RouteMessage::default();
            routes.header.address_family = family;
            let mut rules = RuleMessage::default();
            rules.header.family = family;
            for question in [
                RouteNetlinkMessage::GetRoute(routes),
                RouteNetlinkMessage::GetRule(rules),
            ] {
                let mut socket = Netlink::open()?;
                // A family that the kernel lacks has no routes.
                let _ = socket.dump(question, |answer| {
                    several |= has_several(&answer);
                    found.extend(prefix(&answer));
                    match found.len() < MOST {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
            }
        }
        Ok(Prefixes {
            whole: found.len() < MOST,
            nets: found.into_iter().collect(),
            several,
        })
    })
}

/// Whether a route has several next hops. One whose next hops are an object of their own (`ip nexthop`) has
/// them as any other where the object is a group (net/ipv4/fib_semantics.c, `fib_dump_info`).
fn has_several(answer: &RouteNetlinkMessage) -> bool {
    match answer {
        RouteNetlinkMessage::NewRoute(route) => route
            .attributes
            .iter()
            .any(|a| matches!(a, RouteAttribute::MultiPath(_))),
        _ => false,
    }
}

fn prefix(answer: &RouteNetlinkMessage) -> Option<IpNet> {
    match answer {
        RouteNetlinkMessage::NewRoute(route) => destination(route),
        RouteNetlinkMessage::NewRule(rule) => {
            let to = rule.attributes.iter().find_map(|a| match a {
                RuleAttribute::Destination(addr) => Some(*addr),
                _ => None,
            });
            IpNet::new(to?, rule.header.dst_len).ok()
        }
        _ => None,
    }
}

/// The destinations of a route.
pub(super) fn destination(message: &RouteMessage) -> Option<IpNet> {
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
