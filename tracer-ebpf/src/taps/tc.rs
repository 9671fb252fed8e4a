//! Our traffic-control programs, first in order: what a packet looked like before others' programs
//! on the same device.
//!
//! Kernel prototype: `BPF_PROG_TYPE_SCHED_CLS`; the context is the `struct sk_buff` itself
//! (`__sk_buff` is a view on it), so its address is the packet's identity. The verdict is always
//! "next" (`TC_ACT_UNSPEC`, which tcx calls `TCX_NEXT`).

use crate::observe::observe;
use crate::opening;
use aya_ebpf::{EbpfContext, macros::classifier, programs::TcContext};
use tracer_common::tap;

const NEXT: i32 = -1;

#[classifier]
fn srctrace_ingress(ctx: TcContext) -> i32 {
    look::<{ tap::TC_INGRESS }>(&ctx);
    NEXT
}

#[classifier]
fn srctrace_egress(ctx: TcContext) -> i32 {
    look::<{ tap::TC_EGRESS }>(&ctx);
    NEXT
}

#[inline(always)]
fn look<const TAP: u8>(ctx: &TcContext) {
    // SAFETY: the kernel's context of a running program.
    let ifindex = unsafe { (*ctx.skb.skb).ifindex };
    observe::<TAP>(ctx.as_ptr() as u64, 0, ifindex);
    opening::tell(TAP, ctx.skb.skb);
}
