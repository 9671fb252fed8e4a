//! What is read of a packet's buffer: the headers, and what `struct sk_buff` says beside them.

use crate::direct;
use crate::memory::{self, field};
use crate::state::{Work, offset};
use tracer_common::{ABSENT, present, tap};
use tracer_ebpf::parse::{HEAD, forget};

pub(crate) const ETH_P_IP: u16 = 0x0800;
pub(crate) const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
const VLAN_HEADER: u64 = 4;
const VLAN_ID: u16 = 0x0fff;
/// In [`Work::vlan`]: there is a tag.
const TAGGED: u32 = 1 << 16;
/// More tags than this are not followed.
const MAX_TAGS: u32 = 2;
/// How many bytes are read of every packet: addresses, and all headers of most.
const GLANCE: usize = 64;

/// A packet in its buffer, from the network header on. It lives in memory and is read anew at every
/// step, as the parser's cursor: the verifier, which follows each way to a packet (tags, tunnels) by
/// itself, sees the ways meet again.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    from: u64,
    /// Bytes that lie in one piece.
    linear: u32,
    /// All its bytes.
    len: u32,
}

impl Packet {
    /// One whose headers were all read.
    #[inline(always)]
    pub(crate) fn read(len: u32) -> Self {
        Self {
            from: 0,
            linear: 0,
            len,
        }
    }

    /// The half word at `at`, from network order.
    #[inline(always)]
    pub(crate) fn half(&self, at: u32) -> Option<u16> {
        if at + 2 > forget(&self.linear) {
            return None;
        }
        memory::at::<[u8; 2]>(forget(&self.from) + u64::from(at), 0).map(u16::from_be_bytes)
    }

    /// All its bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        forget(&self.len)
    }
}

/// Finds the network header and reads the first bytes from there on.
#[inline(always)]
pub(crate) fn glance(work: &mut Work) -> Option<()> {
    let data = field!(work.skb, offset!(skb_data), u64)?;
    let len = field!(work.skb, offset!(skb_len), u32)?;
    let paged = field!(work.skb, offset!(skb_data_len), u32)?;
    let linear = len.wrapping_sub(paged);
    work.vlan = 0;
    // At receive the network header is not set yet, and the data begins with it.
    let skip = if forget(&work.tap) == u32::from(tap::RECEIVE) {
        tags_before(work, data)?
    } else {
        network(work, data)?
    };
    if skip >= u64::from(linear) {
        return None;
    }
    work.packet = Packet {
        from: data + skip,
        linear: linear - skip as u32,
        len: len - skip as u32,
    };
    beginning::<GLANCE>(work)
}

/// Reads the first bytes of the packet.
#[inline(always)]
fn beginning<const MOST: usize>(work: &mut Work) -> Option<()> {
    let (from, linear) = (forget(&work.packet.from), forget(&work.packet.linear));
    work.valid = memory::head::<MOST>(work, from, linear)?;
    Some(())
}

/// Goes on to the packet that begins `at` bytes behind the network header; reads its first bytes.
#[inline(always)]
pub(crate) fn go_inside(work: &mut Work, at: u32) -> Option<()> {
    let packet = &mut work.packet;
    let (from, linear, len) = (forget(&packet.from), forget(&packet.linear), packet.len());
    if at >= linear {
        return None;
    }
    *packet = Packet {
        from: from + u64::from(at),
        linear: linear - at,
        len: len - at,
    };
    beginning::<GLANCE>(work)
}

/// Reads the rest of the headers, where there is more than the glance took.
#[inline(always)]
pub(crate) fn whole_head(work: &mut Work) -> Option<()> {
    if !direct::only() && forget(&work.packet.linear) > GLANCE as u32 {
        return beginning::<HEAD>(work);
    }
    Some(())
}

/// What the buffer says beside the packet.
#[inline(always)]
pub(crate) fn note(work: &mut Work) {
    if let Some(mark) = mark(work) {
        work.event.mark = mark;
        work.event.present |= present::MARK;
    }
    // A tunnel takes off what says so of the packet that it wraps (`skb_scrub_packet`).
    if made_here(work) && forget(&work.wrap) == 0 {
        work.event.present |= present::LOCAL;
    }
    if offset!(skb_nfct) != ABSENT {
        work.event.present |= present::CONNTRACK_KNOWN;
    }
    work.nfct = nfct(work);
    tag(work);
}

