//! One packet at one tap: read it, decide whether it is ours, tell what is new about it.

use crate::memory::{self, field};
use crate::state::{SCOPE, WORK, Work, config, count, learned_any, offset};
use crate::{conntrack, direct, emit, filter, follow, glance, origin, policy};
use aya_ebpf::bindings::__sk_buff;
use tracer_common::{
    ABSENT, RawEvent, config_flags, counter, event_kind, matched, present, reason, tap,
};
use tracer_ebpf::parse::{self, Head, forget};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
const VLAN_HEADER: u64 = 4;
const VLAN_ID: u16 = 0x0fff;
/// In [`Work::vlan`]: there is a tag.
const TAGGED: u32 = 1 << 16;
/// More tags than this are not followed.
const MAX_TAGS: u32 = 2;

/// Looks at a packet. `skb`: address of its `struct sk_buff`; `dev`: of the device, or zero to
/// take the buffer's own.
#[inline(always)]
pub(crate) fn observe(tap: u8, skb: u64, dev: u64) {
    let Some(work) = enter(tap) else { return };
    let _ = read(work, tap, skb).and_then(|len| look(work, tap, skb, dev, len));
    work.busy = 0;
}

/// As [`observe`], without reading kernel memory: by what a traffic-control program is shown.
#[inline(always)]
pub(crate) fn observe_direct(tap: u8, skb: *mut __sk_buff) {
    let Some(work) = enter(tap) else { return };
    let _ = direct::read(work, skb).and_then(|len| look(work, tap, skb as u64, 0, len));
    work.busy = 0;
}

/// This tap's scratch space on this CPU, unless it is taken: a nested run gives up.
#[inline(always)]
fn enter(tap: u8) -> Option<&'static mut Work> {
    let work = WORK.get_ptr_mut(u32::from(tap))?;
    // SAFETY: the slot belongs to this CPU and this tap; `busy` keeps a nested run out.
    let work = unsafe { &mut *work };
    if work.busy != 0 {
        count(counter::NESTED);
        return None;
    }
    work.busy = 1;
    Some(work)
}

/// Reads the buffer and its packet; returns the packet's length from the network header on.
#[inline(always)]
fn read(work: &mut Work, tap: u8, skb: u64) -> Option<u32> {
    memory::skb(work, skb)?;
    read_headers(work, tap)
}

/// `len`: the packet's length from its network header on.
#[inline(always)]
fn look(work: &mut Work, tap: u8, skb: u64, dev: u64, len: u32) -> Option<()> {
    if !glance::may_be_ours(work) && !glance::may_be_followed(work, tap, skb) {
        return None; // the way of nearly every packet on a node: as short as can be
    }
    clear(&mut work.event);
    work.event.kind = event_kind::PACKET;
    work.event.tap = tap;
    work.event.skb = skb;
    parse_packet(work, len)?;
    match_filter(work);
    if forget(&work.event.matched) == 0 {
        follow_packet(work, tap, dev)?;
    }
    device(work, dev)?;
    follow::stamp(&mut work.event);
    buffer(work);
    count(counter::MATCHED);
    policy::judge(work);
    if forget(&work.event.reasons) != 0 {
        tell(work, tap);
    }
    None
}

/// Zeroes the event in words. Assigning an empty one would build it on the stack first, and what the
/// compiler makes of `write_bytes` is a loop over bytes, which costs a third of all that a packet
/// costs that is not ours.
#[inline(always)]
fn clear(event: &mut RawEvent) {
    let words = (&raw mut *event).cast::<u64>();
    let mut i = 0;
    while i < size_of::<RawEvent>() / size_of::<u64>() {
        // SAFETY: inside the event, which is as aligned as a word and for which any bytes are
        // valid; volatile, so that it does not become that loop again.
        unsafe { words.add(i).write_volatile(0) };
        i += 1;
    }
}

