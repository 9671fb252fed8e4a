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
    bytes.extend(((print.frag_offset / 8) | more).to_be_bytes());
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
        bytes.extend(((print.frag_offset & !7) | more).to_be_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Fingerprint, Icmp, Matched, NetnsId, Reasons, Tap, Tcp};

    fn event(proto: Proto, src: &str, dst: &str, l3_len: u32, print: Fingerprint) -> Event {
        let tuple = Tuple {
            src: src.parse().unwrap(),
            sport: 43210,
            dst: dst.parse().unwrap(),
            dport: if proto.is_icmp() { 0 } else { 443 },
            proto,
        };
        Event {
            time_ns: 1,
            skb: 2,
            tap: Tap::Receive,
            netns: Some(NetnsId(3)),
            ifindex: 4,
            tuple,
            print: Fingerprint {
                ttl: 64,
                wire_packets: 1,
                ..print
            },
            reasons: Reasons(0),
            matched: Matched::Forward,
            mark: None,
            conntrack: None,
            conntrack_known: false,
            quoted: None,
            outer: None,
            vlan: None,
            local: false,
            process: None,
            l3_len,
            packets: 1,
            bytes: l3_len.into(),
        }
    }

    fn hex(bytes: &[u8]) -> String {
        let words = bytes.chunks(4).map(|word| {
            let digits = word.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_syn_says_how_long_its_options_were_and_leaves_them_off() {
        let print = Fingerprint {
            tcp: Some(Tcp {
                seq: 0x0102_0304,
                ack: 0,
                flags: Tcp::SYN,
            }),
            ip_id: Some(0x1234),
            ..Fingerprint::default()
        };
        let event = event(Proto::TCP, "10.12.3.4", "10.20.30.40", 60, print);
        assert_eq!(
            hex(&headers(&event)),
            "4500003c 12340000 4006333d 0a0c0304 0a141e28 \
             a8ca01bb 01020304 00000000 a0020000 00000000"
        );
    }

    #[test]
    fn of_a_fragment_only_what_is_there() {
        let print = |fragment, frag_offset, payload_len| Fingerprint {
            fragment,
            frag_offset,
            payload_len,
            ip_id: Some(0x0a0b_0c0d),
            ..Fingerprint::default()
        };
        let v6 = |print| event(Proto::UDP, "fd12::4", "fd50::20", 1496, print);
        let first = headers(&v6(print(Fragment::First, 0, 1440)));
        assert_eq!(
            hex(&first[..8]) + " " + &hex(&first[40..]),
            "60000000 05b02c40 11000001 0a0b0c0d a8ca01bb"
        );
        let later = headers(&v6(print(Fragment::Later, 1448, 1448)));
        assert_eq!(hex(&later[40..]), "110005a8 0a0b0c0d");
    }

    #[test]
    fn an_error_ends_where_what_it_quotes_begins() {
        let print = Fingerprint {
            icmp: Some(Icmp {
                kind: 3,
                code: 1,
                seq: 0,
            }),
            ..Fingerprint::default()
        };
        let mut error = event(Proto::ICMP, "10.1.1.1", "10.12.3.4", 56, print);
        assert_eq!(headers(&error).len(), 28);
        error.quoted = Some(Box::new(error.tuple));
        assert_eq!(headers(&error).len(), 24);
    }

    #[test]
    fn nothing_is_longer_than_the_packet() {
        let short = event(
            Proto::TCP,
            "10.1.1.1",
            "10.12.3.4",
            22,
            Fingerprint::default(),
        );
        assert_eq!(headers(&short).len(), 20);
        let huge = Fingerprint {
            tcp: Some(Tcp {
                seq: 1,
                ack: 1,
                flags: Tcp::ACK,
            }),
            payload_len: 131_072,
            wire_packets: 91,
            ..Fingerprint::default()
        };
        let huge = event(Proto::TCP, "10.1.1.1", "10.12.3.4", 131_124, huge);
        let bytes = headers(&huge);
        assert_eq!(
            (bytes.len(), &bytes[2..4], bytes[32]),
            (40, &[0, 0][..], 0x80)
        );
    }
}
