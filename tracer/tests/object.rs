//! What the built eBPF object does, whatever its source says: it calls only helpers that read (none
//! that writes to packets or user memory, redirects, drops, overrides a return value or sends a
//! signal), and its traffic-control programs let every packet go on.

use object::{Object as _, ObjectSection as _, SectionKind};
use std::collections::{BTreeMap, BTreeSet};

/// Helpers that look, copy into our own maps, or tell who and when: by number, from linux/bpf.h.
/// One that is added here must not change a packet, a process or a return value.
const READING: [(i32, &str); 18] = [
    (1, "map_lookup_elem"),
    (2, "map_update_elem"),
    (3, "map_delete_elem"),
    (5, "ktime_get_ns"),
    (12, "tail_call"),
    (14, "get_current_pid_tgid"),
    (16, "get_current_comm"),
    (26, "skb_load_bytes"),
    (68, "skb_load_bytes_relative"),
    (80, "get_current_cgroup_id"),
    (113, "probe_read_kernel"),
    (115, "probe_read_kernel_str"),
    (118, "jiffies64"),
    (130, "ringbuf_output"),
    (131, "ringbuf_reserve"),
    (132, "ringbuf_submit"),
    (133, "ringbuf_discard"),
    (134, "ringbuf_query"),
];
/// The kinds of programs that the object may hold, by their sections: `.text` is functions that
/// they share, tracepoints and kprobes cannot decide anything (a kprobe would need the helper that
/// overrides a return value), and what classifiers decide is checked below.
const KINDS: [&str; 4] = [".text", "classifier", "raw_tp/", "kprobe"];

const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// A jump whose offset is in the immediate.
const JUMP_FAR: u8 = 0x06;
/// The classes of jumps.
const JUMPS: [u8; 2] = [0x05, 0x06];
/// Setting a register to a constant, 64 and 32 bits.
const SET: [u8; 2] = [0xb7, 0xb4];
/// Wide loads take two slots.
const LOAD_64: u8 = 0x18;
/// `src_reg` of a call: a helper, a function of this object, a kernel function.
const HELPER: u8 = 0;
const LOCAL: u8 = 1;

/// What a piece of code calls.
#[derive(Debug, Default, PartialEq, Eq)]
struct Calls {
    helpers: BTreeSet<i32>,
    /// Calls that are neither of a helper nor of a function of this object.
    others: Vec<[u8; 8]>,
}

impl Calls {
    fn of(code: &[u8]) -> Self {
        let mut calls = Self::default();
        let mut at = instructions(code).iter();
        while let Some(one) = at.next() {
            let [opcode, registers, _, _, imm @ ..] = *one;
            match (opcode, registers >> 4) {
                (LOAD_64, _) => assert!(at.next().is_some(), "half a wide load at the end"),
                (CALL, HELPER) => {
                    calls.helpers.insert(i32::from_le_bytes(imm));
                }
                (CALL, LOCAL) => {}
                (CALL, _) => calls.others.push(*one),
                _ => {}
            }
        }
        calls
    }
}

fn instructions(code: &[u8]) -> &[[u8; 8]] {
    let (all, rest) = code.as_chunks();
    assert!(rest.is_empty(), "instructions are 8 bytes each");
    all
}

/// What the ways out of a piece of code return, if each sets a constant right before it leaves.
fn returned(code: &[u8]) -> Option<BTreeSet<i32>> {
    let all = instructions(code);
    let mut values = BTreeSet::new();
    let mut second_half = false;
    for (at, one) in all.iter().enumerate() {
        let is_data = second_half;
        second_half = !is_data && one[0] == LOAD_64;
        if is_data {
            continue;
        }
        match one[0] {
            EXIT => {
                values.insert(constant(&all[..at])?);
            }
            // A jump right to an exit would go around what is set before it.
            _ if jumps_to(at, one).is_some_and(|to| all[to][0] == EXIT) => return None,
            _ => {}
        }
    }
    Some(values)
}

/// What the last instruction sets register 0 to.
fn constant(before: &[[u8; 8]]) -> Option<i32> {
    let value = |one: &[u8; 8]| i32::from_le_bytes([one[4], one[5], one[6], one[7]]);
    match before {
        // The upper half does not count: what a program returns has 32 bits.
        [.., first, [0, 0, 0, 0, _, _, _, _]] if first[..2] == [LOAD_64, 0] => Some(value(first)),
        [.., one] if SET.contains(&one[0]) && one[1] == 0 => Some(value(one)),
        _ => None,
    }
}

