//! The programs' offsets, from hand-made BTF.

use super::fixture::Writer;
use super::{Btf, Layout, TypeId};
use tracer_common::Offsets;

/// Just what the programs cannot do without, in the shapes that they expect.
fn least(len_bytes: u32) -> Vec<u8> {
    let mut w = Writer::new();
    let short = w.int("short", 2);
    let word = w.int("int", 4);
    let long = w.int("long", 8);
    let len = w.int("len", len_bytes);
    let pointer = w.wrap(2, "", TypeId(0));
    w.aggregate(
        4,
        "sk_buff",
        232,
        &[
            ("dev", pointer, 128, 0),
            ("len", len, 896, 0),
            ("protocol", short, 1424, 0),
            ("network_header", short, 1456, 0),
            ("head", pointer, 1536, 0),
            ("data", pointer, 1600, 0),
            ("mark", word, 1344, 31),
        ],
    );
    w.aggregate(4, "net_device", 8, &[("ifindex", word, 32, 0)]);
    // As before 5.15.
    let cgroup = w.aggregate(4, "sock_cgroup_data", 8, &[("val", long, 0, 0)]);
    w.aggregate(4, "sock", 16, &[("sk_cgrp_data", cgroup, 64, 0)]);
    w.bytes()
}

#[test]
fn a_missing_field_is_absent_and_never_zero() {
    let bytes = least(4);
    let layout = Layout::resolve(&[&Btf::parse(&bytes).unwrap()]).unwrap();
    let expected = Offsets {
        skb_head: 192,
        skb_data: 200,
        skb_len: 112,
        skb_network_header: 182,
        skb_protocol: 178,
        skb_dev: 16,
        dev_ifindex: 4,
        sk_cgroup: 8,
        ..Offsets::UNKNOWN
    };
    assert_eq!(layout.offsets, expected);
    assert_eq!(layout.absent.len(), 43 - 8);
    let mark = layout
        .absent
        .iter()
        .find(|absent| absent.field == "sk_buff.mark")
        .unwrap();
    assert_eq!(mark.why, "sk_buff.mark is a bit-field");
    assert!(layout.lacks_conntrack());
}

#[test]
fn a_needed_field_of_another_size_is_refused() {
    let bytes = least(2);
    let error = Layout::resolve(&[&Btf::parse(&bytes).unwrap()]).unwrap_err();
    assert_eq!(error.field, "sk_buff.len");
    assert_eq!(
        error.why,
        "sk_buff.len has become Int { signed: false } of 2 bytes"
    );
}
