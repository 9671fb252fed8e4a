//! A packet's headers, put together from what was noted of it. What was not noted is 0 where it stands
//! between things that were, and cut off where it stands behind them: nothing is made up.

use crate::event::{Event, Fragment};
use crate::packet::{Proto, Tuple};
use std::net::IpAddr;

const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_HEADER: u8 = 44;
/// Of a TCP header, without options.
const TCP: u32 = 20;

/// The bytes of a packet from its network header on, as far as they are known, network byte order.
#[must_use]
pub fn headers(event: &Event) -> Vec<u8> {
    let mut bytes = match (event.tuple.src, event.tuple.dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => ipv4(event),
        _ => ipv6(event),
    };
    if event.print.fragment != Fragment::Later {
        let network = bytes.len();
        transport(event, network, &mut bytes);
    }
    bytes.truncate(usize::try_from(event.l3_len).unwrap_or(usize::MAX));
    bytes
}

/// Type of service, the flag "don't fragment" and options are not known.
fn ipv4(event: &Event) -> Vec<u8> {
    let print = &event.print;
    // Larger than the field can say: segments that the device will cut, as in a kernel's own capture.
    let length = u16::try_from(event.l3_len).unwrap_or(0);
    let more = match print.fragment {
        Fragment::First => MORE_FRAGMENTS,
        Fragment::Whole | Fragment::Later => 0,
    };
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend((print.ip_id.unwrap_or(0) as u16).to_be_bytes());
    bytes.extend((print.frag_offset / 8 | more).to_be_bytes());
    bytes.extend([print.ttl, event.tuple.proto.0, 0, 0]);
    addresses(&event.tuple, &mut bytes);
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Traffic class, flow label and extension headers are not known, but for the fragment header.
fn ipv6(event: &Event) -> Vec<u8> {
    let print = &event.print;
    let whole = print.fragment == Fragment::Whole;
    let length = event.l3_len.saturating_sub(40);
    let next = if whole {
        event.tuple.proto.0
    } else {
        FRAGMENT_HEADER
    };
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(length).unwrap_or(0).to_be_bytes());
    bytes.extend([next, print.ttl]);
    addresses(&event.tuple, &mut bytes);
    if !whole {
        let more = u16::from(print.fragment == Fragment::First);
        bytes.extend([event.tuple.proto.0, 0]);
        bytes.extend((print.frag_offset & !7 | more).to_be_bytes());
        bytes.extend(print.ip_id.unwrap_or(0).to_be_bytes());
    }
    bytes
}

fn addresses(tuple: &Tuple, bytes: &mut Vec<u8>) {
    for addr in [tuple.src, tuple.dst] {
        match addr {
            IpAddr::V4(v4) => bytes.extend(v4.octets()),
            IpAddr::V6(v6) => bytes.extend(v6.octets()),
        }
    }
}

/// `network`: bytes before the transport header.
fn transport(event: &Event, network: usize, bytes: &mut Vec<u8>) {
    let (tuple, print) = (&event.tuple, &event.print);
    let ports = |bytes: &mut Vec<u8>| {
        bytes.extend(tuple.sport.to_be_bytes());
        bytes.extend(tuple.dport.to_be_bytes());
    };
    match (tuple.proto, print.tcp, print.icmp) {
        (Proto::TCP, Some(tcp), _) => {
            ports(bytes);
            bytes.extend(tcp.seq.to_be_bytes());
            bytes.extend(tcp.ack.to_be_bytes());
            let before = u32::try_from(network).unwrap_or(0) + print.payload_len;
            let header = event.l3_len.saturating_sub(before).clamp(TCP, 60);
            // The header's length in words stands in the upper half.
            bytes.extend([(header / 4 * 16) as u8, tcp.flags]);
            bytes.extend([0; 6]);
        }
        (Proto::UDP, ..) => {
            ports(bytes);
            if print.fragment == Fragment::Whole {
                let length = print.payload_len.saturating_add(8);
                bytes.extend(u16::try_from(length).unwrap_or(0).to_be_bytes());
                bytes.extend([0, 0]);
            }
        }
        (Proto::SCTP, ..) => {
            ports(bytes);
            bytes.extend(print.sctp_tag.unwrap_or(0).to_be_bytes());
            bytes.extend([0; 4]);
        }
        (proto, _, Some(icmp)) if proto.is_icmp() => {
            bytes.extend([icmp.kind, icmp.code, 0, 0]);
            // What an error says beside its code, and the packet that it quotes, are not known whole.
            if event.quoted.is_none() {
                bytes.extend(tuple.sport.to_be_bytes());
                bytes.extend(icmp.seq.to_be_bytes());
            }
        }
        _ => {}
    }
}

/// The internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let sum: u32 = words
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
