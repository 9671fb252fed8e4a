//! The words that rule tools print for numbers, and how addresses and numbers are written.

use super::{AddrType, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A word and its number.
type Words = &'static [(&'static str, u64)];

/// Transport protocols as /etc/protocols and the tools name them.
const PROTOCOLS: Words = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("ipip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ipv6-crypt", 50),
    ("ah", 51),
    ("ipv6-auth", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("icmp6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("ipcomp", 108),
    ("comp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("mh", 135),
    ("mobility-header", 135),
    ("ipv6-mh", 135),
    ("udplite", 136),
    ("hip", 139),
];

/// Conntrack states (`NF_CT_STATE_BIT`).
const CT_STATES: Words = &[
    ("invalid", 1),
    ("established", 2),
    ("related", 4),
    ("new", 8),
    ("untracked", 64),
];

/// Conntrack status (`enum ip_conntrack_status`).
const CT_STATUS: Words = &[
    ("none", 0),
    ("expected", 1),
    ("seen-reply", 2),
    ("seen_reply", 2),
    ("assured", 4),
    ("confirmed", 8),
    ("snat", 16),
    ("dnat", 32),
    ("seq-adjust", 64),
    ("dying", 512),
];

const TCP_FLAGS: Words = &[
    ("none", 0),
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("psh", 8),
    ("ack", 16),
    ("urg", 32),
    ("ecn", 64),
    ("ece", 64),
    ("cwr", 128),
    ("all", 63),
];

const ICMP_TYPES: Words = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

const ICMP6_TYPES: Words = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

const CODES: Words = &[];
const DIRECTIONS: Words = &[("original", 0), ("reply", 1)];
const VERSIONS: Words = &[("ip", 4), ("ipv4", 4), ("ip6", 6), ("ipv6", 6)];
const USERS: Words = &[("root", 0)];

/// Which words a number may be written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vocabulary {
    /// Only digits.
    Plain,
    /// Transport protocols.
    Protocol,
    /// Conntrack states.
    CtState,
    /// Conntrack status.
    CtStatus,
    /// Conntrack directions.
    CtDirection,
    /// TCP flags.
    TcpFlags,
    /// ICMP types.
    Icmp,
    /// ICMPv6 types.
    Icmp6,
    /// IP versions, by ethertype or protocol family.
    Version,
    /// Users and groups.
    User,
}

impl Vocabulary {
    fn words(self) -> Words {
        match self {
            Self::Plain => CODES,
            Self::Protocol => PROTOCOLS,
            Self::CtState => CT_STATES,
            Self::CtStatus => CT_STATUS,
            Self::CtDirection => DIRECTIONS,
            Self::TcpFlags => TCP_FLAGS,
            Self::Icmp => ICMP_TYPES,
            Self::Icmp6 => ICMP6_TYPES,
            Self::Version => VERSIONS,
            Self::User => USERS,
        }
    }

    /// The number of a word or of digits (decimal, or hexadecimal after `0x`); letter case is
    /// nobody's business.
    pub(super) fn number(self, word: &str) -> Option<u64> {
        let known = self
            .words()
            .iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name));
        known.map(|(_, number)| *number).or_else(|| digits(word))
    }

    /// Bits of a comma-separated list.
    pub(super) fn bits(self, list: &str) -> Option<u64> {
        list.split(',')
            .try_fold(0, |bits, word| Some(bits | self.number(word)?))
    }
}

/// A number in decimal, or in hexadecimal after `0x`.
pub(super) fn digits(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

/// A number of 32 bits.
pub(super) fn word32(text: &str) -> Option<u32> {
    digits(text).and_then(|n| u32::try_from(n).ok())
}

/// `V` or `V/M`: a value of 32 bits and its mask (all bits where none is written).
pub(super) fn masked32(text: &str) -> Option<(u32, u32)> {
    match text.split_once('/') {
        Some((value, mask)) => Some((word32(value)?, word32(mask)?)),
        None => Some((word32(text)?, u32::MAX)),
    }
}

/// `A`, `A:B` or `A-B` as [`Value::Number`] or [`Value::Numbers`].
pub(super) fn span(text: &str, between: char, vocabulary: Vocabulary) -> Option<Value> {
    match text.split_once(between) {
        Some((low, high)) => Some(Value::Numbers(digits(low)?, digits(high)?)),
        None => Some(Value::Number(vocabulary.number(text)?)),
    }
}

/// `A`, `A/LEN` or `A/MASK` (which need not be contiguous).
pub(super) fn network(text: &str) -> Option<Value> {
    let (addr, mask) = text
        .split_once('/')
        .map_or((text, None), |(a, m)| (a, Some(m)));
    let addr: IpAddr = addr.parse().ok()?;
    let mask = match mask {
        None => prefix_mask(addr, width(addr))?,
        Some(mask) => match mask.parse::<u32>() {
            Ok(length) => prefix_mask(addr, length)?,
            Err(_) => mask.parse().ok()?,
        },
    };
    masked(addr, mask)
}

/// The addresses whose bits under `mask` are those of `addr`.
pub(super) fn masked(addr: IpAddr, mask: IpAddr) -> Option<Value> {
    let addr = match (addr, mask) {
        (IpAddr::V4(a), IpAddr::V4(m)) => IpAddr::V4(a & m),
        (IpAddr::V6(a), IpAddr::V6(m)) => IpAddr::V6(a & m),
        _ => return None,
    };
    Some(Value::Masked { addr, mask })
}

/// The mask of a prefix length in the address's family.
pub(super) fn prefix_mask(addr: IpAddr, length: u32) -> Option<IpAddr> {
    let bits = width(addr);
    let host = bits.checked_sub(length)?;
    Some(match addr {
        IpAddr::V4(_) => Ipv4Addr::from(u32::MAX.checked_shl(host).unwrap_or(0)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(u128::MAX.checked_shl(host).unwrap_or(0)).into(),
    })
}

fn width(addr: IpAddr) -> u32 {
    if addr.is_ipv4() { 32 } else { 128 }
}

/// `A` or `A-B`.
pub(super) fn addresses(text: &str) -> Option<Value> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    between(from.parse().ok()?, to.parse().ok()?)
}

/// The addresses from one to the other, of one family.
pub(super) fn between(from: IpAddr, to: IpAddr) -> Option<Value> {
    (from.is_ipv4() == to.is_ipv4()).then_some(Value::Addrs(from, to))
}

/// An address type by its name in either tool.
pub(super) fn addr_type(word: &str) -> Option<AddrType> {
    Some(match word.to_ascii_lowercase().as_str() {
        "local" => AddrType::Local,
        "unicast" => AddrType::Unicast,
        "broadcast" => AddrType::Broadcast,
        "multicast" => AddrType::Multicast,
        "blackhole" => AddrType::Blackhole,
        "unreachable" => AddrType::Unreachable,
        "prohibit" => AddrType::Prohibit,
        "unspec" => AddrType::Unspec,
        "anycast" => AddrType::Anycast,
        _ => return None,
    })
}
