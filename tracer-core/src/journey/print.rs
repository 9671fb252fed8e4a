//! Whether two sightings are of the same packet, by what no translator touches.

use crate::event::{Event, Fingerprint, Fragment, Tcp};
use crate::packet::Proto;

/// Whether two fingerprints can be of one packet (for TCP: of overlapping segments, because
/// offloads merge and split them between two points).
pub(super) fn same(a: &Fingerprint, b: &Fingerprint) -> bool {
    match (a.tcp, b.tcp) {
        (Some(x), Some(y)) => same_segment(x, a.payload_len, y, b.payload_len),
        (None, None) => same_datagram(a, b),
        _ => false,
    }
}

fn same_segment(x: Tcp, x_len: u32, y: Tcp, y_len: u32) -> bool {
    let kinds = Tcp::SYN | Tcp::RST;
    if x.flags & kinds != y.flags & kinds {
        return false;
    }
    if x_len == 0 || y_len == 0 || x.flags & kinds != 0 {
        return x.seq == y.seq && x.ack == y.ack && x_len == y_len;
    }
    y.seq.wrapping_sub(x.seq) < x_len || x.seq.wrapping_sub(y.seq) < y_len
}

fn same_datagram(a: &Fingerprint, b: &Fingerprint) -> bool {
    let both = |x: Option<u32>, y: Option<u32>| x.zip(y).is_none_or(|(x, y)| x == y);
    // A datagram that offload will segment is longer before than after.
    let lengths = a.payload_len == b.payload_len || a.wire_packets != b.wire_packets;
    a.icmp == b.icmp
        && a.sctp_tag == b.sctp_tag
        && a.frag_offset == b.frag_offset
        && (a.fragment == b.fragment || a.frag_offset == 0)
        && (lengths || a.fragment != b.fragment)
        && both(a.ip_id, b.ip_id)
        && both(a.payload_hash, b.payload_hash)
}

/// Whether a fingerprint tells its packet from others of the same size.
pub(super) fn is_strong(print: &Fingerprint) -> bool {
    print.tcp.is_some()
        || print.sctp_tag.is_some()
        || print.ip_id.is_some_and(|id| id != 0)
        || (print.payload_hash.is_some() && print.payload_len >= 8)
}

/// What a packet that opens a flow (or a datagram) is looked up by where its buffer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    /// A TCP SYN or SYN-ACK: its initial sequence number names the connection everywhere.
    Initial {
        seq: u32,
        /// The answer's, not the opener's.
        answer: bool,
    },
    /// Anything else that can be told from its like.
    Datagram {
        proto: Proto,
        id: Option<u32>,
        hash: Option<u32>,
        len: u32,
        icmp: Option<crate::event::Icmp>,
    },
}

impl Mark {
    /// The mark of a packet, if it has one.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let print = &event.print;
        if let Some(tcp) = print.tcp {
            return tcp.has(Tcp::SYN).then_some(Self::Initial {
                seq: tcp.seq,
                answer: tcp.is_syn_ack(),
            });
        }
        if print.fragment != Fragment::Whole || !is_strong(print) {
            return None;
        }
        Some(Self::Datagram {
            proto: event.tuple.proto,
            id: print.ip_id,
            hash: print.payload_hash,
            len: print.payload_len,
            icmp: print.icmp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(seq: u32, len: u32) -> Fingerprint {
        Fingerprint {
            tcp: Some(Tcp {
                seq,
                ack: 1,
                flags: Tcp::ACK,
            }),
            payload_len: len,
            ..Fingerprint::default()
        }
    }

    #[test]
    fn a_large_segment_is_the_small_ones_it_was_cut_into() {
        let whole = tcp(u32::MAX - 100, 64_000);
        assert!(same(&whole, &tcp(1347, 1448)) && same(&tcp(1347, 1448), &whole));
        assert!(!same(&whole, &tcp(64_000, 1448)));
    }

    #[test]
    fn an_initial_sequence_number_decides_for_a_syn() {
        let syn = |seq| Fingerprint {
            tcp: Some(Tcp {
                seq,
                ack: 0,
                flags: Tcp::SYN,
            }),
            ..Fingerprint::default()
        };
        assert!(same(&syn(7), &syn(7)) && !same(&syn(7), &syn(8)));
    }

    #[test]
    fn datagrams_differ_by_id() {
        let udp = |ip_id| Fingerprint {
            ip_id,
            payload_len: 40,
            wire_packets: 1,
            ..Fingerprint::default()
        };
        assert!(same(&udp(Some(1)), &udp(Some(1))) && !same(&udp(Some(1)), &udp(Some(2))));
        assert!(same(&udp(Some(1)), &udp(None)));
    }
}
