//! The first bytes of connections: traffic-control programs can read payload wherever it lies.

use crate::memory::{at_least_one, at_most};
use crate::state::{EVENTS, WORK, Work, count};
use crate::{buffer, emit};
use aya_ebpf::bindings::__sk_buff;
use aya_ebpf::helpers::generated::bpf_skb_load_bytes;
use tracer_common::{OPENING, RawOpening, counter, event_kind};
use tracer_ebpf::parse::forget;

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
    if load(work, skb).is_some() {
        match EVENTS.output::<RawOpening>(&work.opening, emit::flags()) {
            Ok(()) => count(counter::TOLD),
            Err(_) => count(counter::LOST),
        }
    }
    work.busy = 0;
}

/// Reads the bytes. The helper looks into page fragments, which the one relative to a header does not.
#[inline(always)]
fn load(work: &mut Work, skb: *mut __sk_buff) -> Option<()> {
    let from = buffer::before_network(work)? as u32 + work.cursors.outer.at() as u32;
    let len = forget(&work.event.print.payload_len);
    let want = at_least_one(at_most::<OPENING>(len));
    work.opening.len = want as u16;
    // SAFETY: `want` is at most the array's size; the helper checks the packet's bounds.
    let failed = unsafe {
        bpf_skb_load_bytes(
            skb as *const _,
            from,
            work.opening.bytes.as_mut_ptr().cast(),
            want as u32,
        )
    };
    (len != 0 && failed == 0).then_some(())
}
