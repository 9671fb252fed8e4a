//! Which of its IPv6 addresses a namespace sends from is told by the destination (RFC 6724; net/ipv6/addrconf.c,
//! `ipv6_get_saddr_eval`): here are the prefixes within which it cannot be.

use crate::inventory::Namespace;
use crate::space::{addr, number};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

/// Destinations of different scopes and labels (net/ipv6/addrlabel.c, `ip6addrlbl_init_table`).
const LABELS: [(Ipv6Addr, u8); 10] = [
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2001, 0x10, 0, 0, 0, 0, 0, 0), 28),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    (Ipv6Addr::UNSPECIFIED, 96),
    (Ipv6Addr::LOCALHOST, 128),
];

/// The prefixes of which each holds, or does not hold, a destination, so that it decides the source. None where a
/// namespace has no choice.
#[must_use]
pub fn told_apart(here: &Namespace) -> Vec<IpNet> {
    let nets = here.links.values().flat_map(|link| &link.addrs);
    let own: BTreeSet<(u128, u8)> = nets
        .filter(|net| net.addr().is_ipv6() && !is_near(net.addr()))
        .map(|net| (number(net.addr()), net.prefix_len()))
        .collect();
    if own.len() < 2 {
        return Vec::new();
    }
    let labels = LABELS
        .iter()
        .filter_map(|(at, len)| IpNet::new((*at).into(), *len).ok());
    let mut found: BTreeSet<IpNet> = labels.collect();
    let mut cut = |at: u128, len: u32| {
        let net = u8::try_from(len)
            .ok()
            .and_then(|len| IpNet::new(addr(at, false), len).ok());
        found.extend(net.map(|net| net.trunc()));
    };
    // The one that shares most bits with the destination is taken, of which no more count than its prefix has: where
    // two part, and where one counts no further, another may be nearer.
    let lengths: BTreeSet<u8> = own.iter().map(|(_, len)| *len).collect();
    for (at, _) in &own {
        for len in &lengths {
            cut(*at, u32::from(*len));
            cut(*at, u32::from(*len) + 1);
        }
    }
    let mut before: Option<u128> = None;
    for (at, _) in &own {
        if let Some(before) = before.filter(|before| before != at) {
            let shared = (before ^ at).leading_zeros();
            for one in [before, *at] {
                cut(one, shared);
                cut(one, shared + 1);
            }
        }
        before = Some(*at);
    }
    found.into_iter().collect()
}

/// Whether it serves the namespace or one link only.
fn is_near(addr: IpAddr) -> bool {
    addr.is_loopback() || matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Link;
    use proptest::prelude::*;

    fn here(addrs: &[IpNet]) -> Namespace {
        let link = Link {
            addrs: addrs.to_vec(),
            ..Link::default()
        };
        Namespace {
            links: [(2, link)].into(),
            ..Namespace::default()
        }
    }

    /// The address that shares most bits, of equal ones the first.
    fn nearest(addrs: &[IpNet], dst: u128) -> Option<&IpNet> {
        let shared = |net: &IpNet| {
            let shared = (number(net.addr()) ^ dst).leading_zeros();
            shared.min(net.prefix_len().into())
        };
        addrs.iter().rev().max_by_key(|net| shared(net))
    }

    fn address() -> impl Strategy<Value = IpNet> {
        let len = prop::sample::select(&[48_u8, 64, 64, 128][..]);
        (any::<u128>(), 0_u32..100, len).prop_map(|(noise, same, len)| {
            let at = 0xfd10_0100_u128 << 96 ^ noise >> same >> 8;
            IpNet::new(addr(at, false), len).unwrap()
        })
    }

    #[test]
    fn one_address_is_no_choice() {
        let own = ["fd10::5/64", "fe80::1/64", "::1/128", "10.0.0.1/24"];
        let own: Vec<IpNet> = own.iter().map(|net| net.parse().unwrap()).collect();
        assert_eq!(told_apart(&here(&own)), []);
    }

    proptest! {
        /// Destinations that no prefix tells apart have the same nearest address.
        #[test]
        fn what_is_not_told_apart_has_one_source(
            own in prop::collection::vec(address(), 2..8),
            seeds in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..128, any::<u128>()), 2..24),
        ) {
            let cuts = told_apart(&here(&own));
            let mut sources = std::collections::BTreeMap::new();
            for (which, same, noise) in seeds {
                // Destinations near to addresses.
                let at = number(which.get(&own).addr()) ^ noise >> same;
                let place: Vec<&IpNet> = cuts.iter().filter(|net| net.contains(&addr(at, false))).collect();
                let source = nearest(&own, at);
                prop_assert_eq!(sources.entry(place).or_insert(source), &source, "{}", addr(at, false));
            }
        }
    }
}
