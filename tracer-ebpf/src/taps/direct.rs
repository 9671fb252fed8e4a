//! The traffic-control programs for kernels that refuse reading their memory. They are reached
//! through doors, which say in which namespace a packet is; see [`crate::direct`].
//!
//! Kernel prototype: `BPF_PROG_TYPE_SCHED_CLS`, as in `tc.rs`; the context's address stays the
//! packet's identity. The verdict is always "next".

use crate::observe::observe_direct;
use aya_ebpf::{macros::classifier, programs::TcContext};
use tracer_common::tap;

const NEXT: i32 = -1;

#[classifier]
fn srctrace_ingress_direct(ctx: TcContext) -> i32 {
    observe_direct::<{ tap::TC_INGRESS }>(ctx.skb.skb);
    NEXT
}

#[classifier]
fn srctrace_egress_direct(ctx: TcContext) -> i32 {
    observe_direct::<{ tap::TC_EGRESS }>(ctx.skb.skb);
    NEXT
}
