//! Which way a namespace would send: the kernel's own answer.

use super::SystemError;
use super::netlink::Netlink;
use super::netns::{Netns, visit};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use tracer_core::foresee::{Asked, Routed};
use tracer_core::inventory::{Refusal, RouteAnswer, RouteQuestion};

/// The way to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteHint {
    /// It is sent.
    Out {
        /// Next hop, if not on the link.
        via: Option<IpAddr>,
        /// Out device: index, and name where it could be read.
        dev: (u32, Option<String>),
        /// The source address the namespace itself would use.
        src: Option<IpAddr>,
        /// Whether it is an address of the namespace itself.
        local: bool,
    },
    /// The kernel refuses: no route, or one that says so.
    None(&'static str),
}

impl fmt::Display for RouteHint {
    /// As `ip route get` says it: `via 10.0.0.1 dev eth0 src 10.0.0.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None(why) => f.write_str(why),
            Self::Out {
                via,
                dev,
                src,
                local,
            } => {
                if *local {
                    f.write_str("local ")?;
                }
                if let Some(via) = via {
                    write!(f, "via {via} ")?;
                }
                match dev {
                    (_, Some(name)) => write!(f, "dev {name}")?,
                    (index, None) => write!(f, "dev #{index}")?,
                }
                src.map_or(Ok(()), |src| write!(f, " src {src}"))
            }
        }
    }
}

/// Asks a namespace for its route to an address.
///
/// # Errors
/// When the namespace is gone or does not answer; having no route is an answer.
pub fn route_get(netns: &Netns, dst: IpAddr) -> Result<RouteHint, SystemError> {
    visit(netns, || {
        let mut socket = Netlink::open()?;
        match socket.get(RouteNetlinkMessage::GetRoute(question(dst))) {
            Ok(Some(RouteNetlinkMessage::NewRoute(message))) => Ok(hint(&message)),
            Ok(_) => Err(SystemError::Answer {
                object: format!("the route to {dst}"),
                detail: "no route in it".into(),
            }),
            Err(e) => refusal(&e)
                .map(RouteHint::None)
                .ok_or_else(|| SystemError::os("ask for the route to", dst, e)),
        }
    })
}

/// Asks a namespace for many ways in one visit, each with the source that it would take; `None` where the
/// kernel's answer says nothing.
///
/// # Errors
/// When the namespace is gone or may not be entered.
pub fn ways(
    netns: &Netns,
    questions: &[Asked],
) -> Result<Vec<(Asked, Option<Routed>)>, SystemError> {
    visit(netns, || {
        let mut socket = Netlink::open()?;
        let ask = |question: &Asked| (*question, routed(&mut socket, *question));
        Ok(questions.iter().map(ask).collect())
    })
}

/// As [`route_get`], in the calling thread's namespace and also for packets that come in. `None`
/// where the kernel's answer says nothing.
pub(super) fn answer(socket: &mut Netlink, asked: RouteQuestion) -> Option<RouteAnswer> {
    routed(socket, asked.into()).map(|routed| routed.answer)
}

fn routed(socket: &mut Netlink, asked: Asked) -> Option<Routed> {
    let message = whole_question(asked);
    let came = asked.way.came;
    // What was named in the question is not told again.
    let to = |answer, src: Option<IpAddr>| {
        let src = src.or(asked.src);
        Some(Routed { answer, src })
    };
    let refused = |refusal| to(RouteAnswer::Refused(refusal), None);
    match socket.get(RouteNetlinkMessage::GetRoute(message)) {
        Ok(Some(RouteNetlinkMessage::NewRoute(message))) => match message.header.kind {
            RouteType::BlackHole => refused(Refusal::Blackhole),
            RouteType::Unreachable => refused(Refusal::Unreachable),
            RouteType::Prohibit => refused(Refusal::Prohibited),
            RouteType::Local | RouteType::Anycast => to(RouteAnswer::Local, source(&message)),
            // What comes in for everybody is for this namespace, too, and goes no further.
            RouteType::Broadcast if came.is_some() => to(RouteAnswer::Local, source(&message)),
            _ => hop(&message.attributes, None)
                .and_then(|(via, ifindex)| to(RouteAnswer::Out { via, ifindex }, source(&message))),
        },
        Ok(_) => None,
        Err(error) => match error.raw_os_error()? {
            libc::ENETUNREACH => refused(Refusal::NoRoute),
            libc::EHOSTUNREACH => refused(Refusal::Unreachable),
            libc::EACCES => refused(Refusal::Prohibited),
            libc::EXDEV => refused(Refusal::ReversePath),
            libc::EINVAL if came.is_none_or(|(src, _)| may_come(socket, asked, src)) => {
                refused(Refusal::Blackhole)
            }
            _ => None,
        },
    }
}

