//! Capture files of every kind and byte order, made by hand; cut, damaged, and random ones.

use super::super::{FileSource, SourceError, open};
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use tracer_core::event::{Dir, Event};
use tracer_core::recording::{Header, Record};

/// A file that is gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("srctrace-capture-{}-{number}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).expect("a file in the temporary folder");
        Self(path)
    }

    /// What is read of it, and what is said about it.
    fn read(&self) -> Result<(Vec<Record>, Vec<String>), SourceError> {
        let mut file: Box<dyn FileSource> = open(&self.0)?;
        let mut records = Vec::new();
        while let Some(record) = file.next_record()? {
            records.push(record);
        }
        let name = self.0.display().to_string();
        let said = file.remarks().into_iter();
        Ok((records, said.map(|line| line.replace(&name, "F")).collect()))
    }

    fn error(&self) -> String {
        let error = self.read().expect_err("it is bad").to_string();
        error.replace(&self.0.display().to_string(), "F")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn events(records: &[Record]) -> Vec<&Event> {
    fn event(record: &Record) -> Option<&Event> {
        match record {
            Record::Event(event) => Some(event),
            _ => None,
        }
    }
    records.iter().filter_map(event).collect()
}

fn header(records: &[Record]) -> &Header {
    match records.first() {
        Some(Record::Header(header)) => header,
        other => panic!("no header: {other:?}"),
    }
}

/// A TCP segment in IPv4, from 10.12.3.4:43210 to 10.20.30.40:443, or back.
fn segment(back: bool, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![
        0x45,
        0,
        0,
        40 + payload.len() as u8,
        0x12,
        0x34,
        0x40,
        0,
        62,
        6,
        0,
        0,
    ];
    let (near, far) = ([10, 12, 3, 4], [10, 20, 30, 40]);
    let (near_port, far_port) = (43_210_u16.to_be_bytes(), 443_u16.to_be_bytes());
    let (from, to) = if back { (far, near) } else { (near, far) };
    ip.extend(from);
    ip.extend(to);
    let (from, to) = if back {
        (far_port, near_port)
    } else {
        (near_port, far_port)
    };
    ip.extend(from);
    ip.extend(to);
    let (seq, ack): (u32, u32) = if back { (500, 101) } else { (100, 0) };
    ip.extend(seq.to_be_bytes());
    ip.extend(ack.to_be_bytes());
    ip.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    ip.extend(payload);
    ip
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[0x08, 0], packet].concat()
}

fn cooked2(packet: &[u8], ifindex: u8, outgoing: bool) -> Vec<u8> {
    let kind = if outgoing { 4 } else { 0 };
    let head = [
        0x08, 0, 0, 0, 0, 0, 0, ifindex, 0, 1, kind, 6, 1, 2, 3, 4, 5, 6, 0, 0,
    ];
    [&head[..], packet].concat()
}

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;

/// A pcap file. Packets are a second and a fraction, and bytes.
fn pcap(magic: u32, big: bool, link: u32, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let word = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let half = |n: u16| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let mut bytes = word(magic).to_vec();
    bytes.extend(half(2));
    bytes.extend(half(4));
    for n in [0, 0, 262_144, link] {
        bytes.extend(word(n));
    }
    for (second, fraction, packet) in packets {
        for n in [*second, *fraction, packet.len() as u32, packet.len() as u32] {
            bytes.extend(word(n));
        }
        bytes.extend(packet);
    }
    bytes
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = word(body.len() as u32 + 12);
    [&word(kind)[..], &len, &body, &len].concat()
}

