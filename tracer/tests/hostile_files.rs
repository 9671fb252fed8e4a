//! Files from strangers: real captures and a real recording with wounds, read and judged as `srctrace merge` does it. Whatever
//! they hold, reading ends, with flows or with one error, and needs little memory.
//!
//! ```text
//! SRCTRACE_FUZZ_CASES=100000 cargo test --release -p srctrace --test hostile_files
//! ```

#[allow(unreachable_pub, reason = "the fuzz targets share it")]
mod played;

use played::{merge, seal};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Cases, unless the environment says otherwise: some seconds.
const CASES: u32 = 400;
/// What a file of some kilobytes may make the readers hold, bytes: two blocks of the largest size.
const MOST_MEMORY: usize = 64 << 20;

/// Counts what is held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it came; the counters are beside that.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps to what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from `alloc` above, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What happens to a file's bytes.
#[derive(Clone, Debug)]
enum Wound {
    Set(Index, u8),
    Word(Index, u32),
    Remove(Index),
    Insert(Index, u8),
    Repeat(Index, Index),
    Cut(Index),
}

fn wound() -> impl Strategy<Value = Wound> {
    let at = any::<Index>;
    let lies = prop_oneof![
        Just(0),
        Just(u32::MAX),
        Just(1 << 31),
        Just(24),
        any::<u32>()
    ];
    prop_oneof![
        6 => (at(), any::<u8>()).prop_map(|(at, byte)| Wound::Set(at, byte)),
        3 => (at(), lies).prop_map(|(at, word)| Wound::Word(at, word)),
        1 => at().prop_map(Wound::Remove),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Wound::Insert(at, byte)),
        1 => (at(), at()).prop_map(|(from, to)| Wound::Repeat(from, to)),
        1 => at().prop_map(Wound::Cut),
    ]
}

impl Wound {
    fn make(&self, bytes: &mut Vec<u8>) {
        let len = bytes.len();
        if len < 4 {
            return;
        }
        match self {
            Self::Set(at, byte) => bytes[at.index(len)] = *byte,
            Self::Word(at, word) => {
                let at = at.index(len - 3);
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
            Self::Remove(at) => {
                bytes.remove(at.index(len));
            }
            Self::Insert(at, byte) => bytes.insert(at.index(len), *byte),
            Self::Repeat(from, to) => {
                let from = from.index(len);
                let piece = bytes[from..(from + 64).min(len)].to_vec();
                let to = to.index(len);
                bytes.splice(to..to, piece);
            }
            Self::Cut(at) => bytes.truncate(at.index(len)),
        }
    }
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
}

const NAMES: [&str; 6] = [
    "any_v1.pcap",
    "any_v2.pcap",
    "snap.pcap",
    "vlan.pcap",
    "interfaces.pcapng",
    "node-a.srct",
];

/// Unharmed, they give the flows that are in them.
#[test]
fn files_without_wounds_join() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let recording = samples().join("node-a.srct");
    for name in NAMES {
        let flows = merge([&recording, &samples().join(name)]).expect(name);
        assert!(flows >= 2, "{name}: {flows} flows");
    }
}

/// Only one at a time: what is held is counted for all threads.
static TURN: Mutex<()> = Mutex::new(());

/// Reads and joins each of many files that a strategy makes up: it ends, with flows or one error, in little memory.
fn all_end(name: &str, files: &impl Strategy<Value = Vec<u8>>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = std::env::var("SRCTRACE_FUZZ_CASES").ok();
    let cases = cases.and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let recording = samples().join("node-a.srct");
    let file = std::env::temp_dir().join(format!("srctrace-{name}-{}", std::process::id()));
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let result = runner.run(files, |bytes| {
        fs::write(&file, &bytes).expect("a file in the temporary folder");
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let outcome = merge([&recording, &file]);
        let held = MOST.load(Ordering::Relaxed).saturating_sub(before);
        prop_assert!(held < MOST_MEMORY, "{held} bytes were held");
        if let Err(error) = outcome {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
        Ok(())
    });
    let _ = fs::remove_file(&file);
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn files_with_wounds_end_and_need_little_memory() {
    let whole: Vec<Vec<u8>> = NAMES
        .iter()
        .map(|name| fs::read(samples().join(name)).expect("a sample"))
        .collect();
    let wounds = proptest::collection::vec(wound(), 1..10);
    let wounded = move |(which, wounds, sealed): (usize, Vec<Wound>, bool)| {
        let mut bytes = whole[which].clone();
        wounds.iter().for_each(|wound| wound.make(&mut bytes));
        if sealed && NAMES[which].ends_with(".srct") {
            seal(&mut bytes);
        }
        bytes
    };
    all_end(
        "wounds",
        &(0..NAMES.len(), wounds, any::<bool>()).prop_map(wounded),
    );
}

/// What files begin with, each with the version that is read.
const BEGINNINGS: [&[u8]; 6] = [
    b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0",
    b"\xa1\xb2\x3c\x4d\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\x14",
    b"\x34\xcd\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x65\0\0\0",
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
    b"\x89\x53\x52\x43\x54\x0d\x0a\x1a\x01\0\0\0",
    b"",
];

/// Frames of a recording: kind, flags, and what is stored. Their lengths and checksums are right.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let stored = proptest::collection::vec(any::<u8>(), 0..200);
    let frame = (0_u8..20, 0_u8..3, stored);
    proptest::collection::vec(frame, 0..8).prop_map(|frames| {
        let mut bytes = BEGINNINGS[4].to_vec();
        for (kind, flags, stored) in frames {
            bytes.extend((stored.len() as u32).to_le_bytes());
            bytes.extend([kind, flags, 0, 0, 0, 0]);
            bytes.extend(stored);
        }
        seal(&mut bytes);
        bytes
    })
}

#[test]
fn random_bytes_end_and_need_little_memory() {
    let random = proptest::collection::vec(any::<u8>(), 0..4096);
    let behind = (0..BEGINNINGS.len(), random);
    let behind = behind.prop_map(|(which, random)| [BEGINNINGS[which], &random].concat());
    all_end("random", &prop_oneof![2 => behind, 1 => frames()]);
}
