//! The packet's addresses and ports out of the header bytes that a trace shows.

use crate::packet::{Proto, Tuple};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The tuple of an IP header and, where it is known separately, the transport header behind it.
/// `None` where there is no whole IP header. IPv6 extension headers are not followed.
pub(super) fn tuple(network: &[u8], transport: Option<&[u8]>) -> Option<Tuple> {
    let (src, dst, proto, len) = match network.first()? >> 4 {
        4 => {
            let header: &[u8; 20] = network.first_chunk()?;
            let addr = |at: usize| {
                let bytes: [u8; 4] = *header.get(at..)?.first_chunk()?;
                Some(IpAddr::V4(Ipv4Addr::from(bytes)))
            };
            (
                addr(12)?,
                addr(16)?,
                header[9],
                usize::from(header[0] & 15) * 4,
            )
        }
        6 => {
            let header: &[u8; 40] = network.first_chunk()?;
            let addr = |at: usize| {
                let bytes: [u8; 16] = *header.get(at..)?.first_chunk()?;
                Some(IpAddr::V6(Ipv6Addr::from(bytes)))
            };
            (addr(8)?, addr(24)?, header[6], 40)
        }
        _ => return None,
    };
    let transport = transport.or_else(|| network.get(len..)).unwrap_or_default();
    let proto = Proto(proto);
    let (sport, dport) = ports(proto, transport);
    Some(Tuple {
        src,
        sport,
        dst,
        dport,
        proto,
    })
}

/// As conntrack has them: an ICMP echo's identifier is the source port.
fn ports(proto: Proto, transport: &[u8]) -> (u16, u16) {
    let half = |at: usize| {
        let bytes = transport.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
    };
    match proto {
        Proto::TCP | Proto::UDP | Proto::SCTP => (half(0), half(2)),
        proto if proto.is_icmp() => (half(4), 0),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_and_ports_are_read() {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 12, 3, 4, 10, 20, 30, 40]);
        packet[20..24].copy_from_slice(&[0xa8, 0xca, 1, 0xbb]);
        let whole = tuple(&packet, None).unwrap();
        assert_eq!(
            (whole.src.to_string(), whole.sport),
            ("10.12.3.4".into(), 43210)
        );
        assert_eq!(
            (whole.dst.to_string(), whole.dport),
            ("10.20.30.40".into(), 443)
        );
        assert_eq!(tuple(&packet[..20], Some(&packet[20..])), Some(whole));
        packet[9] = 1;
        packet[24..26].copy_from_slice(&[0, 77]);
        let echo = tuple(&packet, None).unwrap();
        assert_eq!((echo.sport, echo.dport), (77, 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(network: Vec<u8>, transport: Option<Vec<u8>>) {
            let _ = tuple(&network, transport.as_deref());
        }
    }
}