fn jumps_to(at: usize, one: &[u8; 8]) -> Option<usize> {
    let [opcode, _, offset @ .., a, b, c, d] = *one;
    if !JUMPS.contains(&(opcode & 7)) || matches!(opcode, CALL | EXIT) {
        return None;
    }
    let by = match opcode {
        JUMP_FAR => i32::from_le_bytes([a, b, c, d]),
        _ => i32::from(i16::from_le_bytes(offset)),
    };
    at.checked_add(1)?
        .checked_add_signed(isize::try_from(by).ok()?)
}

/// The code of the object, by section.
fn sections() -> BTreeMap<String, Vec<u8>> {
    let path = env!("SRCTRACE_EBPF_OBJECT");
    let bytes = std::fs::read(path).expect("the object that `cargo xtask build` made");
    let file = object::File::parse(bytes.as_slice()).expect("an ELF object");
    let code = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text);
    code.map(|section| {
        let name = section.name().expect("a name").to_owned();
        (name, section.data().expect("code").to_owned())
    })
    .filter(|(_, code)| !code.is_empty())
    .collect()
}

fn allowed() -> BTreeSet<i32> {
    READING.iter().map(|(id, _)| *id).collect()
}

#[test]
fn the_built_object_calls_only_helpers_that_read() {
    let mut called = BTreeSet::new();
    for (name, code) in &sections() {
        assert!(
            KINDS.iter().any(|kind| name.starts_with(kind)),
            "a program of kind {name}"
        );
        let calls = Calls::of(code);
        println!(
            "{name}: {} instructions, {:?}",
            code.len() / 8,
            calls.helpers
        );
        let forbidden: Vec<_> = calls.helpers.difference(&allowed()).copied().collect();
        assert_eq!(
            (forbidden, calls.others),
            (Vec::new(), Vec::new()),
            "in {name}"
        );
        called.extend(calls.helpers);
    }
    // Without these it could not do its work: the search has found the code.
    assert!(
        called.is_superset(&BTreeSet::from([1, 2, 5, 113])),
        "{called:?}"
    );
}

/// `TC_ACT_UNSPEC`: the packet goes on to whoever is next, as if we were not there.
#[test]
fn every_way_out_of_a_traffic_control_program_is_next() {
    let sections = sections();
    let classifiers = sections
        .iter()
        .filter(|(name, _)| name.starts_with("classifier"));
    let verdicts: Vec<_> = classifiers.map(|(_, code)| returned(code)).collect();
    assert!(
        !verdicts.is_empty(),
        "no classifier in {:?}",
        sections.keys()
    );
    for verdict in verdicts {
        assert_eq!(verdict, Some(BTreeSet::from([-1])));
    }
}

#[test]
fn verdicts_are_read() {
    let exit = [EXIT, 0, 0, 0, 0, 0, 0, 0];
    let set = |register: u8, value: u8| [SET[0], register, 0, 0, value, 0, 0, 0];
    let wide = [[LOAD_64, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], [0; 8]];
    let next = [wide.as_flattened(), &exit].concat();
    assert_eq!(returned(&next), Some(BTreeSet::from([-1])));
    let two = [next.as_slice(), &set(0, 2), &exit].concat();
    assert_eq!(returned(&two), Some(BTreeSet::from([-1, 2])));
    assert_eq!(returned(&[set(1, 2), exit].concat()), None);
    let jump = [0x05, 0, 1, 0, 0, 0, 0, 0];
    assert_eq!(jumps_to(0, &jump), Some(2));
    assert_eq!(jumps_to(5, &[0x15, 0, 0xfe, 0xff, 0, 0, 0, 0]), Some(4));
    assert_eq!(jumps_to(0, &exit), None);
    let around = [jump, set(0, 0), exit].concat();
    assert_eq!(returned(&around), None);
}

#[test]
fn calls_are_told_apart() {
    let skb_store_bytes = [CALL, 0, 0, 0, 9, 0, 0, 0];
    let local = [CALL, LOCAL << 4, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let kernel_function = [CALL, 2 << 4, 0, 0, 7, 0, 0, 0];
    // The second half of a wide load is data, whatever it looks like.
    let wide = [LOAD_64, 0, 0, 0, 1, 0, 0, 0];
    let code = [
        skb_store_bytes,
        local,
        kernel_function,
        wide,
        skb_store_bytes,
    ]
    .concat();
    let expected = Calls {
        helpers: BTreeSet::from([9]),
        others: vec![kernel_function],
    };
    assert_eq!(Calls::of(&code), expected);
    assert!(!allowed().contains(&9));
}
