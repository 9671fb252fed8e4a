//! The built eBPF object calls only helpers that read: it cannot change a packet, where it goes,
//! a process or a return value, whatever its source says.

use object::{Object as _, ObjectSection as _, SectionKind};
use std::collections::{BTreeMap, BTreeSet};

/// Helpers that look, copy into our own maps, or tell who and when. By number, from linux/bpf.h.
const READING: [(i32, &str); 20] = [
    (1, "map_lookup_elem"),
    (2, "map_update_elem"),
    (3, "map_delete_elem"),
    (5, "ktime_get_ns"),
    (7, "get_prandom_u32"),
    (8, "get_smp_processor_id"),
    (14, "get_current_pid_tgid"),
    (15, "get_current_uid_gid"),
    (16, "get_current_comm"),
    (26, "skb_load_bytes"),
    (35, "get_current_task"),
    (46, "get_socket_cookie"),
    (68, "skb_load_bytes_relative"),
    (80, "get_current_cgroup_id"),
    (113, "probe_read_kernel"),
    (115, "probe_read_kernel_str"),
    (130, "ringbuf_output"),
    (131, "ringbuf_reserve"),
    (132, "ringbuf_submit"),
    (133, "ringbuf_discard"),
];
/// `ringbuf_query`.
const RINGBUF_QUERY: i32 = 134;

const CALL: u8 = 0x85;
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
        let (all, rest) = code.as_chunks::<8>();
        assert_eq!(rest, [0u8; 0], "instructions are 8 bytes each");
        let mut calls = Self::default();
        let mut at = all.iter();
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

/// The code of the object, by section.
fn sections(object: &[u8]) -> BTreeMap<String, Calls> {
    let file = object::File::parse(object).expect("an ELF object");
    let code = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text);
    code.map(|section| {
        let name = section.name().expect("a name").to_owned();
        (name, Calls::of(section.data().expect("code")))
    })
    .collect()
}

fn allowed() -> BTreeSet<i32> {
    READING
        .iter()
        .map(|(id, _)| *id)
        .chain([RINGBUF_QUERY])
        .collect()
}

#[test]
fn the_built_object_calls_only_helpers_that_read() {
    let path = env!("SRCTRACE_EBPF_OBJECT");
    let object = std::fs::read(path).expect("the object that `cargo xtask build` made");
    let sections = sections(&object);
    println!("{sections:#?}");
    let names: Vec<&str> = sections.keys().map(String::as_str).collect();
    for program in ["classifier", "raw_tp"] {
        assert!(
            names.iter().any(|name| name.starts_with(program)),
            "{program} in {names:?}"
        );
    }
    for (name, calls) in &sections {
        let forbidden: Vec<_> = calls.helpers.difference(&allowed()).copied().collect();
        assert_eq!(
            (forbidden, &calls.others),
            (Vec::new(), &Vec::new()),
            "in {name}"
        );
    }
    let called: usize = sections.values().map(|calls| calls.helpers.len()).sum();
    assert!(
        called > 5,
        "the search for calls finds too few: {sections:?}"
    );
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
