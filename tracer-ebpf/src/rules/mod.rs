//! Which rule a target or a verdict belongs to: for packets of our flows the rule stores of the
//! packet's namespace are searched for the place in memory that it was called with.
//!
//! Of what is here, packets pay only for what they call: NAT targets are called once per new flow.
//! What every packet may call is in [`passing`], and probed on request only. The search is bounded;
//! what it does not find is told as "found nowhere", never guessed.

mod chain;
pub(crate) mod passing;
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

/// Filled in by user space, and anew when a module is loaded: unlike those of packets, offsets of
/// rules are not known before the stores' modules are. So they are not constants to the verifier.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.rules")]
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

/// What ran.
struct Ran {
    /// One of [`rule_target`].
    target: u8,
    /// The packet, `struct sk_buff`.
    skb: u64,
    /// `struct nf_hook_state`.
    state: u64,
    /// Where the target's data (x_tables) or the expression (nftables) lies.
    what: u64,
    /// The verdict's code and chain, where it says one.
    verdict: Option<(i32, u64)>,
}

/// An x_tables target is called with this `struct xt_action_param`.
#[inline(always)]
pub(crate) fn xt_target(ctx: &ProbeContext, skb: u64, par: u64) {
    let ran = Ran {
        target: rule_target::XT,
        skb,
        state: memory::at(par, rule_offset!(par_state)).unwrap_or(0),
        what: memory::at(par, rule_offset!(par_targinfo)).unwrap_or(0),
        verdict: None,
    };
    run(ctx, &ran);
}

/// An nftables expression is evaluated with this `struct nft_pktinfo`.
#[inline(always)]
pub(crate) fn nft_expr(ctx: &ProbeContext, expr: u64, pkt: u64) {
    run(ctx, &expression(expr, pkt));
}

#[inline(always)]
fn expression(expr: u64, pkt: u64) -> Ran {
    Ran {
        target: rule_target::EXPR,
        skb: memory::at(pkt, rule_offset!(pkt_skb)).unwrap_or(0),
        state: memory::at(pkt, rule_offset!(pkt_state)).unwrap_or(0),
        what: expr,
        verdict: None,
    }
}

#[inline(always)]
fn run(ctx: &ProbeContext, ran: &Ran) {
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
    if let Some(net) = packet(work, ran.skb, ran.state) {
        work.hit.target = ran.target;
        passing::say(&mut work.hit, ran);
        let hooks = hooks(&work.hit, net).unwrap_or(0);
        let Ran { target, what, .. } = *ran;
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
    let pf: u8 = memory::at(state, rule_offset!(state_pf))?;
    if pf != NFPROTO_IPV4 && pf != NFPROTO_IPV6 {
        return None; // bridges and devices count their hooks otherwise
    }
    work.hit.pf = pf;
    work.hit.hook = memory::at(state, rule_offset!(state_hook))?;
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

/// `nf_hook_state.pf` of IPv4.
const NFPROTO_IPV4: u8 = 2;
/// And of IPv6.
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
