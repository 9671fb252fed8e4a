//! One packet at one tap: read it, decide whether it is ours, tell what is new about it.

use crate::memory::{self, field};
use crate::state::{SCOPE, WORK, Work, config, count, offset};
use crate::{conntrack, emit, filter, follow, origin, policy};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use tracer_common::{
    RawEvent, config_flags, counter, event_kind, family, matched, present, reason, tap,
};
use tracer_ebpf::parse::{self, Head};

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
const VLAN_HEADER: u64 = 4;
const VLAN_ID: u16 = 0x0fff;
/// More tags than this are not followed.
const MAX_TAGS: u32 = 2;

/// What was read of the buffer beside the packet.
struct Buffer {
    nfct: Option<u64>,
    sk: u64,
    /// First payload byte, from the network header.
    payload: usize,
    /// Bytes of the packet that were read.
    valid: usize,
}

/// Looks at a packet. `skb`: address of its `struct sk_buff`; `dev`: of the device, or zero to
/// take the buffer's own.
#[inline(always)]
pub(crate) fn observe(tap: u8, skb: u64, dev: u64) {
    let Some(work) = WORK.get_ptr_mut(u32::from(tap)) else {
        return;
    };
    // SAFETY: the slot belongs to this CPU and this tap; `busy` keeps a nested run out.
    let work = unsafe { &mut *work };
    if work.busy != 0 {
        count(counter::NESTED);
        return;
    }
    work.busy = 1;
    let _ = look(work, tap, skb, dev);
    work.busy = 0;
}

#[inline(always)]
fn look(work: &mut Work, tap: u8, skb: u64, dev: u64) -> Option<()> {
    memory::skb(work, skb)?;
    work.event = RawEvent {
        kind: event_kind::PACKET,
        tap,
        skb,
        ..RawEvent::default()
    };
    let buffer = read_packet(work, tap)?;
    let by_filter = match_filter(&work.event);
    device(work, dev)?;
    // SAFETY: the helper takes no arguments.
    work.event.time_ns = unsafe { bpf_ktime_get_ns() };
    work.event.matched = match by_filter {
        Some(how) => how,
        None => match_followed(work, &buffer)?,
    };
    count(counter::MATCHED);
    let reasons = policy::reasons(&mut work.event, buffer.nfct.unwrap_or(0));
    if reasons == 0 {
        return None;
    }
    work.event.reasons = reasons;
    tell(work, &buffer);
    None
}

/// Fills in what only a told packet needs, and tells it.
#[inline(never)]
fn tell(work: &mut Work, buffer: &Buffer) {
    if let Some(nfct) = buffer.nfct {
        work.event.present |= present::CONNTRACK_KNOWN;
        conntrack::read(work, nfct);
    }
    if work.event.present & present::LOCAL != 0 {
        origin::read(work, buffer.sk);
    }
    let head = Head {
        bytes: &work.head,
        valid: buffer.valid,
    };
    if let Some(hash) = parse::payload_hash(&head, buffer.payload, work.event.print.payload_len) {
        work.event.print.payload_hash = hash;
        work.event.present |= present::PAYLOAD_HASH;
    }
    if work.event.reasons & (reason::FIRST | reason::CONNTRACK | reason::FLAGS) != 0 {
        follow::learn(work);
    }
    follow::note(&work.event);
    emit::emit(work);
}

/// Does the filter alone take this packet?
#[inline(always)]
fn match_filter(event: &RawEvent) -> Option<u8> {
    let portless = event.present & present::LATER_FRAGMENT != 0;
    if filter::forward(&event.tuple, portless) {
        return Some(matched::FORWARD);
    }
    if filter::reverse(&event.tuple, portless) {
        return Some(matched::REVERSE);
    }
    let quotes = event.present & present::QUOTED != 0;
    (quotes && (filter::forward(&event.quoted, false) || filter::reverse(&event.quoted, false)))
        .then_some(matched::QUOTED)
}

