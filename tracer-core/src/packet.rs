//! Addresses, ports and tuples as values.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tracer_common::{RawTuple, family, ip_proto};

/// An IP protocol number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Proto(pub u8);

impl Proto {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(ip_proto::ICMP);
    /// TCP.
    pub const TCP: Self = Self(ip_proto::TCP);
    /// UDP.
    pub const UDP: Self = Self(ip_proto::UDP);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(ip_proto::ICMPV6);
    /// SCTP.
    pub const SCTP: Self = Self(ip_proto::SCTP);

    /// ICMP of either family: it has identifiers and no ports.
    #[must_use]
    pub fn is_icmp(self) -> bool {
        self == Self::ICMP || self == Self::ICMPV6
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ICMP => f.write_str("icmp"),
            Self::TCP => f.write_str("tcp"),
            Self::UDP => f.write_str("udp"),
            Self::ICMPV6 => f.write_str("icmpv6"),
            Self::SCTP => f.write_str("sctp"),
            Self(number) => number.fmt(f),
        }
    }
}

/// A 5-tuple. For ICMP echo `sport` is the identifier and `dport` is 0, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Tuple {
    /// Source address.
    pub src: IpAddr,
    /// Source port.
    pub sport: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination port.
    pub dport: u16,
    /// IP protocol.
    pub proto: Proto,
}

/// Fewer and larger writes than the derived one: tuples are hashed several times an event.
impl Hash for Tuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for addr in [self.src, self.dst] {
            match addr {
                IpAddr::V4(v4) => state.write_u32(v4.to_bits()),
                IpAddr::V6(v6) => state.write_u128(v6.to_bits()),
            }
        }
        let ports = u64::from(self.sport) << 32 | u64::from(self.dport) << 16;
        state.write_u64(ports | u64::from(self.proto.0));
    }
}

impl Tuple {
    /// Reads the kernel's form; `None` when the tuple is not filled in.
    #[must_use]
    pub fn from_raw(raw: &RawTuple) -> Option<Self> {
        Some(Self {
            src: address(raw.family, raw.src)?,
            sport: u16::from_be_bytes(raw.sport),
            dst: address(raw.family, raw.dst)?,
            dport: u16::from_be_bytes(raw.dport),
            proto: Proto(raw.proto),
        })
    }

    /// The kernel's form, as [`Tuple::from_raw`] reads it; `None` for addresses of two families.
    #[must_use]
    pub fn to_raw(self) -> Option<RawTuple> {
        let (family, src, dst) = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (family::V4, widened(src), widened(dst)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => (family::V6, src.octets(), dst.octets()),
            _ => return None,
        };
        Some(RawTuple {
            src,
            dst,
            sport: self.sport.to_be_bytes(),
            dport: self.dport.to_be_bytes(),
            family,
            proto: self.proto.0,
            pad: [0; 2],
        })
    }

    /// The tuple of a packet that answers this one, before any translation.
    #[must_use]
    pub fn reversed(self) -> Self {
        let (sport, dport) = if self.proto.is_icmp() {
            (self.sport, self.dport)
        } else {
            (self.dport, self.sport)
        };
        Self {
            src: self.dst,
            sport,
            dst: self.src,
            dport,
            proto: self.proto,
        }
    }

    /// Source address and port.
    #[must_use]
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.src, self.sport)
    }

    /// Destination address and port.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.dst, self.dport)
    }
}

fn address(fam: u8, bytes: [u8; 16]) -> Option<IpAddr> {
    match fam {
        family::V4 => Some(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()),
        family::V6 => Some(Ipv6Addr::from(bytes).into()),
        _ => None,
    }
}

fn widened(addr: Ipv4Addr) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&addr.octets());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_form_goes_both_ways() {
        for (src, dst) in [("10.12.3.4", "10.20.30.40"), ("fd12:3::4", "fd50::20")] {
            let tuple = Tuple {
                src: src.parse().unwrap(),
                sport: 43210,
                dst: dst.parse().unwrap(),
                dport: 443,
                proto: Proto::TCP,
            };
            assert_eq!(
                tuple.to_raw().and_then(|raw| Tuple::from_raw(&raw)),
                Some(tuple)
            );
        }
    }
}
