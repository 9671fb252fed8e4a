//! NAT targets, which run once per new flow: which rule did it.
//!
//! Kernel prototype: an x_tables target is `unsigned int f(struct sk_buff *skb, const struct
//! xt_action_param *par)` (include/linux/netfilter/x_tables.h), called by x_tables or by nftables'
//! compatibility expression; an nftables expression is `void f(const struct nft_expr *expr, struct
//! nft_regs *regs, const struct nft_pktinfo *pkt)` (include/net/netfilter/nf_tables.h).

use crate::rules;
use aya_ebpf::{macros::kprobe, programs::ProbeContext};

#[kprobe]
fn srctrace_xt_target(ctx: ProbeContext) -> u32 {
    if let (Some(skb), Some(par)) = (ctx.arg(0), ctx.arg(1)) {
        rules::xt_target(&ctx, skb, par);
    }
    0
}

#[kprobe]
fn srctrace_nft_expr(ctx: ProbeContext) -> u32 {
    if let (Some(expr), Some(pkt)) = (ctx.arg(0), ctx.arg(2)) {
        rules::nft_expr(&ctx, expr, pkt);
    }
    0
}

/// Not attached: follows the others, here and in `passing`.
#[kprobe]
fn srctrace_rule_search(ctx: ProbeContext) -> u32 {
    rules::search(&ctx);
    0
}
