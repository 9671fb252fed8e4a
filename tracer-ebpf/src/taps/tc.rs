//! Our traffic-control programs, first in order: what a packet looked like before others' programs
//! on the same device.
//!
//! Kernel prototype: `BPF_PROG_TYPE_SCHED_CLS`; the context is the `struct sk_buff` itself
//! (`__sk_buff` is a view on it), so its address is the packet's identity. The verdict is always
//! "next" (`TC_ACT_UNSPEC`, which tcx calls `TCX_NEXT`).

use crate::observe::observe_shown;
use crate::opening;
use aya_ebpf::{macros::classifier, programs::TcContext};
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
    if observe_shown::<TAP>(ctx.skb.skb) {
        opening::tell(TAP, ctx.skb.skb);
    }
}
