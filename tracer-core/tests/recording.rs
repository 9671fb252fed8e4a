//! Recordings: told again, cut, damaged, made up.

#[allow(dead_code, reason = "shared by several test programs")]
mod notation;

use notation::Scenario;
use proptest::prelude::*;
use std::sync::OnceLock;
use tracer_core::journey::Settings;
use tracer_core::recording::{
    Clock, Decoder, Encoder, Ending, Header, MAGIC, ReadError, Record, Redactor, Replay,
};
use tracer_core::report::Flow;
use tracer_core::trace::Trace;

fn scenarios() -> Vec<Scenario> {
    let files = std::fs::read_dir(notation::folder()).expect("the scenario folder");
    let mut paths: Vec<_> = files
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    paths.sort();
    let read = |path| std::fs::read_to_string(path).expect("a scenario");
    paths
        .iter()
        .map(|path| Scenario::parse(&read(path)))
        .collect()
}

fn header() -> Header {
    Header {
        host: "node-a".to_owned(),
        clock: Clock {
            monotonic_ns: 5,
            realtime_ns: 1_700_000_000_000_000_000,
        },
        settings: tracer_core::recording::Settings {
            journey: Settings::default(),
            ..Default::default()
        },
        ..Header::default()
    }
}

/// Runs a scenario while it is recorded: what was told, and the records.
fn record(scenario: &Scenario) -> (Vec<Flow>, Vec<Record>) {
    let header = header();
    let mut trace = Trace::new(Settings::default(), header.clock.offset_ns());
    trace.keep_journal();
    let mut records = vec![Record::Header(Box::new(header))];
    let mut flows = Vec::new();
    let mut count = |_: &_| Some((7, 700));
    for event in &scenario.events {
        let now = event.time_ns + 60_000_000;
        let _ = trace.push(event.clone());
        let closed = trace.close(now, &scenario.inventory, &mut count);
        flows.extend(trace.judge(closed, &scenario.inventory));
        records.extend(trace.take_journal());
    }
    for drop in &scenario.drops {
        trace.push_drop(drop.clone());
    }
    let closed = trace.close_all(u64::MAX / 2, &scenario.inventory, &mut count);
    flows.extend(trace.judge(closed, &scenario.inventory));
    records.extend(trace.take_journal());
    (flows, records)
}

fn encode(records: &[Record]) -> Vec<u8> {
    let mut encoder = Encoder::new();
    let mut bytes = Vec::new();
    for record in records {
        encoder.put(record);
        bytes.extend(encoder.take());
    }
    assert_eq!(encoder.too_large(), 0);
    bytes
}

/// Everything that a decoder makes of bytes, fed in pieces of that size.
fn decode(bytes: &[u8], piece: usize) -> (Vec<Record>, Result<Ending, ReadError>) {
    let mut decoder = Decoder::new();
    let mut records = Vec::new();
    for piece in bytes.chunks(piece.max(1)).chain([&[][..]]) {
        decoder.feed(piece);
        loop {
            match decoder.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(error) => return (records, Err(error)),
            }
        }
    }
    let ending = decoder.ending();
    (records, Ok(ending))
}

fn replay(records: Vec<Record>) -> Vec<Flow> {
    let mut replay = Replay::new(header());
    let mut flows = Vec::new();
    for record in records {
        flows.extend(replay.take(record).into_iter().map(|(_, flow)| flow));
    }
    flows.extend(replay.finish().into_iter().map(|(_, flow)| flow));
    flows
}

#[test]
fn every_scenario_is_told_the_same_again() {
    let mut told = 0;
    for scenario in scenarios() {
        let (flows, records) = record(&scenario);
        let (read, ending) = decode(&encode(&records), 4096);
        assert_eq!(ending, Ok(Ending::Killed), "no summary was written");
        assert_eq!(read, records);
        assert_eq!(replay(read), flows);
        told += flows.len();
    }
    assert!(told > 20, "{told}");
}

