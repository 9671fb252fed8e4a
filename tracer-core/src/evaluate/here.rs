//! What the namespace's own addresses and routes say: address types, and the addresses that
//! masquerade and redirect choose.

use super::bits::Truth;
use crate::inventory::{Link, Namespace};
use crate::ruleset::{AddrType, Value};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is of a type to the namespace, perhaps asked of one device.
///
/// IPv4 asks only the local table (net/ipv4/fib_frontend.c, `__inet_dev_addr_type`): what is not
/// local, broadcast or multicast is unicast, route or none. IPv6 asks the routes
/// (net/ipv6/netfilter/nft_fib_ipv6.c, net/netfilter/xt_addrtype.c).
pub(super) fn is_type(
    here: &Namespace,
    addr: IpAddr,
    device: Option<&str>,
    want: AddrType,
) -> Truth {
    match addr {
        IpAddr::V4(v4) => match type_v4(here, v4, device) {
            Some(is) => Truth::of(is == want),
            None if matches!(want, AddrType::Broadcast | AddrType::Unicast) => Truth::Unknown,
            None => Truth::No,
        },
        IpAddr::V6(v6) if v6.is_multicast() => Truth::of(want == AddrType::Multicast),
        IpAddr::V6(_) => {
            let local = is_local(here, addr, device);
            let covered = here.routes.iter().any(|route| route.to.contains(&addr))
                || links(here, None).any(|link| link.addrs.iter().any(|net| net.contains(&addr)));
            match want {
                AddrType::Local => Truth::of(local),
                _ if local => Truth::No,
                AddrType::Unicast if covered => Truth::Yes,
                _ => Truth::Unknown,
            }
        }
    }
}

/// Whether x_tables' `addrtype` holds of an IPv6 address (net/netfilter/xt_addrtype.c, `match_type6`):
/// unicast, multicast and unspecified are asked of the address's form alone, so that an own one is
/// unicast too, and all of these that are listed must hold; of the others one.
pub(super) fn is_xt_type_v6(
    here: &Namespace,
    addr: Ipv6Addr,
    device: Option<&str>,
    wanted: &[Value],
) -> Truth {
    let (mut form, mut routed) = (Truth::Yes, None);
    for value in wanted {
        let holds = match value {
            Value::Type(AddrType::Unicast) => !addr.is_multicast() && !addr.is_unspecified(),
            Value::Type(AddrType::Multicast) => addr.is_multicast(),
            Value::Type(AddrType::Unspec) => addr.is_unspecified(),
            Value::Type(other) => {
                let is = is_type(here, addr.into(), device, *other);
                routed = Some(routed.map_or(is, |known: Truth| known.or(is)));
                continue;
            }
            _ => return Truth::Unknown,
        };
        form = form.and(Truth::of(holds));
    }
    form.and(routed.unwrap_or(Truth::Yes))
}

/// `None`: unicast or broadcast (the address of a network itself was broadcast before 5.14).
fn type_v4(here: &Namespace, addr: Ipv4Addr, device: Option<&str>) -> Option<AddrType> {
    if addr.octets()[0] == 0 || addr.is_broadcast() {
        return Some(AddrType::Broadcast);
    }
    if addr.is_multicast() {
        return Some(AddrType::Multicast);
    }
    if is_local(here, addr.into(), device) {
        return Some(AddrType::Local);
    }
    let nets = links(here, device).flat_map(|link| &link.addrs);
    let nets = nets.filter(|net| net.addr().is_ipv4() && net.prefix_len() < 31);
    let mut edges = nets.filter_map(|net| match IpAddr::V4(addr) {
        a if a == net.broadcast() => Some(true),
        a if a == net.network() => Some(false),
        _ => None,
    });
    match edges.next() {
        Some(true) => Some(AddrType::Broadcast),
        Some(false) => None,
        None => Some(AddrType::Unicast),
    }
}

/// Its own address; on loopback the whole prefix is (`fib_add_ifaddr`).
fn is_local(here: &Namespace, addr: IpAddr, device: Option<&str>) -> bool {
    links(here, device).any(|link| {
        let owned = |net: &IpNet| {
            net.addr() == addr || (link.loopback && addr.is_ipv4() && net.contains(&addr))
        };
        link.addrs.iter().any(owned)
    })
}

fn links<'a>(here: &'a Namespace, device: Option<&'a str>) -> impl Iterator<Item = &'a Link> {
    let wanted = move |link: &&Link| device.is_none_or(|name| link.name == name);
    here.links.values().filter(wanted)
}

/// The address that MASQUERADE takes: of the out device, the first one whose network has the next
/// hop, else its first (net/netfilter/nf_nat_masquerade.c, `inet_select_addr`; measured: the
/// route's source hint plays no part). IPv6 picks by rules of its own: only an only one is certain.
pub(super) fn masquerade(here: &Namespace, oif: &str, dst: Option<IpAddr>) -> Option<IpAddr> {
    let (index, link) = here.links.iter().find(|(_, link)| link.name == oif)?;
    let dst = dst?;
    let nets = link.addrs.iter().filter(|net| same_family(net.addr(), dst));
    let mut nets = nets.filter(|net| !is_link_local(net.addr()));
    if dst.is_ipv6() {
        let only = nets.next()?;
        return nets.next().is_none().then(|| only.addr());
    }
    let routes = here.routes.iter().filter(|route| route.ifindex == *index);
    let route = routes
        .filter(|route| route.to.contains(&dst))
        .max_by_key(|route| route.to.prefix_len());
    let next = route.and_then(|route| route.via).unwrap_or(dst);
    let nets: Vec<&IpNet> = nets.collect();
    let near = nets.iter().find(|net| net.contains(&next));
    near.or(nets.first()).map(|net| net.addr())
}

/// The address that REDIRECT takes: loopback's for packets made here, else the in device's first
/// (net/netfilter/nf_nat_redirect.c).
pub(super) fn redirect(here: &Namespace, iif: &str, dst: IpAddr) -> Option<IpAddr> {
    if iif.is_empty() {
        return Some(match dst {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let mut nets = links(here, Some(iif)).flat_map(|link| &link.addrs);
    nets.find(|net| same_family(net.addr(), dst))
        .map(IpNet::addr)
}

fn same_family(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4()
}

fn is_link_local(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddrType::{Local, Multicast, Unicast};

    fn holds(addr: &str, wanted: &[AddrType]) -> Truth {
        let link = Link {
            name: "eth0".to_owned(),
            addrs: ["fd00::5/120"].iter().flat_map(|a| a.parse()).collect(),
            ..Link::default()
        };
        let here = Namespace {
            links: [(1, link)].into(),
            ..Namespace::default()
        };
        let wanted: Vec<Value> = wanted.iter().copied().map(Value::Type).collect();
        is_xt_type_v6(&here, addr.parse().unwrap(), None, &wanted)
    }

    /// As seen on 6.18: an own address is unicast too, and of a list both must hold.
    #[test]
    fn x_tables_asks_ipv6_addresses_for_their_form() {
        assert_eq!(holds("fd00::5", &[Unicast]), Truth::Yes);
        assert_eq!(holds("fd00::6", &[Unicast, Local]), Truth::No);
        assert_eq!(holds("fd00::5", &[Unicast, Local]), Truth::Yes);
        assert_eq!(holds("ff02::1", &[Unicast]), Truth::No);
        assert_eq!(holds("ff02::1", &[Multicast]), Truth::Yes);
    }
}
