//! Rules that every packet passes: verdicts and marks. Most of these runs are of packets that are
//! nobody's business, so what tells a followed flow's first packet is asked first and cheapest, and
//! each run is counted: user space takes the probes away where there are too many.

use super::chain::text;
use super::{Ran, expression, rule_offset, run};
use crate::conntrack;
use crate::memory;
use crate::state::{count, offset};
use aya_ebpf::programs::ProbeContext;
use tracer_common::{ABSENT, RawRuleHit, counter};

/// `NF_DROP`.
const DROP: i32 = 0;
/// `NFT_REG_VERDICT`: the register that an immediate verdict is put into.
const VERDICT: u8 = 0;
/// `NFT_META_MARK` (uapi linux/netfilter/nf_tables.h).
const MARK: u8 = 3;

/// An x_tables target that packets of established flows are handed to as well.
#[inline(always)]
pub(crate) fn xt_target(ctx: &ProbeContext, skb: u64, par: u64) {
    count(counter::PASSED);
    if is_first(skb) {
        super::xt_target(ctx, skb, par);
    }
}

/// `nft_immediate`: a verdict, or a value for a register, which is nothing to us.
#[inline(always)]
pub(crate) fn nft_verdict(ctx: &ProbeContext, expr: u64, pkt: u64) {
    count(counter::PASSED);
    let data = expr.wrapping_add(u64::from(rule_offset!(expr_data)));
    if memory::at::<u8>(data, rule_offset!(imm_dreg)) != Some(VERDICT) {
        return;
    }
    let mut ran = expression(expr, pkt);
    let Some(code) = memory::at(data, rule_offset!(imm_code)) else {
        return;
    };
    // What is dropped is told of later packets too: an answer that dies is a flow's end.
    if code == DROP || is_first(ran.skb) {
        let chain = memory::at(data, rule_offset!(imm_chain)).unwrap_or(0);
        ran.verdict = Some((code, chain));
        run(ctx, &ran);
    }
}

/// `meta … set`: told where it sets the mark. `struct nft_meta` begins with its key, of eight bits.
#[inline(always)]
pub(crate) fn nft_meta(ctx: &ProbeContext, expr: u64, pkt: u64) {
    count(counter::PASSED);
    if memory::at::<u8>(expr, rule_offset!(expr_data)) != Some(MARK) {
        return;
    }
    let ran = expression(expr, pkt);
    if is_first(ran.skb) {
        run(ctx, &ran);
    }
}

/// Whether a packet is the first of its flow here: its conntrack entry is not yet confirmed.
#[inline(always)]
fn is_first(skb: u64) -> bool {
    memory::at(skb, offset!(skb_nfct)).is_some_and(conntrack::is_unconfirmed)
}

/// `NFT_JUMP` and `NFT_GOTO`: only these verdicts have a chain.
const LEADS: core::ops::RangeInclusive<i32> = -4..=-3;

/// Writes the verdict to the record.
#[inline(always)]
pub(super) fn say(hit: &mut RawRuleHit, ran: &Ran) {
    let Some((code, chain)) = ran.verdict else {
        return;
    };
    (hit.said, hit.verdict) = (1, code);
    if LEADS.contains(&code) && rule_offset!(chain_name) != ABSENT {
        let name = memory::at(chain, rule_offset!(chain_name)).unwrap_or(0);
        text(&mut hit.to, name);
    }
}
