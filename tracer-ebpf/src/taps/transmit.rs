//! Packets that go out by a device.
//!
//! Kernel prototype: `TRACE_EVENT(net_dev_start_xmit, TP_PROTO(const struct sk_buff *skb, const
//! struct net_device *dev))` (include/trace/events/net.h), called in `xmit_one` after tc egress
//! and software segmentation: what it shows is what the driver gets.

use crate::observe::observe;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use tracer_common::tap;

#[raw_tracepoint(tracepoint = "net_dev_start_xmit")]
fn srctrace_transmit(ctx: RawTracePointContext) -> i32 {
    observe::<{ tap::TRANSMIT }>(ctx.arg(0), ctx.arg(1), 0);
    0
}
