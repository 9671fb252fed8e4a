//! The fields that the programs read: where kernels keep them, what they must look like, and what
//! it costs when this kernel has no such field.

use tracer_common::Offsets;

/// What a field must be for the programs to read it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Want {
    /// A pointer.
    Pointer,
    /// An integer of so many bytes, not a bit-field.
    Int(u64),
    /// Anything of so many bytes.
    Bytes(u64),
    /// Any structure or union.
    Aggregate,
}

/// One field and where kernels keep it: places are tried in order.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) slot: fn(&mut Offsets) -> &mut u32,
    pub(super) places: &'static [(&'static str, &'static str, Want)],
    /// What is lost without it; `None` where the programs cannot do without.
    pub(super) effect: Option<&'static str>,
}

/// Shorthand for a field with one place, which is also its name.
macro_rules! row {
    ($slot:ident, $ty:literal, $path:literal, $want:expr, $effect:expr) => {
        Row {
            name: concat!($ty, ".", $path),
            slot: |offsets| &mut offsets.$slot,
            places: &[($ty, $path, $want)],
            effect: $effect,
        }
    };
}

const NO_GSO: Option<&str> = Some("packets are counted before they are segmented");
const NO_VLAN: Option<&str> = Some("VLAN tags are not shown");
const NO_NETNS: Option<&str> = Some("a packet's network namespace is not known from its device");
const NO_ROUTE: Option<&str> =
    Some("the network namespace of a dropped packet is not known from its route");
const NO_PROCESS: Option<&str> = Some("the cgroup of a packet's sender is not known");
const NO_SOCKET: Option<&str> = Some("the two connections of a proxy are not joined");
const NO_CONNTRACK: Option<&str> =
    Some("conntrack entries cannot be read: rewrites are known only from two sightings");