/// Is it part of a flow that was ours before?
#[inline(always)]
fn match_followed(work: &mut Work, buffer: &Buffer) -> Option<u8> {
    if follow::learned(&work.event.tuple, work.event.netns) {
        return Some(matched::LEARNED);
    }
    if work.event.present & present::QUOTED != 0
        && follow::learned(&work.event.quoted, work.event.netns)
    {
        return Some(matched::QUOTED);
    }
    if follow::noted(&work.event) {
        return Some(matched::SKB);
    }
    // A packet that came in by a device was seen there before any translation. One made here is
    // first seen after the output hook: only its entry still knows where it was sent to.
    if work.event.present & present::LOCAL != 0 && work.event.tap == tap::TRANSMIT {
        if conntrack::read(work, buffer.nfct?) && filter::forward(&work.event.conntrack.orig, false)
        {
            return Some(matched::CONNTRACK);
        }
    }
    None
}

/// Device and namespace; `None` outside the scope.
#[inline(always)]
fn device(work: &mut Work, dev: u64) -> Option<()> {
    let dev = if dev == 0 {
        field!(work.skb, offset!(skb_dev), u64)?
    } else {
        dev
    };
    work.event.ifindex = memory::at(dev, offset!(dev_ifindex))?;
    let net = memory::at::<u64>(dev, offset!(dev_net)).unwrap_or(0);
    if let Some(inum) = memory::at::<u32>(net, offset!(net_inum)) {
        work.event.netns = inum;
        work.event.present |= present::NETNS;
    }
    if config!(flags) & config_flags::SCOPE != 0 && SCOPE.get_ptr(work.event.netns).is_none() {
        return None;
    }
    Some(())
}

/// Finds the network header, reads what follows and parses it.
#[inline(always)]
fn read_packet(work: &mut Work, tap: u8) -> Option<Buffer> {
    let data = field!(work.skb, offset!(skb_data), u64)?;
    let len = field!(work.skb, offset!(skb_len), u32)?;
    let paged = field!(work.skb, offset!(skb_data_len), u32)?;
    let linear = len.wrapping_sub(paged);
    tag(work);
    // At receive the network header is not set yet, and the data begins with it.
    let skip = if tap == tap::RECEIVE {
        tags_before(work, data)?
    } else {
        network(work, data)?
    };
    if skip >= u64::from(linear) {
        return None;
    }
    let valid = memory::head(work, data + skip, linear - skip as u32)?;
    let head = Head {
        bytes: &work.head,
        valid,
    };
    let payload = parse::parse(&head, len - skip as u32, &mut work.event)?;
    if work.event.tuple.family == family::NONE {
        return None;
    }
    if let Some(mark) = field!(work.skb, offset!(skb_mark), u32) {
        work.event.mark = mark;
        work.event.present |= present::MARK;
    }
    if field!(work.skb, offset!(skb_iif), u32) == Some(0) && tap == tap::TRANSMIT {
        work.event.present |= present::LOCAL;
    }
    work.event.print.wire_packets = wire_packets(work);
    Some(Buffer {
        nfct: field!(work.skb, offset!(skb_nfct), u64),
        sk: field!(work.skb, offset!(skb_sk), u64).unwrap_or(0),
        payload,
        valid,
    })
}

/// A tag that the device took out of the frame, or will put into it.
#[inline(always)]
fn tag(work: &mut Work) {
    if field!(work.skb, offset!(skb_vlan_proto), u16).unwrap_or(0) != 0
        && let Some(tci) = field!(work.skb, offset!(skb_vlan_tci), u16)
    {
        work.event.vlan = tci & VLAN_ID;
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
        work.event.vlan = u16::from_be_bytes([tag[0], tag[1]]) & VLAN_ID;
        work.event.present |= present::VLAN;
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

/// Segments that this buffer becomes on the wire.
#[inline(always)]
fn wire_packets(work: &Work) -> u16 {
    let segments = || {
        let head = field!(work.skb, offset!(skb_head), u64)?;
        let end = field!(work.skb, offset!(skb_end), u32)?;
        memory::at::<u16>(head + u64::from(end), offset!(shinfo_gso_segs))
    };
    match segments() {
        Some(n) if n > 1 => n,
        _ => 1,
    }
}
