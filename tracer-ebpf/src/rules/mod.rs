//! Which rule a NAT target belongs to: for packets of our flows the rule stores of the packet's
//! namespace are searched for the place in memory that the target was called with.
//!
//! Nothing here runs for a packet that no NAT target is called for, so neither established flows
//! nor packets that match no NAT rule pay for it. The search is bounded; what it
//! does not find is told as "found nowhere", never guessed.

mod chain;
mod walk;

use crate::memory;
use crate::state::{SCOPE, Work, config, count, learned_any, offset};
use crate::{conntrack, emit, filter, follow};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{PerCpuArray, ProgramArray};
use aya_ebpf::programs::ProbeContext;
use tracer_common::{
    RawRuleHit, RuleOffsets, config_flags, counter, event_kind, rule_store, rule_target,
};
use tracer_ebpf::parse::forget;
use walk::Walk;

/// Filled in by user space, frozen: the verifier sees constants.
#[unsafe(no_mangle)]
static RULE_OFFSETS: RuleOffsets = RuleOffsets::UNKNOWN;

/// Reads one field of [`RULE_OFFSETS`]. Volatile, so that the compiler does not use what it sees.
macro_rules! rule_offset {
    ($field:ident) => {
        // SAFETY: a static is always readable.
        unsafe { core::ptr::read_volatile(&raw const $crate::rules::rule_offsets().$field) }
    };
}
use rule_offset;

#[inline(always)]
fn rule_offsets() -> &'static RuleOffsets {
    &RULE_OFFSETS
}

/// Working space of one search.
#[repr(C)]
struct RuleWork {
    base: Work,
    walk: Walk,
    hit: RawRuleHit,
    busy: u64,
}

#[map]
static RULE_WORK: PerCpuArray<RuleWork> = PerCpuArray::with_max_entries(1, 0);

/// An x_tables target is called.
#[inline(always)]
pub(crate) fn xt_target(ctx: &ProbeContext, skb: u64, par: u64) {
    let state = memory::at(par, rule_offset!(par_state)).unwrap_or(0);
    let info = memory::at(par, rule_offset!(par_targinfo)).unwrap_or(0);
    run(ctx, rule_target::XT, skb, state, info);
}

/// An nftables expression is evaluated.
#[inline(always)]
pub(crate) fn nft_expr(ctx: &ProbeContext, expr: u64, pkt: u64) {
    let state = memory::at(pkt, rule_offset!(pkt_state)).unwrap_or(0);
    let skb = memory::at(pkt, rule_offset!(pkt_skb)).unwrap_or(0);
    run(ctx, rule_target::EXPR, skb, state, expr);
}

/// `what`: where the target's data (x_tables) or the expression (nftables) lies.
#[inline(always)]
fn run(ctx: &ProbeContext, target: u8, skb: u64, state: u64, what: u64) {
    let Some(work) = RULE_WORK.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: the slot belongs to this CPU; `busy` keeps a nested run out.
    let work = unsafe { &mut *work };
    if work.busy != 0 {
        count(counter::HITS_MISSED);
        return;
    }
    work.busy = 1;
    if let Some(net) = packet(work, skb, state) {
        work.hit.target = target;
        let hooks = hooks(&work.hit, net).unwrap_or(0);
        work.walk.start(target, what, net, hooks, &mut work.hit);
        next(ctx);
        tell(&work.hit); // not reached, unless the kernel refuses the tail call
    }
    work.busy = 0;
}

/// The search, in programs that follow each other: one that holds all steps would be too long for
/// the verifier, and slow to load.
#[map]
static RULE_NEXT: ProgramArray = ProgramArray::with_max_entries(1, 0);

/// Goes on with the search. Comes back only when too many programs followed each other.
#[inline(always)]
fn next(ctx: &ProbeContext) {
    // SAFETY: the program in the array expects the same context and nothing else.
    let _ = unsafe { RULE_NEXT.tail_call(ctx, 0) };
}

/// Some steps of the search that [`run`] began on this CPU.
#[inline(always)]
pub(crate) fn search(ctx: &ProbeContext) {
    let Some(work) = RULE_WORK.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: as in `run`, which is not over yet.
    let work = unsafe { &mut *work };
    if !walk::search(&mut work.walk, &mut work.hit) {
        next(ctx);
    }
    tell(&work.hit);
    work.busy = 0;
}

/// Fills in what is known of the packet; its namespace's `struct net` if it is ours.
#[inline(always)]
fn packet(work: &mut RuleWork, skb: u64, state: u64) -> Option<u64> {
    clear(&mut work.hit);
    let net: u64 = memory::at(state, rule_offset!(state_net))?;
    let netns: u32 = memory::at(net, offset!(net_inum))?;
    if config!(flags) & config_flags::SCOPE != 0 && SCOPE.get_ptr(netns).is_none() {
        return None;
    }
    work.base.nfct = memory::at(skb, offset!(skb_nfct))?;
    work.base.event.present = 0;
    if !conntrack::read(&mut work.base) || !ours(&work.base, netns) {
        return None;
    }
    work.hit.kind = event_kind::RULE_HIT;
    work.hit.hook = memory::at(state, rule_offset!(state_hook))?;
    work.hit.pf = memory::at(state, rule_offset!(state_pf))?;
    work.hit.netns = netns;
    work.hit.skb = skb;
    // SAFETY: the helper takes no arguments.
    work.hit.time_ns = unsafe { bpf_ktime_get_ns() };
    work.hit.conntrack = work.base.event.conntrack;
    Some(net)
}

/// Whether the entry's flow was asked for, by its tuple before or after what was translated so far.
#[inline(always)]
fn ours(base: &Work, netns: u32) -> bool {
    let entry = &base.event.conntrack;
    filter::forward(&entry.orig, false)
        || filter::reverse(&entry.reply, false)
        || filter::reverse(&entry.orig, false)
        || learned_any() && follow::learned(&entry.orig, netns)
}

/// `nf_hook_state.pf` of IPv6.
const NFPROTO_IPV6: u8 = 10;
/// `NF_INET_NUMHOOKS`.
const HOOKS: u8 = 5;

/// The `struct nf_hook_entries` of the packet's hook.
#[inline(always)]
fn hooks(hit: &RawRuleHit, net: u64) -> Option<u64> {
    let (pf, hook) = (forget(&hit.pf), forget(&hit.hook));
    let mut first = rule_offset!(net_hooks4);
    if pf == NFPROTO_IPV6 {
        first = rule_offset!(net_hooks6);
    }
    if hook >= HOOKS {
        return None;
    }
    memory::at(net, first.wrapping_add(u32::from(hook) * 8))
}

#[inline(always)]
fn tell(hit: &RawRuleHit) {
    match crate::state::EVENTS.output::<RawRuleHit>(hit, emit::flags()) {
        Ok(()) => count(counter::TOLD),
        Err(_) => count(counter::HITS_MISSED),
    }
}

/// Zeroes the record in words, as `observe::clear` does.
#[inline(always)]
fn clear(hit: &mut RawRuleHit) {
    let words = (&raw mut *hit).cast::<u64>();
    let mut i = 0;
    while i < size_of::<RawRuleHit>() / size_of::<u64>() {
        // SAFETY: inside the record, which is aligned as a word and takes any bytes.
        unsafe { words.add(i).write_volatile(0) };
        i += 1;
    }
}

const _: () = assert!(size_of::<RawRuleHit>().is_multiple_of(8));
const _: () = assert!(rule_store::NONE == 0, "a cleared record was found nowhere");
