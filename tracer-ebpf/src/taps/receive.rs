//! Packets that come in by a device.
//!
//! Kernel prototype: `TRACE_EVENT(netif_receive_skb, TP_PROTO(struct sk_buff *skb))`
//! (include/trace/events/net.h), called in `__netif_receive_skb_core` before tc ingress, before
//! the network header is set and before VLAN untagging.

use crate::observe::observe;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use tracer_common::tap;

#[raw_tracepoint(tracepoint = "netif_receive_skb")]
fn srctrace_receive(ctx: RawTracePointContext) -> i32 {
    observe::<{ tap::RECEIVE }>(ctx.arg(0), 0, 0);
    0
}