/// The packet's mark, if this kernel has it.
#[inline(always)]
pub(crate) fn mark(work: &Work) -> Option<u32> {
    field!(work.skb, offset!(skb_mark), u32)
}

/// `skb->_nfct`, zero where this kernel does not have it.
#[inline(always)]
pub(crate) fn nfct(work: &Work) -> u64 {
    field!(work.skb, offset!(skb_nfct), u64).unwrap_or(0)
}

/// Whether the packet came in by no device. Only its way out can tell: before a received packet's
/// device is noted, every packet looks so.
#[inline(always)]
pub(crate) fn made_here(work: &Work) -> bool {
    direct::leaves(forget(&work.tap) as u8) && field!(work.skb, offset!(skb_iif), u32) == Some(0)
}

/// The packet's VLAN: a tag that stood in the frame, or one that the device took out of it or will
/// put into it.
#[inline(always)]
fn tag(work: &mut Work) {
    let vlan = vlan(work);
    if vlan & TAGGED != 0 {
        work.event.vlan = vlan as u16 & VLAN_ID;
        work.event.present |= present::VLAN;
    }
}

/// The packet's VLAN with a bit that says that there is one, else zero.
#[inline(always)]
pub(crate) fn vlan(work: &Work) -> u32 {
    if field!(work.skb, offset!(skb_vlan_proto), u16).unwrap_or(0) != 0
        && let Some(tci) = field!(work.skb, offset!(skb_vlan_tci), u16)
    {
        return TAGGED | u32::from(tci & VLAN_ID);
    }
    forget(&work.vlan)
}

/// Bytes of VLAN tags between the data and the network header, at receive.
#[inline(always)]
fn tags_before(work: &mut Work, data: u64) -> Option<u64> {
    let mut proto = u16::from_be(field!(work.skb, offset!(skb_protocol), u16)?);
    let mut skip = 0;
    let mut tags = 0;
    while (proto == ETH_P_8021Q || proto == ETH_P_8021AD) && tags < MAX_TAGS {
        let tag: [u8; 4] = memory::at(data + skip, 0)?;
        work.vlan = TAGGED | u32::from(u16::from_be_bytes([tag[0], tag[1]]) & VLAN_ID);
        proto = u16::from_be_bytes([tag[2], tag[3]]);
        skip += VLAN_HEADER;
        tags += 1;
    }
    (proto == ETH_P_IP || proto == ETH_P_IPV6).then_some(skip)
}

/// Bytes between the data and the network header, where that is set.
#[inline(always)]
pub(crate) fn before_network(work: &Work) -> Option<u64> {
    network(work, field!(work.skb, offset!(skb_data), u64)?)
}

/// Bytes between the data (the link header) and the network header, elsewhere.
#[inline(always)]
fn network(work: &Work, data: u64) -> Option<u64> {
    let head = field!(work.skb, offset!(skb_head), u64)?;
    let offset = field!(work.skb, offset!(skb_network_header), u16)?;
    let skip = (head + u64::from(offset)).wrapping_sub(data);
    (skip < 0x1_0000).then_some(skip)
}

/// Segments that this buffer becomes, or was, on the wire. Receivers that merge (GRO, virtio) may
/// leave only the segments' size: `payload` bytes are in all of them.
#[inline(always)]
pub(crate) fn wire_packets(work: &Work, payload: u32) -> u16 {
    if direct::only() {
        return direct::wire_packets(work);
    }
    if payload == 0 {
        return 1;
    }
    let shared = || {
        let head = field!(work.skb, offset!(skb_head), u64)?;
        let end = field!(work.skb, offset!(skb_end), u32)?;
        memory::at::<Shared>(head + u64::from(end), 0)
    };
    let Some(shared) = shared() else { return 1 };
    let size = field!(shared.0, offset!(shinfo_gso_size), u16).unwrap_or(0);
    if size == 0 {
        return 1;
    }
    match field!(shared.0, offset!(shinfo_gso_segs), u16) {
        Some(n) if n > 1 => n,
        _ => (payload.div_ceil(u32::from(size)) as u16).max(1),
    }
}

/// The beginning of `struct skb_shared_info`, where it keeps its counts.
#[repr(align(8))]
struct Shared([u8; 16]);
