//! The programs' offsets, from hand-made BTF and from this machine's kernel.

use super::fixture::Writer;
use super::{Btf, Layout, TypeId};
use tracer_common::{ABSENT, Offsets};

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
    assert_eq!(layout.absent.len(), 34 - 8);
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

/// What this machine's kernel says of itself, held against what must be true of any kernel.
#[test]
fn this_kernels_own_fields_are_consistent() {
    let bytes = std::fs::read("/sys/kernel/btf/vmlinux").expect("a kernel with BTF");
    let btf = Btf::parse(&bytes).unwrap();
    let layout = Layout::resolve(&[&btf]).unwrap();
    let o = layout.offsets;
    let size = btf.field("sk_buff", "head").unwrap();
    assert_eq!(o.skb_data, o.skb_head + 8, "head and data are neighbours");
    assert_eq!(size.byte_size(), Some(8));
    assert_eq!(
        o.skb_data_len,
        o.skb_len + 4,
        "len and data_len are neighbours"
    );
    assert!([o.skb_vlan_tci + 2, o.skb_vlan_tci.wrapping_sub(2)].contains(&o.skb_vlan_proto));
    assert_eq!(
        o.ct_reply - o.ct_orig,
        56,
        "a node of two pointers and a tuple of 40 bytes"
    );
    assert_eq!([o.tuple_src, o.tuple_sport, o.tuple_l3num], [0, 16, 18]);
    assert_eq!([o.tuple_dst, o.tuple_dport, o.tuple_proto], [20, 36, 38]);
    assert!(o.ct_status > o.ct_reply && o.ct_mark > o.ct_status);
    assert_ne!(o.net_inum, ABSENT);
    let reasons = btf.enumerators("skb_drop_reason").unwrap();
    assert!(
        reasons
            .iter()
            .any(|reason| reason.name == "SKB_DROP_REASON_NETFILTER_DROP")
    );
    let prototype = btf.prototype("btf_trace_netif_receive_skb").unwrap();
    let names: Vec<_> = prototype
        .parameters
        .iter()
        .map(|parameter| parameter.name)
        .collect();
    assert_eq!(
        names.len(),
        2,
        "the tracepoint's own data and the packet: {names:?}"
    );
}
