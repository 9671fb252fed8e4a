//! Made-up packets, and their bytes.

use super::random::Random;
use super::words::{PORTS, SOURCES, TARGETS};
use std::net::Ipv4Addr;
use tracer_core::evaluate::{Bits, Owner, Packet, Way};
use tracer_core::packet::{Proto, Tuple};

/// The node's own address.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 5);

/// A packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Its number, in the IPv4 identification: translation keeps it.
    pub(super) id: u16,
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    pub(super) proto: u8,
    /// Unique, so that each packet is a flow; the identifier of an echo request.
    pub(super) sport: u16,
    pub(super) dport: u16,
    /// Whether the node itself sends it, not the pod.
    pub(super) local: bool,
    /// Whether it is for the node itself.
    pub(super) delivered: bool,
}

impl Probe {
    pub(super) fn random(id: u16, sport: u16, random: &mut Random) -> Self {
        let addr = |text: &str| text.parse().unwrap_or(Ipv4Addr::UNSPECIFIED);
        let local = random.percent(20);
        let delivered = !local && random.percent(20);
        Self {
            id,
            src: if local {
                NODE
            } else {
                addr(random.pick(SOURCES))
            },
            dst: if delivered {
                NODE
            } else {
                addr(random.pick(TARGETS))
            },
            // The node does not answer UDP; an answer would move counters.
            proto: if delivered {
                17
            } else {
                [6, 6, 17, 17, 1][random.below(5)]
            },
            sport,
            dport: PORTS[random.below(PORTS.len())],
            local,
            delivered,
        }
    }

    /// As the evaluator is asked: the packet, for a local socket or for the outside, and its hooks.
    pub(super) fn packet(&self, delivered: bool) -> (Packet, Way) {
        let tuple = Tuple {
            src: self.src.into(),
            sport: self.sport,
            dst: self.dst.into(),
            dport: if self.proto == 1 { 0 } else { self.dport },
            proto: Proto(self.proto),
        };
        let iif = if self.local { "" } else { "veth-pod" };
        let oif = if delivered { "" } else { "eth0" };
        let owner = if self.local {
            Owner::Unknown
        } else {
            Owner::None
        };
        let packet = Packet {
            mark: Bits::all(0),
            tcp_flags: (self.proto == 6).then_some(2),
            icmp: (self.proto == 1).then_some((8, 0)),
            length: u32::try_from(self.bytes().len()).ok(),
            ttl: Some(if self.local { 64 } else { 63 }),
            uid: owner,
            gid: owner,
            ..Packet::first(tuple, Some(iif), Some(oif))
        };
        let way = match (self.local, delivered) {
            (true, _) => Way::Sent,
            (_, true) => Way::Delivered,
            _ => Way::Forwarded,
        };
        (packet, way)
    }

    /// The whole IPv4 packet.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut body = self.transport();
        let at = match self.proto {
            6 => Some(16),
            1 => Some(2),
            _ => None, // UDP may go without a checksum
        };
        if let Some(at) = at {
            let sum = checksum(&self.pseudo_header(body.len()), &body);
            body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let length = (20 + body.len()) as u16;
        let mut packet = vec![0x45, 0];
        packet.extend(length.to_be_bytes());
        packet.extend(self.id.to_be_bytes());
        packet.extend([0, 0, 64, self.proto, 0, 0]);
        packet.extend(self.src.octets());
        packet.extend(self.dst.octets());
        packet.extend(body);
        packet
    }

    fn transport(&self) -> Vec<u8> {
        let (sport, dport) = (self.sport.to_be_bytes(), self.dport.to_be_bytes());
        match self.proto {
            6 => {
                let mut tcp = [sport, dport].concat();
                tcp.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
                tcp
            }
            17 => [sport, dport, [0, 10], [0, 0], self.id.to_be_bytes()].concat(),
            _ => [[8, 0], [0, 0], sport, [0, 1]].concat(),
        }
    }

    fn pseudo_header(&self, length: usize) -> Vec<u8> {
        if self.proto == 1 {
            return Vec::new();
        }
        let mut header = [self.src.octets(), self.dst.octets()].concat();
        header.extend([0, self.proto]);
        header.extend((length as u16).to_be_bytes());
        header
    }
}

/// The Internet checksum (RFC 1071) over both.
fn checksum(first: &[u8], second: &[u8]) -> u16 {
    let words = first.chunks(2).chain(second.chunks(2));
    let mut sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A packet as it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) id: u16,
    pub(super) src: Ipv4Addr,
    pub(super) dst: Option<Ipv4Addr>,
}

impl Arrival {
    /// Reads an IPv4 packet, from its network header.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let four =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        (header[0] == 0x45).then(|| Self {
            id: u16::from_be_bytes([header[4], header[5]]),
            src: four(12),
            dst: Some(four(16)),
        })
    }
}