/// Whether an IPv4 source may come in at all: one that cannot be is refused as a blackhole is. A broadcast has no
/// other reason to be refused (net/ipv4/route.c, `ip_route_input_slow`). Of IPv6 no source is refused.
fn may_come(socket: &mut Netlink, mut asked: Asked, src: IpAddr) -> bool {
    asked.way.dst = Ipv4Addr::BROADCAST.into();
    let mut any = || socket.get(RouteNetlinkMessage::GetRoute(whole_question(asked)));
    src.is_ipv6() || (!src.is_unspecified() && any().is_ok())
}

fn whole_question(asked: Asked) -> RouteMessage {
    let mut message = question(asked.way.dst);
    let mut add = |attribute| message.attributes.push(attribute);
    if asked.mark != 0 {
        add(RouteAttribute::Mark(asked.mark));
    }
    let (src, dev) = asked.way.came.unzip();
    if let Some(dev) = dev {
        add(RouteAttribute::Iif(dev));
    }
    if let Some(src) = src.or(asked.src) {
        add(RouteAttribute::Source(src.into()));
        message.header.source_prefix_length = message.header.destination_prefix_length;
    }
    message
}

fn question(dst: IpAddr) -> RouteMessage {
    let mut question = RouteMessage::default();
    let (family, length) = match dst {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    question.header = RouteHeader {
        address_family: family,
        destination_prefix_length: length,
        ..RouteHeader::default()
    };
    question
        .attributes
        .push(RouteAttribute::Destination(dst.into()));
    question
}

fn refusal(error: &std::io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::ENETUNREACH | libc::EAFNOSUPPORT | libc::EOPNOTSUPP => Some("no route"),
        libc::EHOSTUNREACH => Some("unreachable"),
        libc::EACCES => Some("prohibited"),
        libc::EINVAL => Some("blackhole"),
        _ => None,
    }
}

/// The source that the namespace itself would take.
fn source(message: &RouteMessage) -> Option<IpAddr> {
    message.attributes.iter().find_map(|a| match a {
        RouteAttribute::PrefSource(addr) => ip(addr),
        _ => None,
    })
}

fn hint(message: &RouteMessage) -> RouteHint {
    match message.header.kind {
        RouteType::BlackHole => return RouteHint::None("blackhole"),
        RouteType::Unreachable => return RouteHint::None("unreachable"),
        RouteType::Prohibit => return RouteHint::None("prohibited"),
        _ => {}
    }
    let src = source(message);
    match hop(&message.attributes, None) {
        None => RouteHint::None("no route"),
        Some((via, index)) => RouteHint::Out {
            via,
            dev: (index, device_name(index)),
            src,
            local: message.header.kind == RouteType::Local,
        },
    }
}

