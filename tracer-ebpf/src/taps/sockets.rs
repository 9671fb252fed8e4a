//! Who connects, and who uses what was accepted.
//!
//! Kernel prototype: `TRACE_EVENT(inet_sock_set_state, TP_PROTO(const struct sock *sk, const int
//! oldstate, const int newstate))` (include/trace/events/sock.h). `TCP_SYN_SENT` is entered in the
//! task that calls `connect`, before the first packet is made; `TCP_FIN_WAIT1` and `TCP_LAST_ACK` in
//! the one that closes. `DEFINE_EVENT(tcp_event_sk, tcp_rcv_space_adjust, TP_PROTO(struct sock *sk))`
//! (include/trace/events/tcp.h) in the one that has read.

use crate::sockets;
use crate::state::abi;
use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

#[raw_tracepoint(tracepoint = "inet_sock_set_state")]
fn srctrace_sockets(ctx: RawTracePointContext) -> i32 {
    let sk: u64 = ctx.arg(0);
    let old: u64 = ctx.arg(1);
    let new: u64 = ctx.arg(2);
    if abi() != 0 {
        sockets::changes(sk, old as i32, new as i32);
    }
    0
}

#[raw_tracepoint(tracepoint = "tcp_rcv_space_adjust")]
fn srctrace_reads(ctx: RawTracePointContext) -> i32 {
    sockets::used(ctx.arg(0));
    0
}