/// A pcapng file of two interfaces, `eth0` (microseconds, Ethernet) and `tun0` (nanoseconds, raw IP).
fn pcapng(big: bool) -> Vec<u8> {
    let word = |n: u32| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let half = |n: u16| {
        if big {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let option = |code: u16, value: &[u8]| {
        let mut value = value.to_vec();
        let len = half(value.len() as u16);
        value.resize(value.len().next_multiple_of(4), 0);
        [&half(code)[..], &len, &value].concat()
    };
    let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
    let interface =
        |link: u16, options: &[u8]| [&half(link)[..], &[0; 2], &word(0), options].concat();
    let addr = option(4, &[10, 20, 30, 40, 255, 255, 0, 0]);
    let first = interface(1, &[option(2, b"eth0"), addr, option(0, &[])].concat());
    let second = interface(
        101,
        &[option(2, b"tun0"), option(9, &[9]), option(0, &[])].concat(),
    );
    let packet = |interface: u32, units: u64, bytes: &[u8], flags: u32| {
        let len = word(bytes.len() as u32);
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(4), 0);
        let time = [word((units >> 32) as u32), word(units as u32)].concat();
        let flags = [option(2, &word(flags)), option(0, &[])].concat();
        [&word(interface)[..], &time, &len, &len, &padded, &flags].concat()
    };
    let syn = packet(
        0,
        1_700_000_000_000_001,
        &ethernet(&segment(false, 2, b"")),
        1,
    );
    let answer = packet(1, 1_700_000_000_000_002_000, &segment(true, 0x12, b""), 2);
    [
        block(big, 0x0a0d_0d0a, &section),
        block(big, 1, &first),
        block(big, 1, &second),
        block(big, 6, &syn),
        block(big, 0xbad, b"unknown"),
        block(big, 6, &answer),
    ]
    .concat()
}

#[test]
fn both_byte_orders_and_both_resolutions_are_read() {
    for big in [false, true] {
        for (magic, fraction) in [(MICRO, 5), (NANO, 5000)] {
            let packets = [(1_700_000_000, fraction, ethernet(&segment(false, 2, b"")))];
            let file = Scratch::new(&pcap(magic, big, 1, &packets));
            let (records, said) = file.read().expect("a capture");
            assert_eq!(said, [""; 0]);
            assert_eq!(header(&records).started, "2023-11-14T22:13:20.000Z");
            let events = events(&records);
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].time_ns, 1_700_000_000_000_005_000);
            assert_eq!((events[0].ifindex, events[0].tap.dir()), (0, Dir::Ingress));
            let tuple = events[0].tuple;
            assert_eq!(tuple.source().to_string(), "10.12.3.4:43210");
            assert_eq!(tuple.destination().to_string(), "10.20.30.40:443");
            assert!(matches!(records.last(), Some(Record::Finish(_))));
        }
    }
}

#[test]
fn interfaces_have_names_times_and_directions_of_their_own() {
    for big in [false, true] {
        let (records, said) = Scratch::new(&pcapng(big)).read().expect("a capture");
        assert_eq!(said, [""; 0]);
        let captured = header(&records).captured.clone().expect("of a capture");
        assert_eq!(captured.links, ["Ethernet", "raw IP"]);
        let Some(Record::Inventory(inventory)) = records.get(1) else {
            panic!("no inventory: {records:?}");
        };
        let here = inventory
            .namespaces
            .values()
            .next()
            .and_then(Option::as_ref);
        let links = here.expect("one namespace").links.values();
        let links: Vec<_> = links.map(|l| (l.name.as_str(), l.addrs.len())).collect();
        assert_eq!(links, [("eth0", 1), ("tun0", 0)]);
        let seen = events(&records);
        let seen: Vec<_> = seen
            .iter()
            .map(|e| (e.time_ns, e.ifindex, e.tap.dir()))
            .collect();
        let at = 1_700_000_000_000_000_000;
        assert_eq!(
            seen,
            [(at + 1000, 1, Dir::Ingress), (at + 2000, 2, Dir::Egress)]
        );
    }
}

#[test]
fn cooked_frames_tell_interface_and_direction() {
    let packets = [
        (1, 0, cooked2(&segment(false, 2, b""), 7, false)),
        (1, 9, cooked2(&segment(true, 0x12, b""), 7, true)),
    ];
    let (records, _) = Scratch::new(&pcap(MICRO, false, 276, &packets))
        .read()
        .expect("a capture");
    let seen: Vec<_> = events(&records)
        .iter()
        .map(|e| (e.ifindex, e.tap.dir()))
        .collect();
    assert_eq!(seen, [(7, Dir::Ingress), (7, Dir::Egress)]);
}

