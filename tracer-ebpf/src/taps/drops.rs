//! Packets that the kernel throws away.
//!
//! Kernel prototype: `TRACE_EVENT(kfree_skb, TP_PROTO(struct sk_buff *skb, void *location, enum
//! skb_drop_reason reason))` (include/trace/events/skb.h), without the reason before 5.17 and with
//! a socket behind it since 6.11. A program that reads an argument which the tracepoint does not
//! have cannot be attached: hence two, of which one is loaded.

use crate::drops::look_at;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use tracer_common::NO_REASON;

#[raw_tracepoint(tracepoint = "kfree_skb")]
fn srctrace_drops(ctx: RawTracePointContext) -> i32 {
    look_at(ctx.arg(0), ctx.arg(1), ctx.arg::<u64>(2) as u32);
    0
}

#[raw_tracepoint(tracepoint = "kfree_skb")]
fn srctrace_drops_plain(ctx: RawTracePointContext) -> i32 {
    look_at(ctx.arg(0), ctx.arg(1), NO_REASON);
    0
}