/// A small scenario's records and bytes.
fn sample() -> (Vec<Record>, Vec<u8>) {
    static SAMPLE: OnceLock<(Vec<Record>, Vec<u8>)> = OnceLock::new();
    let make = || {
        let some = scenarios().into_iter().filter(|s| s.events.len() >= 8);
        let scenario = some.min_by_key(|s| s.events.len());
        let (_, records) = record(&scenario.expect("a scenario"));
        let bytes = encode(&records);
        (records, bytes)
    };
    SAMPLE.get_or_init(make).clone()
}

#[test]
fn a_cut_is_found_exactly_and_what_came_before_is_read() {
    let (records, bytes) = sample();
    let mut ends = vec![12];
    while let Some(head) = bytes
        .get(*ends.last().unwrap()..)
        .and_then(|b| b.first_chunk::<4>())
    {
        ends.push(ends.last().unwrap() + 10 + u32::from_le_bytes(*head) as usize);
    }
    for cut in 0..bytes.len() {
        let (read, ending) = decode(&bytes[..cut], 1 << 20);
        assert_eq!(read, records[..read.len()]);
        let last = ends.iter().rev().find(|end| **end <= cut);
        let should = match last {
            Some(last) if *last == cut => Ending::Killed,
            Some(last) => Ending::Cut(*last as u64),
            None => Ending::Cut(0),
        };
        assert_eq!(ending, Ok(should), "cut at {cut}");
    }
}

#[test]
fn another_format_and_another_file_are_refused() {
    let (_, mut bytes) = sample();
    bytes[8] = 2;
    assert_eq!(decode(&bytes, 3).1, Err(ReadError::Version(2)));
    assert_eq!(decode(b"GIF89a", 3).1, Err(ReadError::Magic));
    let mut twice = encode(&[Record::Header(Box::default())]);
    twice.extend_from_within(12..);
    assert!(matches!(
        decode(&twice, 7).1,
        Err(ReadError::Headless { .. })
    ));
}

#[test]
fn lying_lengths_are_refused_before_memory_is_taken() {
    let start = [&MAGIC[..], &[1, 0, 0, 0]].concat();
    let huge = [&start[..], &u32::MAX.to_le_bytes(), &[1, 0, 0, 0, 0, 0]].concat();
    assert!(matches!(
        decode(&huge, 64).1,
        Err(ReadError::Damaged { at: 12, .. })
    ));
    // A packed frame that claims to become 4 GiB.
    let stored = [&u32::MAX.to_le_bytes()[..], &[0x10, 0]].concat();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[1, 1]);
    sum.update(&stored);
    let frame = [
        &(stored.len() as u32).to_le_bytes()[..],
        &[1, 1],
        &sum.finalize().to_le_bytes(),
        &stored,
    ];
    let packed = [&start[..], &frame.concat()].concat();
    assert!(matches!(
        decode(&packed, 64).1,
        Err(ReadError::Damaged { at: 12, .. })
    ));
}

#[test]
fn frames_of_later_kinds_are_passed_over() {
    let (records, bytes) = sample();
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[200, 0, 7]);
    let later = [
        &1u32.to_le_bytes()[..],
        &[200, 0],
        &sum.finalize().to_le_bytes(),
        &[7],
    ]
    .concat();
    let bytes = [&bytes[..], &later].concat();
    let (read, ending) = decode(&bytes, 1000);
    assert_eq!((read, ending), (records, Ok(Ending::Killed)));
}

