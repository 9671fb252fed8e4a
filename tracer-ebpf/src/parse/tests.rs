//! Header parsing on hand-made packets, on every truncation of them, and on random bytes.

use super::*;
use proptest::prelude::*;
use tracer_common::{ip_proto, present};

extern crate std;
use std::vec::Vec;

fn run(packet: &[u8]) -> (Option<usize>, RawEvent) {
    run_len(packet, packet.len() as u32)
}

fn run_len(packet: &[u8], len: u32) -> (Option<usize>, RawEvent) {
    let mut bytes = Bytes([0xa5; HEAD]);
    let valid = packet.len().min(HEAD);
    bytes.0[..valid].copy_from_slice(&packet[..valid]);
    let mut event = RawEvent::default();
    let mut cursors = Cursors::default();
    let head = Head {
        bytes: &bytes,
        valid,
    };
    let payload = parse(&head, len, &mut event, &mut cursors).map(|()| cursors.outer.at());
    (payload, event)
}

fn v4(proto: u8, options: usize, frag: u16, rest: &[u8]) -> Vec<u8> {
    let total = (20 + options + rest.len()) as u16;
    let mut p = std::vec![0x40 | (5 + options / 4) as u8, 0];
    p.extend(total.to_be_bytes());
    p.extend([0x12, 0x34]);
    p.extend(frag.to_be_bytes());
    p.extend([63, proto, 0, 0, 10, 12, 3, 4, 10, 20, 30, 40]);
    p.extend(std::vec![1; options]);
    p.extend(rest);
    p
}

