//! What every packet passes, probed on request: verdicts of nftables' rules, and marks.
//!
//! Kernel prototype: as in `rules`. `nft_immediate_eval` and `nft_meta_set_eval`
//! (net/netfilter/nft_immediate.c, nft_meta.c) are expressions, `mark_tg` (xt_mark.c) is a target.

use crate::rules::passing;
use aya_ebpf::{macros::kprobe, programs::ProbeContext};

#[kprobe]
fn srctrace_xt_passed(ctx: ProbeContext) -> u32 {
    if let (Some(skb), Some(par)) = (ctx.arg(0), ctx.arg(1)) {
        passing::xt_target(&ctx, skb, par);
    }
    0
}

#[kprobe]
fn srctrace_nft_verdict(ctx: ProbeContext) -> u32 {
    if let (Some(expr), Some(pkt)) = (ctx.arg(0), ctx.arg(2)) {
        passing::nft_verdict(&ctx, expr, pkt);
    }
    0
}

#[kprobe]
fn srctrace_nft_meta(ctx: ProbeContext) -> u32 {
    if let (Some(expr), Some(pkt)) = (ctx.arg(0), ctx.arg(2)) {
        passing::nft_meta(&ctx, expr, pkt);
    }
    0
}
