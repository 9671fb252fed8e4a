//! Who connects.
//!
//! Kernel prototype: `TRACE_EVENT(inet_sock_set_state, TP_PROTO(const struct sock *sk, const int
//! oldstate, const int newstate))` (include/trace/events/sock.h). `TCP_SYN_SENT` is entered in the
//! task that calls `connect`, before the first packet is made.

use crate::origin;
use crate::state::{CONNECTORS, abi};
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

const TCP_SYN_SENT: i32 = 2;

#[raw_tracepoint(tracepoint = "inet_sock_set_state")]
fn srctrace_sockets(ctx: RawTracePointContext) -> i32 {
    let sk: u64 = ctx.arg(0);
    let new_state: u64 = ctx.arg(2);
    if new_state as i32 == TCP_SYN_SENT && abi() != 0 {
        let _ = CONNECTORS.insert(sk, origin::current(), 0);
    }
    0
}