/// In the order of [`Offsets`].
pub(super) static ROWS: &[Row] = &[
    row!(skb_head, "sk_buff", "head", Want::Pointer, None),
    row!(skb_data, "sk_buff", "data", Want::Pointer, None),
    row!(skb_end, "sk_buff", "end", Want::Int(4), NO_GSO),
    row!(skb_len, "sk_buff", "len", Want::Int(4), None),
    row!(
        skb_data_len,
        "sk_buff",
        "data_len",
        Want::Int(4),
        Some("payload in page fragments is not told from readable payload")
    ),
    row!(
        skb_network_header,
        "sk_buff",
        "network_header",
        Want::Int(2),
        None
    ),
    row!(skb_protocol, "sk_buff", "protocol", Want::Int(2), None),
    row!(
        skb_mark,
        "sk_buff",
        "mark",
        Want::Int(4),
        Some("packet marks are not shown")
    ),
    row!(skb_nfct, "sk_buff", "_nfct", Want::Int(8), NO_CONNTRACK),
    row!(skb_dev, "sk_buff", "dev", Want::Pointer, None),
    row!(skb_sk, "sk_buff", "sk", Want::Pointer, NO_PROCESS),
    row!(
        skb_iif,
        "sk_buff",
        "skb_iif",
        Want::Int(4),
        Some("packets made on this host are not told from forwarded ones")
    ),
    row!(skb_vlan_tci, "sk_buff", "vlan_tci", Want::Int(2), NO_VLAN),
    row!(
        skb_vlan_proto,
        "sk_buff",
        "vlan_proto",
        Want::Int(2),
        NO_VLAN
    ),
    row!(skb_dst, "sk_buff", "_skb_refdst", Want::Int(8), NO_ROUTE),
    row!(dst_dev, "dst_entry", "dev", Want::Pointer, NO_ROUTE),
    row!(
        shinfo_gso_segs,
        "skb_shared_info",
        "gso_segs",
        Want::Int(2),
        NO_GSO
    ),
    row!(
        shinfo_gso_size,
        "skb_shared_info",
        "gso_size",
        Want::Int(2),
        NO_GSO
    ),
    row!(dev_ifindex, "net_device", "ifindex", Want::Int(4), None),
    row!(dev_net, "net_device", "nd_net.net", Want::Pointer, NO_NETNS),
    row!(net_inum, "net", "ns.inum", Want::Int(4), NO_NETNS),
    row!(
        sk_net,
        "sock",
        "__sk_common.skc_net.net",
        Want::Pointer,
        Some("the network namespace of a packet's socket is not known")
    ),
    row!(
        sk_family,
        "sock",
        "__sk_common.skc_family",
        Want::Int(2),
        NO_SOCKET
    ),
    row!(
        sk_daddr,
        "sock",
        "__sk_common.skc_daddr",
        Want::Int(4),
        NO_SOCKET
    ),
    row!(
        sk_saddr,
        "sock",
        "__sk_common.skc_rcv_saddr",
        Want::Int(4),
        NO_SOCKET
    ),
    row!(
        sk_v6_daddr,
        "sock",
        "__sk_common.skc_v6_daddr",
        Want::Bytes(16),
        NO_SOCKET
    ),
    row!(
        sk_v6_saddr,
        "sock",
        "__sk_common.skc_v6_rcv_saddr",
        Want::Bytes(16),
        NO_SOCKET
    ),
    row!(
        sk_dport,
        "sock",
        "__sk_common.skc_dport",
        Want::Int(2),
        NO_SOCKET
    ),
    row!(
        sk_num,
        "sock",
        "__sk_common.skc_num",
        Want::Int(2),
        NO_SOCKET
    ),
    Row {
        name: "sock.sk_cgrp_data.cgroup",
        slot: |offsets| &mut offsets.sk_cgroup,
        // Before 5.15 a word whose lowest bits are flags.
        places: &[
            ("sock", "sk_cgrp_data.cgroup", Want::Pointer),
            ("sock", "sk_cgrp_data.val", Want::Int(8)),
        ],
        effect: NO_PROCESS,
    },
    row!(cgroup_kn, "cgroup", "kn", Want::Pointer, NO_PROCESS),
    row!(kn_id, "kernfs_node", "id", Want::Int(8), NO_PROCESS),
    row!(
        ct_orig,
        "nf_conn",
        "tuplehash[0].tuple",
        Want::Aggregate,
        NO_CONNTRACK
    ),
    row!(
        ct_reply,
        "nf_conn",
        "tuplehash[1].tuple",
        Want::Aggregate,
        NO_CONNTRACK
    ),
    row!(
        ct_status,
        "nf_conn",
        "status",
        Want::Int(8),
        Some("the state of conntrack entries is not shown")
    ),
    row!(
        ct_mark,
        "nf_conn",
        "mark",
        Want::Int(4),
        Some("conntrack marks are not shown")
    ),
    row!(
        ct_zone,
        "nf_conn",
        "zone.id",
        Want::Int(2),
        Some("conntrack zones are not shown; this kernel may have none")
    ),
    row!(
        tuple_src,
        "nf_conntrack_tuple",
        "src.u3",
        Want::Bytes(16),
        NO_CONNTRACK
    ),
    row!(
        tuple_sport,
        "nf_conntrack_tuple",
        "src.u",
        Want::Bytes(2),
        NO_CONNTRACK
    ),
    row!(
        tuple_l3num,
        "nf_conntrack_tuple",
        "src.l3num",
        Want::Int(2),
        NO_CONNTRACK
    ),
    row!(
        tuple_dst,
        "nf_conntrack_tuple",
        "dst.u3",
        Want::Bytes(16),
        NO_CONNTRACK
    ),
    row!(
        tuple_dport,
        "nf_conntrack_tuple",
        "dst.u",
        Want::Bytes(2),
        NO_CONNTRACK
    ),
    row!(
        tuple_proto,
        "nf_conntrack_tuple",
        "dst.protonum",
        Want::Int(1),
        NO_CONNTRACK
    ),
];

const _: () = assert!(ROWS.len() * 4 == size_of::<Offsets>());
