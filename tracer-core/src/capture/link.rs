//! The link layers of captures: where a frame's network header begins, and what stands before it.

use crate::event::Dir;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
/// QinQ before it was a standard.
const ETH_P_QINQ1: u16 = 0x9100;
const VLAN_ID: u16 = 0x0fff;
/// More tags than this are not followed.
const MAX_TAGS: usize = 4;
/// `PACKET_OUTGOING` of linux/if_packet.h.
const OUTGOING: u16 = 4;

/// What stands before the network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkType {
    /// BSD loopback: an address family, in either byte order.
    Null,
    /// Ethernet, with VLAN tags.
    Ethernet,
    /// Nothing: IPv4 or IPv6.
    Raw,
    /// Linux "cooked", version 1: the packet's direction, and no interface.
    Cooked,
    /// Linux "cooked", version 2: the packet's direction, and its interface's number.
    Cooked2,
}

impl LinkType {
    /// By its number in files (<https://www.tcpdump.org/linktypes.html>); `None`: not read here.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 | 108 => Self::Null,
            1 => Self::Ethernet,
            // 12 and 14: what some systems' own numbers for it got into files as.
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            _ => return None,
        })
    }

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "BSD loopback",
            Self::Ethernet => "Ethernet",
            Self::Raw => "raw IP",
            Self::Cooked => "Linux cooked v1",
            Self::Cooked2 => "Linux cooked v2",
        }
    }

    /// Whether a frame tells if it came in or went out.
    #[must_use]
    pub fn tells_side(self) -> bool {
        matches!(self, Self::Cooked | Self::Cooked2)
    }
}

/// A frame's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Where the network header begins.
    pub(super) at: usize,
    /// The interface's number, where the frame says it.
    pub(super) ifindex: Option<u32>,
    /// In or out, where the frame says it.
    pub(super) side: Option<Dir>,
    /// The innermost VLAN tag's id.
    pub(super) vlan: Option<u16>,
}

/// Reads a frame's beginning; `None` where no IP packet is in it.
pub(super) fn frame(link: LinkType, bytes: &[u8]) -> Option<Frame> {
    match link {
        LinkType::Raw => Some(Frame::default()),
        LinkType::Null => Some(Frame {
            at: 4,
            ..Frame::default()
        }),
        LinkType::Ethernet => tagged(bytes, 12, Frame::default()),
        LinkType::Cooked => {
            let side = side(be16(bytes, 0)?);
            tagged(
                bytes,
                14,
                Frame {
                    side,
                    ..Frame::default()
                },
            )
        }
        LinkType::Cooked2 => cooked2(bytes),
    }
}

/// `struct sll2_header`: protocol, two bytes, interface, hardware type, packet type, address.
fn cooked2(bytes: &[u8]) -> Option<Frame> {
    let header: &[u8; 20] = bytes.first_chunk()?;
    let [p0, p1, _, _, i0, i1, i2, i3, _, _, kind, ..] = *header;
    let frame = Frame {
        ifindex: Some(u32::from_be_bytes([i0, i1, i2, i3])),
        side: side(u16::from(kind)),
        ..Frame::default()
    };
    behind(bytes, u16::from_be_bytes([p0, p1]), 20, frame)
}

fn side(kind: u16) -> Option<Dir> {
    Some(match kind {
        OUTGOING => Dir::Egress,
        _ => Dir::Ingress,
    })
}

/// A frame whose protocol stands at `at`, and its packet or a VLAN tag behind that.
fn tagged(bytes: &[u8], at: usize, frame: Frame) -> Option<Frame> {
    behind(bytes, be16(bytes, at)?, at + 2, frame)
}

fn behind(bytes: &[u8], mut proto: u16, mut at: usize, mut frame: Frame) -> Option<Frame> {
    let mut tags = 0;
    while matches!(proto, ETH_P_8021Q | ETH_P_8021AD | ETH_P_QINQ1) && tags < MAX_TAGS {
        frame.vlan = Some(be16(bytes, at)? & VLAN_ID);
        proto = be16(bytes, at + 2)?;
        at += 4;
        tags += 1;
    }
    frame.at = at;
    matches!(proto, ETH_P_IP | ETH_P_IPV6).then_some(frame)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_passed_over_and_the_innermost_is_told() {
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 42, 0x08, 0, 0x45]);
        let read = super::frame(LinkType::Ethernet, &frame).unwrap();
        assert_eq!((read.at, read.vlan, read.side), (22, Some(42), None));
    }

    #[test]
    fn cooked_frames_tell_their_side_and_the_new_ones_their_interface() {
        let mut old = vec![0, 4];
        old.extend([0; 12]);
        old.extend([0x86, 0xdd]);
        let read = frame(LinkType::Cooked, &old).unwrap();
        assert_eq!(
            (read.at, read.side, read.ifindex),
            (16, Some(Dir::Egress), None)
        );
        let mut new = vec![0x08, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0];
        new.extend([0; 9]);
        let read = frame(LinkType::Cooked2, &new).unwrap();
        assert_eq!(
            (read.at, read.side, read.ifindex),
            (20, Some(Dir::Ingress), Some(9))
        );
    }

    #[test]
    fn other_protocols_and_short_frames_are_nothing() {
        let arp = [&[0; 12][..], &[0x08, 0x06]].concat();
        assert_eq!(frame(LinkType::Ethernet, &arp), None);
        for link in [LinkType::Ethernet, LinkType::Cooked, LinkType::Cooked2] {
            assert_eq!(frame(link, &[0; 11]), None);
        }
    }
}
