//! Where the running kernel keeps what the programs read. Filled from BTF by user space before
//! the programs are loaded, and frozen into `.rodata`, so that the verifier sees constants.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A field that this kernel does not have (or that its BTF does not tell). Never zero: zero is an
/// offset.
pub const ABSENT: u32 = u32::MAX;

/// The bytes of `struct sk_buff` in which kernels keep what is read of every packet, first and one
/// after the last. Where a kernel keeps a field elsewhere, the whole structure is read.
pub const SKB_WINDOW: (u32, u32) = (96, 224);

/// Byte offsets inside kernel structures. Each is [`ABSENT`] where the kernel has no such field.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Offsets {
    /// `sk_buff.head`
    pub skb_head: u32,
    /// `sk_buff.data`
    pub skb_data: u32,
    /// `sk_buff.end` (an offset from head on 64-bit kernels)
    pub skb_end: u32,
    /// `sk_buff.len`
    pub skb_len: u32,
    /// `sk_buff.data_len`
    pub skb_data_len: u32,
    /// `sk_buff.network_header` (offset from head)
    pub skb_network_header: u32,
    /// `sk_buff.protocol`
    pub skb_protocol: u32,
    /// `sk_buff.mark`
    pub skb_mark: u32,
    /// `sk_buff._nfct`
    pub skb_nfct: u32,
    /// `sk_buff.dev`
    pub skb_dev: u32,
    /// `sk_buff.sk`
    pub skb_sk: u32,
    /// `sk_buff.skb_iif`
    pub skb_iif: u32,
    /// `sk_buff.vlan_tci`
    pub skb_vlan_tci: u32,
    /// `sk_buff.vlan_proto` (0 in the field means: no tag)
    pub skb_vlan_proto: u32,
    /// `sk_buff._skb_refdst` (the lowest bit is a flag)
    pub skb_dst: u32,
    /// `dst_entry.dev`
    pub dst_dev: u32,
    /// `skb_shared_info.gso_segs`
    pub shinfo_gso_segs: u32,
    /// `skb_shared_info.gso_size`
    pub shinfo_gso_size: u32,
    /// `net_device.ifindex`
    pub dev_ifindex: u32,
    /// `net_device.nd_net.net`
    pub dev_net: u32,
    /// `net.ns.inum`
    pub net_inum: u32,
    /// `sock_common.skc_net.net`, of a `struct sock`
    pub sk_net: u32,
    /// `sock_common.skc_family`, of a `struct sock`, as the following
    pub sk_family: u32,
    /// `sock_common.skc_daddr`: the other side
    pub sk_daddr: u32,
    /// `sock_common.skc_rcv_saddr`: this side
    pub sk_saddr: u32,
    /// `sock_common.skc_v6_daddr`
    pub sk_v6_daddr: u32,
    /// `sock_common.skc_v6_rcv_saddr`
    pub sk_v6_saddr: u32,
    /// `sock_common.skc_dport`, network order
    pub sk_dport: u32,
    /// `sock_common.skc_num`: this side's port, the machine's order
    pub sk_num: u32,
    /// `sock.sk_cgrp_data.cgroup` (`.val` before 5.15)
    pub sk_cgroup: u32,
    /// `cgroup.kn`
    pub cgroup_kn: u32,
    /// `kernfs_node.id`
    pub kn_id: u32,
    /// `nf_conn.tuplehash[0].tuple`
    pub ct_orig: u32,
    /// `nf_conn.tuplehash[1].tuple`
    pub ct_reply: u32,
    /// `nf_conn.status`
    pub ct_status: u32,
    /// `nf_conn.mark`
    pub ct_mark: u32,
    /// `nf_conn.zone.id`
    pub ct_zone: u32,
    /// `nf_conntrack_tuple.src.u3`
    pub tuple_src: u32,
    /// `nf_conntrack_tuple.src.u`
    pub tuple_sport: u32,
    /// `nf_conntrack_tuple.src.l3num`
    pub tuple_l3num: u32,
    /// `nf_conntrack_tuple.dst.u3`
    pub tuple_dst: u32,
    /// `nf_conntrack_tuple.dst.u`
    pub tuple_dport: u32,
    /// `nf_conntrack_tuple.dst.protonum`
    pub tuple_proto: u32,
}

