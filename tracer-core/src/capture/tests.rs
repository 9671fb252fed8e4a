//! What is told of a capture's packets.

use super::*;
use crate::event::{Event, Reasons};
use proptest::prelude::*;
use tracer_common::reason;

/// A TCP segment in IPv4 between 10.12.3.4:43210 and 10.20.30.40:443.
fn segment(back: bool, flags: u8, (seq, ack): (u32, u32), payload: usize) -> Vec<u8> {
    let total = (40 + payload as u16).to_be_bytes();
    let mut ip = vec![
        0x45, 0, total[0], total[1], 0x12, 0x34, 0x40, 0, 62, 6, 0, 0,
    ];
    let ends = [([10, 12, 3, 4], 43_210_u16), ([10, 20, 30, 40], 443)];
    let (from, to) = if back {
        (ends[1], ends[0])
    } else {
        (ends[0], ends[1])
    };
    ip.extend([from.0, to.0].concat());
    ip.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    ip.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    ip.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    ip.resize(40 + payload, 7);
    ip
}

/// Frames of the old cooked kind, into the host or out of it.
fn cooked(out: bool, packet: &[u8]) -> Vec<u8> {
    let kind = if out { 4 } else { 0 };
    let head = [0, kind, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0x08, 0];
    [&head[..], packet].concat()
}

struct Tcpdump {
    capture: Capture,
    link: LinkType,
}

impl Tcpdump {
    fn new(link: LinkType) -> Self {
        Self {
            capture: Capture::default(),
            link,
        }
    }

    fn see(&mut self, ms: u64, bytes: &[u8]) -> Option<Event> {
        self.capture.take(&Packet {
            time_ns: ms * 1_000_000,
            link: self.link,
            interface: 1,
            side: None,
            len: bytes.len() as u32,
            bytes,
        })
    }

    fn reasons(&mut self, ms: u64, bytes: &[u8]) -> u16 {
        self.see(ms, bytes).map_or(0, |event| {
            let Reasons(reasons) = event.reasons;
            reasons
        })
    }
}

#[test]
fn transitions_first_data_and_what_was_sent_again_are_told_the_rest_is_counted() {
    let mut dump = Tcpdump::new(LinkType::Raw);
    let syn = segment(false, 2, (100, 0), 0);
    assert_eq!(dump.reasons(0, &syn), reason::FIRST | reason::FLAGS);
    assert_eq!(dump.reasons(1000, &syn), reason::RETRANSMISSION);
    let answer = segment(true, 0x12, (500, 101), 0);
    assert_eq!(dump.reasons(1001, &answer), reason::FIRST | reason::FLAGS);
    assert_eq!(dump.reasons(1002, &segment(false, 0x10, (101, 501), 0)), 0);
    assert_eq!(
        dump.reasons(1003, &segment(false, 0x18, (101, 501), 10)),
        reason::DATA
    );
    assert_eq!(dump.reasons(1004, &segment(false, 0x18, (111, 501), 10)), 0);
    assert_eq!(
        dump.reasons(1204, &segment(false, 0x18, (111, 501), 10)),
        reason::RETRANSMISSION
    );
    assert_eq!(
        dump.reasons(20_000, &segment(false, 0x18, (121, 501), 10)),
        reason::KEEPALIVE
    );
    let last = dump
        .see(20_001, &segment(false, 0x11, (131, 501), 0))
        .expect("FIN is told");
    assert_eq!((last.packets, last.bytes), (8, 8 * 40 + 40));
    let counter = Counter {
        tuple: last.tuple.reversed(),
        netns: HERE,
        ifindex: 1,
        tap: event::Tap::Transmit,
    };
    assert_eq!(dump.capture.counted(&counter), Some((1, 40)));
}

#[test]
fn requests_come_in_and_answers_go_out_where_frames_do_not_tell() {
    let mut dump = Tcpdump::new(LinkType::Raw);
    // Its beginning is not in the capture: the greater port is the client's.
    let answer = dump
        .see(0, &segment(true, 0x18, (500, 101), 5))
        .expect("told");
    assert_eq!(
        (answer.tap.dir(), answer.matched),
        (Dir::Egress, event::Matched::Reverse)
    );
    let request = dump
        .see(1, &segment(false, 0x18, (101, 505), 5))
        .expect("told");
    assert_eq!(
        (request.tap.dir(), request.matched),
        (Dir::Ingress, event::Matched::Forward)
    );
}

#[test]
fn one_packet_at_two_interfaces_is_not_sent_again() {
    let mut dump = Tcpdump::new(LinkType::Cooked);
    let syn = segment(false, 2, (100, 0), 0);
    assert_eq!(
        dump.reasons(0, &cooked(false, &syn)),
        reason::FIRST | reason::FLAGS
    );
    assert_eq!(dump.reasons(0, &cooked(false, &syn)), 0);
    assert_eq!(
        dump.reasons(0, &cooked(true, &syn)),
        reason::FIRST | reason::FLAGS
    );
    let again = dump.see(1000, &cooked(false, &syn)).expect("told");
    assert_eq!(
        (again.reasons.0, again.packets),
        (reason::RETRANSMISSION, 2)
    );
}

#[test]
fn memory_is_bounded_and_what_is_forgotten_begins_anew() {
    let mut dump = Tcpdump::new(LinkType::Raw);
    let from = |n: u32| {
        let mut packet = segment(false, 0x10, (n, 1), 0);
        packet[12..16].copy_from_slice(&n.to_be_bytes());
        packet
    };
    for n in 0..100_000 {
        assert_eq!(dump.reasons(1, &from(n)), reason::FIRST);
    }
    assert_eq!(dump.reasons(1, &from(99_999)), 0);
    assert_eq!(dump.reasons(1, &from(0)), reason::FIRST);
    assert!(dump.capture.counts.held() <= 2 << 15);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(
        link in prop_oneof![
            Just(LinkType::Null), Just(LinkType::Ethernet), Just(LinkType::Raw), Just(LinkType::Cooked), Just(LinkType::Cooked2)
        ],
        packets in proptest::collection::vec((any::<u64>(), any::<u32>(), proptest::collection::vec(any::<u8>(), 0..120)), 0..20),
    ) {
        let mut capture = Capture::default();
        for (time_ns, len, bytes) in &packets {
            let packet = Packet { time_ns: *time_ns, link, interface: 3, side: None, len: *len, bytes };
            let _ = capture.take(&packet);
        }
        prop_assert_eq!(capture.stats().packets, packets.len() as u64);
    }

    /// Real headers with wounds.
    #[test]
    fn damaged_packets_are_read_without_harm(
        wounds in proptest::collection::vec((0..40usize, any::<u8>()), 0..8),
        cut in 0..60usize,
        len: u32,
    ) {
        let mut packet = segment(false, 0x18, (1, 2), 20);
        for (at, byte) in wounds {
            packet[at] = byte;
        }
        packet.truncate(cut);
        let mut capture = Capture::default();
        let packet = Packet { time_ns: 1, link: LinkType::Raw, interface: 1, side: None, len, bytes: &packet };
        let _ = capture.take(&packet);
    }
}