/// Fills in what only a told packet needs, and tells it.
#[inline(always)]
fn tell(work: &mut Work, tap: u8) {
    conntrack::read(work);
    // Only there: tc programs of older kernels may not ask for the running task.
    if tap == tap::TRANSMIT && work.event.present & present::LOCAL != 0 {
        origin::read(work);
    }
    hash_payload(work);
    if forget(&work.event.reasons) & (reason::FIRST | reason::CONNTRACK | reason::FLAGS) != 0 {
        follow::learn(work);
    }
    follow::note(&work.event);
    emit::emit(work);
}

#[inline(never)]
fn hash_payload(work: &mut Work) {
    let head = Head {
        bytes: &work.head,
        valid: work.valid as usize,
    };
    let payload = work.cursors.outer.at();
    if let Some(hash) = parse::payload_hash(&head, payload, work.event.print.payload_len) {
        work.event.print.payload_hash = hash;
        work.event.present |= present::PAYLOAD_HASH;
    }
}

/// Notes in `work.event.matched` whether the filter alone takes this packet.
#[inline(never)]
fn match_filter(work: &mut Work) {
    let event = &mut work.event;
    let portless = event.present & present::LATER_FRAGMENT != 0;
    event.matched = if filter::forward(&event.tuple, portless) {
        matched::FORWARD
    } else if filter::reverse(&event.tuple, portless) {
        matched::REVERSE
    } else if event.present & present::QUOTED != 0
        && (filter::forward(&event.quoted, false) || filter::reverse(&event.quoted, false))
    {
        matched::QUOTED
    } else {
        0
    };
}

/// Notes in `work.event.matched` whether it is part of a flow that was ours before; `None` when it
/// is not. This is the way of every packet that nobody asked about: it ends as early as it can.
#[inline(always)]
fn follow_packet(work: &mut Work, tap: u8, dev: u64) -> Option<()> {
    if direct::leaves(tap) && field!(work.skb, offset!(skb_iif), u32) == Some(0) {
        work.event.present |= present::LOCAL;
    }
    work.nfct = field!(work.skb, offset!(skb_nfct), u64).unwrap_or(0);
    if learned_any() {
        device(work, dev)?;
    }
    match_followed(work);
    (forget(&work.event.matched) != 0).then_some(())
}

#[inline(never)]
fn match_followed(work: &mut Work) {
    let quotes = work.event.present & present::QUOTED != 0;
    let netns = work.event.netns;
    work.event.matched = if learned_any() && follow::learned(&work.event.tuple, netns) {
        matched::LEARNED
    } else if quotes && learned_any() && follow::learned(&work.event.quoted, netns) {
        matched::QUOTED
    } else if follow::noted(&mut work.event) {
        matched::SKB
    } else if sent_to_ours(work) {
        matched::CONNTRACK
    } else {
        0
    };
}

/// A packet that came in by a device was seen there before any translation. One made here is first
/// seen after the output hook: only its conntrack entry still knows where it was sent to.
#[inline(always)]
fn sent_to_ours(work: &mut Work) -> bool {
    work.event.present & present::LOCAL != 0
        && conntrack::is_translated(work.nfct)
        && conntrack::read(work)
        && filter::forward(&work.event.conntrack.orig, false)
}

/// Device and namespace, once; `None` outside the scope.
#[inline(always)]
fn device(work: &mut Work, dev: u64) -> Option<()> {
    if forget(&work.event.ifindex) != 0 {
        return Some(());
    }
    if direct::only() {
        direct::device(work);
    } else {
        read_device(work, dev)?;
    }
    if config!(flags) & config_flags::SCOPE != 0 && SCOPE.get_ptr(work.event.netns).is_none() {
        return None;
    }
    Some(())
}

/// Device and namespace, from the kernel's memory.
#[inline(always)]
fn read_device(work: &mut Work, dev: u64) -> Option<()> {
    let dev = if dev == 0 {
        memory::at(work.event.skb, offset!(skb_dev))?
    } else {
        dev
    };
    work.event.ifindex = memory::at(dev, offset!(dev_ifindex))?;
    let net = memory::at::<u64>(dev, offset!(dev_net)).unwrap_or(0);
    if let Some(inum) = memory::at::<u32>(net, offset!(net_inum)) {
        work.event.netns = inum;
        work.event.present |= present::NETNS;
    }
    Some(())
}