const _: () = assert!(size_of::<Offsets>() == 43 * 4);

/// What the programs that may not read kernel memory keep in place of a copy of `struct sk_buff`:
/// what the kernel shows of it to traffic-control programs (`struct __sk_buff`), and where they are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct DirectSkb {
    /// The packet's mark.
    pub mark: u32,
    /// The device it came in by; 0: it was made on this host.
    pub ingress_ifindex: u32,
    /// The device it is at.
    pub ifindex: u32,
    /// The inode number of that device's namespace, as user space said.
    pub netns: u32,
    /// Size of each segment that it is a bundle of, bytes; 0: it is none.
    pub gso_size: u32,
    /// How many segments, where that is known.
    pub gso_segs: u32,
    /// Its VLAN tag, if `vlan_proto` is not 0.
    pub vlan_tci: u16,
    /// The EtherType of that tag, network order.
    pub vlan_proto: u16,
}

const _: () = assert!(size_of::<DirectSkb>() == 28);

impl Offsets {
    /// Those of [`DirectSkb`], and nothing else: no kernel structure can be read.
    pub const DIRECT: Self = Self {
        skb_mark: core::mem::offset_of!(DirectSkb, mark) as u32,
        skb_iif: core::mem::offset_of!(DirectSkb, ingress_ifindex) as u32,
        skb_vlan_tci: core::mem::offset_of!(DirectSkb, vlan_tci) as u32,
        skb_vlan_proto: core::mem::offset_of!(DirectSkb, vlan_proto) as u32,
        ..Self::UNKNOWN
    };

    /// Whether everything that the programs take out of their copy of `struct sk_buff` lies in
    /// [`SKB_WINDOW`].
    #[must_use]
    pub fn fit_window(&self) -> bool {
        let fields = [
            self.skb_head,
            self.skb_data,
            self.skb_end,
            self.skb_len,
            self.skb_data_len,
            self.skb_network_header,
            self.skb_protocol,
            self.skb_mark,
            self.skb_nfct,
            self.skb_iif,
            self.skb_vlan_tci,
            self.skb_vlan_proto,
        ];
        let inside = |at: u32| at >= SKB_WINDOW.0 && at.saturating_add(8) <= SKB_WINDOW.1;
        fields.iter().all(|at| *at == ABSENT || inside(*at))
    }

    /// Every field absent: the starting point of filling in.
    pub const UNKNOWN: Self = Self {
        skb_head: ABSENT,
        skb_data: ABSENT,
        skb_end: ABSENT,
        skb_len: ABSENT,
        skb_data_len: ABSENT,
        skb_network_header: ABSENT,
        skb_protocol: ABSENT,
        skb_mark: ABSENT,
        skb_nfct: ABSENT,
        skb_dev: ABSENT,
        skb_sk: ABSENT,
        skb_iif: ABSENT,
        skb_vlan_tci: ABSENT,
        skb_vlan_proto: ABSENT,
        skb_dst: ABSENT,
        dst_dev: ABSENT,
        shinfo_gso_segs: ABSENT,
        shinfo_gso_size: ABSENT,
        dev_ifindex: ABSENT,
        dev_net: ABSENT,
        net_inum: ABSENT,
        sk_net: ABSENT,
        sk_family: ABSENT,
        sk_daddr: ABSENT,
        sk_saddr: ABSENT,
        sk_v6_daddr: ABSENT,
        sk_v6_saddr: ABSENT,
        sk_dport: ABSENT,
        sk_num: ABSENT,
        sk_cgroup: ABSENT,
        cgroup_kn: ABSENT,
        kn_id: ABSENT,
        ct_orig: ABSENT,
        ct_reply: ABSENT,
        ct_status: ABSENT,
        ct_mark: ABSENT,
        ct_zone: ABSENT,
        tuple_src: ABSENT,
        tuple_sport: ABSENT,
        tuple_l3num: ABSENT,
        tuple_dst: ABSENT,
        tuple_dport: ABSENT,
        tuple_proto: ABSENT,
    };
}
