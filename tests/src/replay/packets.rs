//! Made-up packets, and their bytes.

use super::random::Random;
use super::six;
use super::words::{PORTS, SOURCES, TARGETS};
use std::net::{IpAddr, Ipv4Addr};
use tracer_core::evaluate::{Bits, Owner, Packet, Way};
use tracer_core::packet::{Proto, Tuple};

/// The node's own address.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 5);

/// A packet to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Its number, in the IPv4 identification or the IPv6 flow label: translation keeps it.
    pub(super) id: u16,
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    /// ICMP is ICMPv6 in IPv6.
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
    pub(super) fn random(id: u16, sport: u16, six: bool, random: &mut Random) -> Self {
        let of = |four: Ipv4Addr| match six {
            true => IpAddr::V6(six::addr(four)),
            false => IpAddr::V4(four),
        };
        let addr = |text: &str| of(text.parse().unwrap_or(Ipv4Addr::UNSPECIFIED));
        let icmp = if six { 58 } else { 1 };
        let local = random.percent(20);
        let delivered = !local && random.percent(20);
        Self {
            id,
            src: if local {
                of(NODE)
            } else {
                addr(random.pick(SOURCES))
            },
            dst: if delivered {
                of(NODE)
            } else {
                addr(random.pick(TARGETS))
            },
            // The node does not answer UDP; an answer would move counters.
            proto: if delivered {
                17
            } else {
                [6, 6, 17, 17, icmp][random.below(5)]
            },
            sport,
            dport: PORTS[random.below(PORTS.len())],
            local,
            delivered,
        }
    }

    fn is_icmp(&self) -> bool {
        Proto(self.proto).is_icmp()
    }

    /// As conntrack has it.
    pub(super) fn tuple(&self) -> Tuple {
        Tuple {
            src: self.src,
            sport: self.sport,
            dst: self.dst,
            dport: if self.is_icmp() { 0 } else { self.dport },
            proto: Proto(self.proto),
        }
    }

    /// As the evaluator is asked: the packet, for a local socket or for the outside, and its hooks.
    pub(super) fn packet(&self, delivered: bool) -> (Packet, Way) {
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
            icmp: self.is_icmp().then_some((self.echo(), 0)),
            length: u32::try_from(self.bytes().len()).ok(),
            ttl: Some(if self.local { 64 } else { 63 }),
            uid: owner,
            gid: owner,
            ..Packet::first(self.tuple(), Some(iif), Some(oif))
        };
        let way = match (self.local, delivered) {
            (true, _) => Way::Sent,
            (_, true) => Way::Delivered,
            _ => Way::Forwarded,
        };
        (packet, way)
    }

    /// The type of an echo request.
    fn echo(&self) -> u8 {
        if self.proto == 1 { 8 } else { 128 }
    }

    /// The whole packet.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut body = self.transport();
        let at = match self.proto {
            6 => 16,
            17 => 6,
            _ => 2,
        };
        let sum = checksum(&self.pseudo_header(body.len()), &body);
        body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let length = body.len() as u16;
        let mut packet = match self.src {
            IpAddr::V4(_) => {
                let mut header = vec![0x45, 0];
                header.extend((20 + length).to_be_bytes());
                header.extend(self.id.to_be_bytes());
                header.extend([0, 0, 64, self.proto, 0, 0]);
                header
            }
            IpAddr::V6(_) => {
                let mut header = vec![0x60, 0];
                header.extend(self.id.to_be_bytes());
                header.extend(length.to_be_bytes());
                header.extend([self.proto, 64]);
                header
            }
        };
        packet.extend(octets(self.src));
        packet.extend(octets(self.dst));
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
            _ => [[self.echo(), 0], [0, 0], sport, [0, 1]].concat(),
        }
    }

    /// What the checksum covers besides the body: nothing for ICMP, which ICMPv6 differs in.
    fn pseudo_header(&self, length: usize) -> Vec<u8> {
        if self.proto == 1 {
            return Vec::new();
        }
        let mut header = [octets(self.src), octets(self.dst)].concat();
        header.extend([0, self.proto]);
        header.extend((length as u16).to_be_bytes());
        header
    }
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
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
    pub(super) src: IpAddr,
    pub(super) dst: Option<IpAddr>,
}

impl Arrival {
    /// Reads a packet, from its network header.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let half = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let four = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
        let six = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<16>()?));
        let (id, src, dst) = match bytes.first()? {
            0x45 => (half(4)?, four(12)?, four(16)?),
            0x60 => (half(2)?, six(8)?, six(24)?),
            _ => return None,
        };
        let dst = Some(dst);
        Some(Self { id, src, dst })
    }
}