#[test]
fn a_redacted_recording_tells_the_same_story() {
    for scenario in scenarios() {
        let (flows, mut records) = record(&scenario);
        let mut redactor = Redactor::new([7; 16]);
        records
            .iter_mut()
            .for_each(|record| redactor.redact(record));
        let text = format!("{records:?}");
        let addresses = scenario
            .events
            .iter()
            .flat_map(|e| [e.tuple.src, e.tuple.dst]);
        for addr in addresses.filter(|a| !a.is_loopback() && !a.is_multicast()) {
            assert!(!text.contains(&addr.to_string()), "{addr} is still there");
        }
        let again = replay(records);
        let story = |flows: &[Flow]| -> Vec<_> {
            let one = |flow: &Flow| {
                let codes: Vec<_> = flow.findings.iter().map(|f| f.code).collect();
                let rewrites = flow.rewrites.iter().map(|r| (r.place, r.evidence));
                (
                    flow.verdict.source,
                    flow.delivery.code,
                    flow.hops.len(),
                    rewrites.collect::<Vec<_>>(),
                    codes,
                    flow.origin.kind,
                )
            };
            flows.iter().map(one).collect()
        };
        // Flows that end at the same moment are told in the order of their addresses.
        let sorted = |flows: &[Flow]| {
            let mut all: Vec<String> = story(flows).iter().map(|s| format!("{s:?}")).collect();
            all.sort();
            all
        };
        assert_eq!(sorted(&again), sorted(&flows));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the bytes are: records or one error, and no panic.
    #[test]
    fn any_bytes_are_taken(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        piece in 1usize..64,
    ) {
        let _ = decode(&bytes, piece);
        let with_start = [&MAGIC[..], &[1, 0, 0, 0], &bytes].concat();
        let (records, _) = decode(&with_start, piece);
        replay(records);
    }

    /// A recording with some bytes changed: found out by its checksums.
    #[test]
    fn damage_is_found(at in any::<proptest::sample::Index>(), bits in 1u8..) {
        let (records, mut bytes) = sample();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        let (read, ending) = decode(&bytes, 1 << 16);
        prop_assert_eq!(&read[..], &records[..read.len()]);
        // The two bytes that are nothing yet are passed over; a length that grew looks like a cut.
        let untouched = (10..12).contains(&at);
        prop_assert!(untouched || ending != Ok(Ending::Killed), "byte {}", at);
    }

    /// Records that make no sense, with checksums that are right: told somehow, without a panic.
    #[test]
    fn any_values_are_taken(kind in 1u8..16, value in proptest::collection::vec(any::<u8>(), 0..200)) {
        let header = encode(&[Record::Header(Box::new(header()))]);
        let mut sum = crc32fast::Hasher::new();
        sum.update(&[kind, 0]);
        sum.update(&value);
        let frame = [
            &(value.len() as u32).to_le_bytes()[..],
            &[kind, 0],
            &sum.finalize().to_le_bytes(),
            &value,
        ];
        let (records, _) = decode(&[&header[..], &frame.concat()].concat(), 100);
        replay(records);
    }

    /// Records in any order.
    #[test]
    fn any_order_is_taken(order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..60)) {
        let (records, _) = sample();
        let mixed = order.iter().map(|at| at.get(&records).clone()).collect();
        replay(mixed);
    }
}

/// Numbers at their limits, and such as are there.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Records with numbers that no kernel would give: told somehow, without a panic.
    #[test]
    fn any_numbers_are_taken(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), 0u8..14, number()), 1..24),
        offset in any::<i64>(),
    ) {
        let (mut records, _) = sample();
        for (at, field, number) in changes {
            let at = at.index(records.len());
            spoil(&mut records[at], field, number);
        }
        let mut header = header();
        header.clock.realtime_ns = offset;
        let mut replay = Replay::new(header);
        for record in records {
            replay.take(record);
        }
        replay.finish();
    }
}

fn spoil(record: &mut Record, field: u8, number: u64) {
    let small = number as u32;
    match record {
        Record::Event(event) => match field {
            0 => event.time_ns = number,
            1 => event.packets = number,
            2 => event.bytes = number,
            3 => event.l3_len = small,
            4 => event.print.payload_len = small,
            5 => event.print.wire_packets = number as u16,
            6 => event.print.frag_offset = number as u16,
            7 => event.print.ttl = number as u8,
            8 => event.ifindex = small,
            9 => event.skb = number,
            10 => event.reasons.0 = number as u16,
            11 => event.tuple = event.tuple.reversed(),
            12 => event.vlan = Some(number as u16),
            _ => {
                if let Some(tcp) = &mut event.print.tcp {
                    tcp.seq = small;
                    tcp.ack = !small;
                }
            }
        },
        Record::Advance(asked) | Record::Finish(asked) | Record::Recount(asked) => {
            if field < 4 {
                asked.now_ns = number;
            }
            for count in &mut asked.counts {
                count.packets = number;
                count.bytes = number;
            }
        }
        Record::Drop(drop) => match field {
            0..4 => drop.time_ns = number,
            4..8 => drop.count = number,
            _ => drop.l3_len = small,
        },
        _ => {}
    }
}