/// Next hop and out device of a route or of one of its paths.
pub(super) fn hop(
    attributes: &[RouteAttribute],
    device: Option<u32>,
) -> Option<(Option<IpAddr>, u32)> {
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
pub(super) fn ip(addr: &RouteAddress) -> Option<IpAddr> {
    match addr {
        RouteAddress::Inet(addr) => Some((*addr).into()),
        RouteAddress::Inet6(addr) => Some((*addr).into()),
        _ => None,
    }
}

/// The name of a device of the thread's namespace.
fn device_name(index: u32) -> Option<String> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    );
    rustix::net::netdevice::index_to_name(&socket.ok()?, index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::TestNetns;

    #[test]
    fn routes_are_told_as_ip_route_tells_them() {
        let here = TestNetns::new("route");
        let there = TestNetns::new("route-peer");
        here.tie("eth0", &there, "eth0");
        here.ip("link set lo up");
        here.ip("addr add 10.66.0.2/24 dev eth0");
        here.ip("addr add fd66::2/64 dev eth0 nodad");
        here.ip("route add default via 10.66.0.1");
        here.ip("route add blackhole 10.1.0.0/16");
        here.ip("route add prohibit 10.2.0.0/16");
        here.ip("route add unreachable 10.3.0.0/16");
        here.ip("route add 10.4.0.0/16 via inet6 fd66::1 dev eth0");
        let path = format!("/run/netns/{}", here.0);
        let netns = Netns::at(std::path::Path::new(&path)).unwrap();
        let told = |to: &str| route_get(&netns, to.parse().unwrap()).unwrap().to_string();
        for (to, expected) in [
            ("10.20.30.40", "via 10.66.0.1 dev eth0 src 10.66.0.2"),
            ("10.66.0.9", "dev eth0 src 10.66.0.2"),
            ("10.66.0.2", "local dev lo src 10.66.0.2"),
            ("10.1.2.3", "blackhole"),
            ("10.2.2.3", "prohibited"),
            ("10.3.2.3", "unreachable"),
            ("10.4.2.3", "via fd66::1 dev eth0 src 10.66.0.2"),
            ("fd66::9", "dev eth0 src fd66::2"),
            ("fd50::20", "no route"),
        ] {
            assert_eq!(told(to), expected, "{to}");
        }
    }

    /// A blackhole is told from a source that may not come in, and marks and sources are asked for.
    #[test]
    fn ways_are_those_of_the_very_packet() {
        let here = TestNetns::new("ways");
        let there = TestNetns::new("ways-peer");
        for (dev, addr) in [("eth0", "10.66.0.2/24"), ("eth1", "10.67.0.2/24")] {
            here.tie(dev, &there, dev);
            here.ip(&format!("addr add {addr} dev {dev}"));
        }
        here.ip("link set lo up");
        here.ip("-6 addr add fd66::2/64 dev eth0 nodad");
        here.ip("route add default via 10.66.0.1");
        here.ip("route add blackhole 10.1.0.0/16");
        here.ip("-6 route add blackhole fd01::/16");
        here.ip("route add default via 10.67.0.1 table 100");
        here.ip("rule add fwmark 7 lookup 100");
        here.ip("rule add from 10.67.0.2 lookup 100");
        let path = format!("/run/netns/{}", here.0);
        let netns = Netns::at(std::path::Path::new(&path)).unwrap();
        here.forward(true);
        let index = |name: &str| visit(&netns, || Ok(device_index(name))).unwrap();
        let (eth0, eth1) = (index("eth0"), index("eth1"));
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let ask = |dst: &str, came: Option<&str>, src: Option<&str>, mark| {
            let way = RouteQuestion {
                dst: addr(dst),
                came: came.map(|src| (addr(src), eth0)),
            };
            let src = src.map(addr);
            let asked = Asked { way, src, mark };
            let answers = ways(&netns, &[asked]).unwrap();
            answers
                .first()
                .and_then(|(_, routed)| Some(routed.as_ref()?.answer))
        };
        let out = |ifindex, via: &str| {
            let via = Some(addr(via));
            Some(RouteAnswer::Out { via, ifindex })
        };
        let blackhole = Some(RouteAnswer::Refused(Refusal::Blackhole));
        for (asked, expected) in [
            (ask("10.1.2.3", Some("10.66.0.9"), None, 0), blackhole),
            (ask("fd01::1", Some("fd66::9"), None, 0), blackhole),
            (ask("10.1.2.3", None, None, 0), blackhole),
            (ask("10.20.30.40", Some("127.0.0.1"), None, 0), None),
            (ask("10.20.30.40", Some("0.0.0.0"), None, 0), None),
            (
                ask("10.20.30.40", Some("10.66.0.9"), None, 0),
                out(eth0, "10.66.0.1"),
            ),
            (
                ask("10.20.30.40", Some("10.66.0.9"), None, 7),
                out(eth1, "10.67.0.1"),
            ),
            (ask("10.20.30.40", None, None, 0), out(eth0, "10.66.0.1")),
            (
                ask("10.20.30.40", None, Some("10.67.0.2"), 0),
                out(eth1, "10.67.0.1"),
            ),
            (ask("10.20.30.40", None, None, 7), out(eth1, "10.67.0.1")),
        ] {
            assert_eq!(asked, expected);
        }
    }

    fn device_index(name: &str) -> u32 {
        let family = rustix::net::AddressFamily::INET;
        let socket = rustix::net::socket(family, rustix::net::SocketType::DGRAM, None).unwrap();
        rustix::net::netdevice::name_to_index(&socket, name).unwrap()
    }
}
