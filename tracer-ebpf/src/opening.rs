//! The first bytes of connections: traffic-control programs can read payload wherever it lies.

use crate::emit;
use crate::memory::{at_least_one, at_most};
use crate::state::{EVENTS, WORK, count};
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_skb_load_bytes_relative;
use tracer_common::{OPENING, RawOpening, counter, event_kind};
use tracer_ebpf::parse::forget;

/// `BPF_HDR_START_NET`.
const NETWORK: u32 = 1;

/// Tells the beginning of the payload of the packet that this tap has just looked at, if it is one of
/// the first of its side.
#[inline(always)]
pub(crate) fn tell(tap: u8, skb: *mut __sk_buff) {
    let Some(work) = WORK.get_ptr_mut(u32::from(tap)) else {
        return;
    };
    // SAFETY: the slot belongs to this CPU and this tap; `busy` keeps a nested run out.
    let work = unsafe { &mut *work };
    if work.opens == 0 || work.busy != 0 {
        return;
    }
    work.opens = 0;
    work.busy = 1;
    let event = &work.event;
    let told = &mut work.opening;
    told.kind = event_kind::OPENING;
    told.tap = tap;
    told.seq = event.print.seq;
    told.time_ns = event.time_ns;
    told.netns = event.netns;
    told.ifindex = event.ifindex;
    told.payload_len = event.print.payload_len;
    told.pad = 0;
    told.tuple = event.tuple;
    let len = forget(&event.print.payload_len);
    if len != 0
        && load(
            skb,
            work.cursors.outer.at() as u32,
            len,
            &mut told.bytes,
            &mut told.len,
        )
    {
        match EVENTS.output::<RawOpening>(told, emit::flags()) {
            Ok(()) => count(counter::TOLD),
            Err(_) => count(counter::LOST),
        }
    }
    work.busy = 0;
}

#[inline(always)]
fn load(skb: *mut __sk_buff, from: u32, len: u32, to: &mut [u8; OPENING], read: &mut u16) -> bool {
    let want = at_least_one(at_most::<OPENING>(len));
    *read = want as u16;
    // SAFETY: `want` is at most the array's size; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes_relative(
            skb as *const _,
            from,
            to.as_mut_ptr().cast(),
            want as u32,
            NETWORK,
        )
    };
    failed == 0
}