/// Finds the network header and reads what follows; returns the packet's length from there on.
#[inline(always)]
fn read_headers(work: &mut Work, tap: u8) -> Option<u32> {
    let data = field!(work.skb, offset!(skb_data), u64)?;
    let len = field!(work.skb, offset!(skb_len), u32)?;
    let paged = field!(work.skb, offset!(skb_data_len), u32)?;
    let linear = len.wrapping_sub(paged);
    work.vlan = 0;
    // At receive the network header is not set yet, and the data begins with it.
    let skip = if tap == tap::RECEIVE {
        tags_before(work, data)?
    } else {
        network(work, data)?
    };
    if skip >= u64::from(linear) {
        return None;
    }
    work.valid = memory::head(work, data + skip, linear - skip as u32)? as u64;
    Some(len - skip as u32)
}

/// Parses what was read.
#[inline(always)]
fn parse_packet(work: &mut Work, len: u32) -> Option<()> {
    tag(work);
    let head = Head {
        bytes: &work.head,
        valid: forget(&work.valid) as usize,
    };
    parse::parse(&head, len, &mut work.event, &mut work.cursors)
}

/// What the buffer of a packet of ours says beside the packet.
#[inline(always)]
fn buffer(work: &mut Work) {
    if let Some(mark) = field!(work.skb, offset!(skb_mark), u32) {
        work.event.mark = mark;
        work.event.present |= present::MARK;
    }
    if direct::leaves(forget(&work.event.tap)) && field!(work.skb, offset!(skb_iif), u32) == Some(0)
    {
        work.event.present |= present::LOCAL;
    }
    work.event.print.wire_packets = wire_packets(work);
    work.nfct = field!(work.skb, offset!(skb_nfct), u64).unwrap_or(0);
    if offset!(skb_nfct) != ABSENT {
        work.event.present |= present::CONNTRACK_KNOWN;
    }
    work.sk = memory::at(work.event.skb, offset!(skb_sk)).unwrap_or(0);
}

/// The packet's VLAN: a tag that stood in the frame, or one that the device took out of it or will
/// put into it.
#[inline(always)]
fn tag(work: &mut Work) {
    let mut vlan = forget(&work.vlan);
    if field!(work.skb, offset!(skb_vlan_proto), u16).unwrap_or(0) != 0
        && let Some(tci) = field!(work.skb, offset!(skb_vlan_tci), u16)
    {
        vlan = TAGGED | u32::from(tci & VLAN_ID);
    }
    if vlan & TAGGED != 0 {
        work.event.vlan = vlan as u16 & VLAN_ID;
        work.event.present |= present::VLAN;
    }
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

/// Bytes between the data (the link header) and the network header, elsewhere.
#[inline(always)]
fn network(work: &Work, data: u64) -> Option<u64> {
    let head = field!(work.skb, offset!(skb_head), u64)?;
    let offset = field!(work.skb, offset!(skb_network_header), u16)?;
    let skip = (head + u64::from(offset)).wrapping_sub(data);
    (skip < 0x1_0000).then_some(skip)
}

/// Segments that this buffer becomes, or was, on the wire. Receivers that merge (GRO, virtio) may
/// leave only the segments' size.
#[inline(always)]
fn wire_packets(work: &Work) -> u16 {
    if direct::only() {
        return direct::wire_packets(work);
    }
    let shared = || {
        let head = field!(work.skb, offset!(skb_head), u64)?;
        let end = field!(work.skb, offset!(skb_end), u32)?;
        Some(head + u64::from(end))
    };
    let Some(shared) = shared() else { return 1 };
    let size = memory::at::<u16>(shared, offset!(shinfo_gso_size)).unwrap_or(0);
    if size == 0 {
        return 1;
    }
    match memory::at::<u16>(shared, offset!(shinfo_gso_segs)) {
        Some(n) if n > 1 => n,
        _ => (work.event.print.payload_len.div_ceil(u32::from(size)) as u16).max(1),
    }
}
