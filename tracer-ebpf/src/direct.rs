//! The other reader: what a traffic-control program is shown of a packet without reading kernel
//! memory, for kernels that refuse that (confidentiality lockdown). No conntrack entry, socket or
//! namespace can be read here.
//!
//! Kernel: `struct __sk_buff` of linux/bpf.h, which the verifier turns into reads of the buffer.

use crate::buffer::Packet;
use crate::memory::{at_least_one, at_most, field};
use crate::state::{HERE, Work, config};
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::{bpf_skb_load_bytes, bpf_skb_load_bytes_relative};
use core::mem::offset_of;
use tracer_common::{DirectSkb, config_flags, present, tap};
use tracer_ebpf::parse::HEAD;

/// `BPF_HDR_START_NET`.
const NETWORK: u32 = 1;
/// Where the network header may be: behind Ethernet's, behind that with a VLAN tag in it, or first.
const PLACES: [u32; 3] = [14, 18, 0];
/// `ETH_P_8021Q` in network order.
const VLAN: u16 = 0x8100u16.to_be();
/// How much of a packet is compared to find its network header.
type Beginning = [u64; 2];

/// Reads one field of `struct __sk_buff`. Volatile, so that each is read by itself: two together are
/// more than the verifier allows.
macro_rules! shown {
    ($skb:expr, $field:ident) => {
        // SAFETY: the program's context is readable while it runs.
        unsafe { core::ptr::read_volatile(&raw const (*$skb).$field) }
    };
}
pub(crate) use shown;

/// Whether the programs may read no kernel memory. Known to the verifier: what then cannot be
/// reached, it does not look at.
#[inline(always)]
pub(crate) fn only() -> bool {
    config!(flags) & config_flags::DIRECT != 0
}

/// Whether this tap is the last to see packets that go out.
#[inline(always)]
pub(crate) fn leaves(at: u8) -> bool {
    at == tap::TRANSMIT || (only() && at == tap::TC_EGRESS)
}

/// Reads the buffer and its packet into `work`.
#[inline(always)]
pub(crate) fn read(work: &mut Work, skb: *mut __sk_buff) -> Option<()> {
    describe(work, skb)?;
    let skip = network(skb)?;
    let len = shown!(skb, len).checked_sub(skip).filter(|len| *len > 0)?;
    let want = at_least_one(at_most::<HEAD>(len));
    // SAFETY: `want` is at most the array's size; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes(
            skb as *const _,
            skip,
            work.head.0.as_mut_ptr().cast(),
            want as u32,
        )
    };
    work.valid = want;
    work.vlan = 0;
    work.packet = Packet::read(len);
    (failed == 0).then_some(())
}

/// Writes what is shown of the buffer to where `struct sk_buff` would be.
#[inline(always)]
fn describe(work: &mut Work, skb: *mut __sk_buff) -> Option<()> {
    let is_tagged = shown!(skb, vlan_present) != 0;
    let shown = DirectSkb {
        mark: shown!(skb, mark),
        ingress_ifindex: shown!(skb, ingress_ifindex),
        ifindex: shown!(skb, ifindex),
        // SAFETY: the map's value stays readable during the program run.
        netns: unsafe { *HERE.get_ptr(0)? },
        gso_size: shown!(skb, gso_size),
        gso_segs: shown!(skb, gso_segs),
        vlan_tci: shown!(skb, vlan_tci) as u16,
        vlan_proto: if is_tagged { VLAN } else { 0 },
    };
    // SAFETY: the array is larger, and any bytes are valid for it.
    unsafe {
        work.skb
            .as_mut_ptr()
            .cast::<DirectSkb>()
            .write_unaligned(shown)
    };
    Some(())
}

/// Bytes before the network header: where the packet reads as it does from that on.
#[inline(always)]
fn network(skb: *mut __sk_buff) -> Option<u32> {
    let size = size_of::<Beginning>() as u32;
    let mut first = Beginning::default();
    // SAFETY: as long as the array; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes_relative(skb as *const _, 0, first.as_mut_ptr().cast(), size, NETWORK)
    };
    if failed != 0 {
        return None;
    }
    PLACES.into_iter().find(|place| {
        let mut there = Beginning::default();
        // SAFETY: likewise.
        let failed =
            unsafe { bpf_skb_load_bytes(skb as *const _, *place, there.as_mut_ptr().cast(), size) };
        failed == 0 && there == first
    })
}

/// Fills in device and namespace.
#[inline(always)]
pub(crate) fn device(work: &mut Work) {
    let word = |at| field!(work.skb, at, u32).unwrap_or(0);
    let (ifindex, netns) = (
        word(offset_of!(DirectSkb, ifindex)),
        word(offset_of!(DirectSkb, netns)),
    );
    work.event.ifindex = ifindex;
    work.event.netns = netns;
    work.event.present |= present::NETNS;
}

/// Segments that the buffer becomes, or was, on the wire.
#[inline(always)]
pub(crate) fn wire_packets(work: &Work) -> u16 {
    let word = |at| field!(work.skb, at, u32).unwrap_or(0);
    let size = word(offset_of!(DirectSkb, gso_size));
    let segments = word(offset_of!(DirectSkb, gso_segs));
    if size == 0 {
        1
    } else if segments > 1 {
        segments as u16
    } else {
        (work.event.print.payload_len.div_ceil(size) as u16).max(1)
    }
}