fn v6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut p = std::vec![0x60, 0, 0, 0];
    p.extend((rest.len() as u16).to_be_bytes());
    p.extend([next, 61]);
    p.extend([0xfd, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    p.extend([0xfd, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20]);
    p.extend(rest);
    p
}

fn tcp_segment(flags: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let mut p = std::vec![0xa8, 0xca, 0x01, 0xbb, 0, 0, 0, 7, 0, 0, 0, 9];
    p.extend([(((20 + options) / 4) as u8) << 4, flags, 0, 0, 0, 0, 0, 0]);
    p.extend(std::vec![1; options]);
    p.extend(payload);
    p
}

#[test]
fn tcp_over_ipv4_with_options_on_both() {
    let (payload, e) = run(&v4(
        ip_proto::TCP,
        8,
        0x4000,
        &tcp_segment(0x02, 12, b"hello"),
    ));
    assert_eq!(payload, Some(28 + 32));
    assert_eq!((e.tuple.family, e.tuple.proto), (4, 6));
    assert_eq!(&e.tuple.src[..4], &[10, 12, 3, 4]);
    assert_eq!(&e.tuple.dst[..4], &[10, 20, 30, 40]);
    assert_eq!(
        (e.tuple.sport, e.tuple.dport),
        (43210u16.to_be_bytes(), 443u16.to_be_bytes())
    );
    assert_eq!(
        (
            e.print.seq,
            e.print.ack,
            e.print.tcp_flags,
            e.print.payload_len
        ),
        (7, 9, 2, 5)
    );
    assert_eq!((e.print.ttl, e.print.ip_id), (63, 0x1234));
    assert_eq!(e.present, present::TCP | present::IP_ID);
}

#[test]
fn udp_over_ipv6_behind_extension_headers() {
    let mut rest = std::vec![60, 0, 0, 0, 0, 0, 0, 0]; // hop-by-hop, 8 bytes
    rest.extend([17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // destination options, 16 bytes
    rest.extend([0, 53, 0, 99, 0, 12, 0, 0, 1, 2, 3, 4]);
    let (payload, e) = run(&v6(0, &rest));
    assert_eq!(payload, Some(40 + 24 + 8));
    assert_eq!(
        (e.tuple.proto, e.tuple.sport, e.tuple.dport),
        (17, [0, 53], [0, 99])
    );
    assert_eq!(
        (e.print.payload_len, e.print.ttl, e.tuple.dst[15]),
        (4, 61, 0x20)
    );
}

#[test]
fn an_endless_chain_of_extension_headers_is_refused() {
    let rest: Vec<u8> = std::iter::repeat_n([60, 0, 0, 0, 0, 0, 0, 0], 20)
        .flatten()
        .collect();
    assert_eq!(run(&v6(60, &rest)).0, None);
}

#[test]
fn fragments_say_which_they_are() {
    let (_, first) = run(&v4(ip_proto::UDP, 0, 0x2000, &[0, 1, 0, 2, 0, 30, 0, 0]));
    assert_eq!(
        first.present & present::FIRST_FRAGMENT,
        present::FIRST_FRAGMENT
    );
    assert_eq!(first.tuple.sport, [0, 1]);
    let (payload, later) = run(&v4(ip_proto::UDP, 0, 0x2002, &[9, 9, 9, 9, 9, 9, 9, 9]));
    assert_eq!(
        later.present & present::LATER_FRAGMENT,
        present::LATER_FRAGMENT
    );
    assert_eq!(
        (later.tuple.sport, later.print.frag_offset, payload),
        ([0, 0], 16, Some(20))
    );
    let (_, v6_later) = run(&v6(44, &[17, 0, 0, 17, 0, 0, 0, 5, 1, 2, 3, 4]));
    assert_eq!((v6_later.print.frag_offset, v6_later.print.ip_id), (16, 5));
    assert_eq!(v6_later.tuple.proto, 17);
}

#[test]
fn an_icmp_error_gives_the_tuple_it_quotes() {
    let inner = v4(ip_proto::TCP, 0, 0, &[0xa8, 0xca, 0x01, 0xbb, 0, 0, 0, 7]);
    let mut rest = std::vec![3, 13, 0, 0, 0, 0, 0, 0];
    rest.extend(&inner);
    let (_, e) = run(&v4(ip_proto::ICMP, 0, 0, &rest));
    assert_eq!(e.present & present::QUOTED, present::QUOTED);
    assert_eq!(
        (e.quoted.sport, e.quoted.dport),
        (43210u16.to_be_bytes(), 443u16.to_be_bytes())
    );
    assert_eq!((e.print.icmp_type, e.print.icmp_code), (3, 13));
}

#[test]
fn an_echo_has_its_identifier_as_source_port() {
    let (_, e) = run(&v4(
        ip_proto::ICMP,
        0,
        0,
        &[8, 0, 0, 0, 0x12, 0x34, 0, 5, 1, 2],
    ));
    assert_eq!(
        (e.tuple.sport, e.tuple.dport, e.print.seq),
        ([0x12, 0x34], [0, 0], 5)
    );
}

#[test]
fn lying_lengths_do_not_count_bytes_that_are_not_there() {
    let mut p = v4(ip_proto::UDP, 0, 0, &[0, 1, 0, 2, 0, 12, 0, 0, 7, 7, 7, 7]);
    p[2..4].copy_from_slice(&60000u16.to_be_bytes());
    let (_, e) = run(&p);
    assert_eq!((e.l3_len, e.print.payload_len), (32, 4));
    p[2..4].copy_from_slice(&0u16.to_be_bytes());
    let (_, gso) = run_len(&p, 70000);
    assert_eq!(gso.l3_len, 70000);
}

#[test]
fn every_truncation_is_refused_or_read_without_the_missing_bytes() {
    let packet = v4(
        ip_proto::TCP,
        4,
        0,
        &tcp_segment(0x18, 4, b"0123456789abcdef"),
    );
    for cut in 0..packet.len() {
        let (payload, e) = run(&packet[..cut]);
        assert!(payload.is_none() || cut >= 24 + 14, "read at {cut}: {e:?}");
    }
}

#[test]
fn the_payload_hash_needs_all_the_bytes_it_is_made_of() {
    let packet = v4(
        ip_proto::UDP,
        0,
        0,
        &[&[0u8, 1, 0, 2, 0, 0, 0, 0][..], &[3; 40]].concat(),
    );
    let mut bytes = Bytes([0; HEAD]);
    bytes.0[..packet.len()].copy_from_slice(&packet);
    let whole = payload_hash(
        &Head {
            bytes: &bytes,
            valid: packet.len(),
        },
        28,
        40,
    );
    assert!(whole.is_some());
    assert_eq!(
        payload_hash(
            &Head {
                bytes: &bytes,
                valid: packet.len() - 20
            },
            28,
            40
        ),
        None
    );
    assert_eq!(
        payload_hash(
            &Head {
                bytes: &bytes,
                valid: packet.len()
            },
            28,
            7
        ),
        None
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(packet in proptest::collection::vec(any::<u8>(), 0..300), len: u32) {
        let (payload, e) = run_len(&packet, len);
        if payload.is_some() {
            prop_assert!(e.tuple.family == 4 || e.tuple.family == 6);
        }
    }

    #[test]
    fn a_version_and_random_rest_are_read_without_panic(v in prop_oneof![Just(0x45u8), Just(0x4fu8), Just(0x60u8)], mut packet in proptest::collection::vec(any::<u8>(), 1..256)) {
        packet[0] = v;
        let _ = run(&packet);
    }
}
