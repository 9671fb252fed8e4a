//! The 5-tuple as the kernel half writes it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Values of [`RawTuple::family`].
pub mod family {
    /// The tuple is not filled in.
    pub const NONE: u8 = 0;
    /// IPv4: the first four bytes of each address count, the rest is zero.
    pub const V4: u8 = 4;
    /// IPv6.
    pub const V6: u8 = 6;
}

/// IP protocol numbers (IANA) that srctrace treats by name.
pub mod ip_proto {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// A 5-tuple. For ICMP echo `sport` is the identifier and `dport` is zero in both directions;
/// for protocols without ports, and for fragments after the first, both are zero. (Aligned, so that
/// it is copied and compared in words.)
#[repr(C, align(8))]
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
pub struct RawTuple {
    /// Source address, network order; IPv4 in the first four bytes.
    pub src: [u8; 16],
    /// Destination address, network order; IPv4 in the first four bytes.
    pub dst: [u8; 16],
    /// Source port, network order.
    pub sport: [u8; 2],
    /// Destination port, network order.
    pub dport: [u8; 2],
    /// One of [`family`].
    pub family: u8,
    /// IP protocol number.
    pub proto: u8,
    /// Zero; keeps the size a multiple of eight.
    pub pad: [u8; 2],
}

const _: () = assert!(size_of::<RawTuple>() == 40);

impl RawTuple {
    /// The tuple of a packet that answers this one, before any translation.
    #[inline(always)]
    #[must_use]
    pub fn reversed(&self) -> Self {
        let echo = self.proto == ip_proto::ICMP || self.proto == ip_proto::ICMPV6;
        let (sport, dport) = if echo {
            (self.sport, self.dport)
        } else {
            (self.dport, self.sport)
        };
        Self {
            src: self.dst,
            dst: self.src,
            sport,
            dport,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(proto: u8) -> RawTuple {
        RawTuple {
            src: [1; 16],
            dst: [2; 16],
            sport: [0, 3],
            dport: [0, 4],
            family: family::V6,
            proto,
            pad: [0; 2],
        }
    }

    #[test]
    fn reversing_swaps_addresses_and_ports() {
        let r = tuple(ip_proto::TCP).reversed();
        assert_eq!(
            (r.src, r.dst, r.sport, r.dport),
            ([2; 16], [1; 16], [0, 4], [0, 3])
        );
    }

    #[test]
    fn an_echo_keeps_its_identifier() {
        let r = tuple(ip_proto::ICMP).reversed();
        assert_eq!(
            (r.src, r.dst, r.sport, r.dport),
            ([2; 16], [1; 16], [0, 3], [0, 4])
        );
    }

    #[test]
    fn reversing_twice_is_the_same_tuple() {
        assert_eq!(
            tuple(ip_proto::UDP).reversed().reversed(),
            tuple(ip_proto::UDP)
        );
    }
}
