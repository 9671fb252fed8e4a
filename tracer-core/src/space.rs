//! Addresses as numbers: the whole space of a family.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address as a number, the first octet highest.
pub(crate) fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The address of a number; `v4`: of that family, where it is one of its numbers.
pub(crate) fn addr(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(low) if v4 => Ipv4Addr::from_bits(low).into(),
        _ => Ipv6Addr::from_bits(number).into(),
    }
}

/// The last number of a family.
pub(crate) fn last(v4: bool) -> u128 {
    if v4 { u32::MAX.into() } else { u128::MAX }
}

/// Destinations that no new unicast flow to another host has.
pub(crate) fn is_special(addr: IpAddr) -> bool {
    specials(addr.is_ipv4()).any(|net| net.contains(&addr))
}

/// The networks of such destinations: this network, loopback, link-local (of IPv6), multicast and what is reserved.
pub(crate) fn specials(v4: bool) -> impl Iterator<Item = IpNet> {
    let nets: &[(u128, u8)] = match v4 {
        true => &[(0, 8), (0x7f00_0000, 8), (0xe000_0000, 3)],
        false => &[(0, 127), (0xfe80 << 112, 10), (0xff00 << 112, 8)],
    };
    let net = move |(first, len): &(u128, u8)| IpNet::new(addr(*first, v4), *len).ok();
    nets.iter().filter_map(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_destinations_are_these() {
        let all: Vec<String> = [true, false]
            .into_iter()
            .flat_map(specials)
            .map(|net| net.to_string())
            .collect();
        let expected = [
            "0.0.0.0/8",
            "127.0.0.0/8",
            "224.0.0.0/3",
            "::/127",
            "fe80::/10",
            "ff00::/8",
        ];
        assert_eq!(all, expected);
    }
}