#[test]
fn what_was_cut_is_used_as_far_as_it_goes() {
    let packets = [
        (1, 0, ethernet(&segment(false, 2, b""))),
        (2, 0, ethernet(&segment(true, 0x12, b""))),
    ];
    let whole = pcap(MICRO, false, 1, &packets);
    let second = 24 + 16 + 54;
    for cut in second + 1..whole.len() {
        let (records, said) = Scratch::new(&whole[..cut]).read().expect("a capture");
        assert_eq!(events(&records).len(), 1, "cut at {cut}");
        assert_eq!(
            said,
            [format!(
                "F: ends in the middle of a packet (byte {second}): the capture was killed, or the file was cut; what came before is used"
            )]
        );
    }
    let mut snapped = pcap(
        MICRO,
        false,
        1,
        &[(1, 0, ethernet(&segment(false, 2, b""))[..40].to_vec())],
    );
    snapped[24 + 12] = 54;
    let (records, said) = Scratch::new(&snapped).read().expect("a capture");
    assert_eq!(events(&records).len(), 0);
    assert_eq!(
        said,
        ["F: 1 packet was cut before the end of their headers (snap length) and left out"]
    );
}

#[test]
fn what_cannot_be_right_is_refused_in_one_line() {
    let good = pcap(
        MICRO,
        false,
        1,
        &[(1, 0, ethernet(&segment(false, 2, b"")))],
    );
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        Scratch::new(&bad).error()
    };
    assert_eq!(
        with(24 + 8, &[0xff; 4]),
        "F: it is damaged at byte 24: a packet of 4294967295 bytes"
    );
    assert_eq!(
        with(4, &[9]),
        "F: it is damaged at byte 0: format 9.4; 2.x is read"
    );
    assert_eq!(
        with(20, &[127]),
        "F: its packets are of link type 127, which is not read: Ethernet, Linux cooked (v1 and v2), raw IP and BSD loopback are"
    );
    assert_eq!(
        with(0, &[0x1f, 0x8b]),
        "F: compressed; unpack it first (gunzip)"
    );
    assert_eq!(
        with(0, b"text"),
        "F: neither a recording of srctrace (.srct) nor a packet capture (pcap, pcapng), by its first bytes"
    );
    let next = pcapng(false);
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = next.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        Scratch::new(&bad).error()
    };
    assert_eq!(
        with(8, &[0; 4]),
        "F: it is damaged at byte 0: a section without a byte order"
    );
    assert_eq!(
        with(32, &[2, 0, 0, 0xff]),
        "F: it is damaged at byte 28: a block of 4278190082 bytes"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Captures with some bytes changed, taken out or put in: an error, or records whose number the file bounds.
    #[test]
    fn whatever_happened_to_a_file_it_ends(
        kind in 0..4,
        wounds in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let packets = [
            (1, 0, ethernet(&segment(false, 2, b""))),
            (1, 9, cooked2(&segment(true, 0x12, b""), 7, true)),
            (2, 0, segment(false, 0x18, b"hello")),
        ];
        let mut bytes = match kind {
            0 => pcapng(false),
            1 => pcapng(true),
            2 => pcap(MICRO, true, 1, &packets),
            _ => pcap(NANO, false, 276, &packets),
        };
        for (at, byte, how) in wounds {
            let at = at.index(bytes.len());
            match how {
                0 => { bytes.remove(at); }
                1 => bytes.insert(at, byte),
                _ => bytes[at] = byte,
            }
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok((records, _)) = Scratch::new(&bytes).read() {
            prop_assert!(records.len() <= 3 + bytes.len());
        }
    }

    #[test]
    fn random_bytes_behind_a_right_beginning_end(
        next in any::<bool>(),
        rest in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let beginning = match next {
            true => block(false, 0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            false => pcap(MICRO, false, 1, &[]),
        };
        let _ = Scratch::new(&[beginning, rest].concat()).read();
    }
}
