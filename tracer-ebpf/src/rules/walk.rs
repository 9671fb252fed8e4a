//! The search, one small step at a time: its state lies in map memory, so that every step looks
//! alike to the verifier and the loop costs it no more than its length.
//!
//! Kernel structures relied on: a hook function's private data are the `struct xt_table` (since 5.16)
//! or the `struct nft_chain`; the NAT hook function's are a list of hook entries of its own (`struct
//! nf_nat_lookup_hook_priv`, net/netfilter/nf_nat_core.c), whose private data are those. A chain's rules in force lie in one
//! block (`struct nft_rule_blob`, since 5.17), each behind a header `struct nft_rule_dp`; since 6.4
//! the last header points back to the chain (`struct nft_rule_dp_last`). Before, they are a list of
//! `struct nft_rule`.

use super::chain::{block, expr, first_chain, linked, listed, rule, tail, text};
use super::rule_offset;
use crate::memory;
use tracer_common::{ABSENT, RawRuleHit, rule_store, rule_target};

/// Steps of one program: entries, chains and rules looked at. The kernel lets 33 programs follow
/// each other, so a search ends after about a thousand.
const STEPS: u32 = 32;
/// More hook entries than this in one list are not believed.
const MAX_ENTRIES: u16 = 64;
/// How the names of x_tables' tables begin.
const TABLES: [[u8; 4]; 5] = [*b"nat\0", *b"mang", *b"filt", *b"raw\0", *b"secu"];
/// `NFPROTO_IPV6`.
const NFPROTO_IPV6: u8 = 10;

/// What the next step does.
pub(super) mod state {
    /// Look at the next entry of the hook.
    pub(in crate::rules) const HOOK: u32 = 0;
    /// Look at the next entry below it.
    pub(in crate::rules) const ENTRY: u32 = 1;
    /// Look at the next chain of a table.
    pub(in crate::rules) const CHAIN: u32 = 2;
    /// Look at the next rule of a block.
    pub(in crate::rules) const RULE: u32 = 3;
    /// Look at the next rule of a list.
    pub(in crate::rules) const LISTED: u32 = 4;
    /// Go to the next expression, until the rule's end.
    pub(in crate::rules) const EXPR: u32 = 5;
    /// Go to the next rule, until the chain's end.
    pub(in crate::rules) const TAIL: u32 = 6;
    /// It is over.
    pub(in crate::rules) const END: u32 = 7;
}

/// A search.
#[repr(C)]
pub(super) struct Walk {
    state: u32,
    /// 1 while x_tables' tables are looked at.
    legacy: u32,
    /// The x_tables target's data, or zero.
    info: u64,
    /// The nftables expression.
    pub(super) expr: u64,
    net: u64,
    hooks: u64,
    hook: u16,
    entry: u16,
    pub(super) index: u32,
    /// The list of entries below a hook entry.
    entries: u64,
    /// A table's chains: list head and current.
    pub(super) head: u64,
    pub(super) cursor: u64,
    pub(super) chain: u64,
    /// Rules: current, and the list's head or the block's end.
    pub(super) at: u64,
    pub(super) end: u64,
}

impl Walk {
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        target: u8,
        what: u64,
        net: u64,
        hooks: u64,
        hit: &mut RawRuleHit,
    ) {
        let xt = target == rule_target::XT;
        self.legacy = u32::from(xt);
        self.info = if xt { what } else { 0 };
        self.expr = if xt {
            what.wrapping_sub(u64::from(rule_offset!(expr_data)))
        } else {
            what
        };
        (self.net, self.hooks) = (net, hooks);
        (self.hook, self.entry, self.index) = (0, 0, 0);
        self.state = if xt { state::HOOK } else { first_of_nft() };
        self.at = self.expr;
        if xt {
            own_table(self, hit);
        }
    }
}

/// Where the search begins among nftables' chains.
#[inline(always)]
fn first_of_nft() -> u32 {
    if rule_offset!(last_chain) == ABSENT {
        state::HOOK
    } else {
        state::EXPR
    }
}

/// Makes some steps; whether the search is over. What is found is written to `hit`.
#[inline(always)]
pub(super) fn search(walk: &mut Walk, hit: &mut RawRuleHit) -> bool {
    let mut n = 0;
    while n < STEPS {
        hit.steps += 1;
        if step(walk, hit) == state::END {
            return true;
        }
        n += 1;
    }
    false
}

/// One step; the state after it.
#[inline(never)]
fn step(walk: &mut Walk, hit: &mut RawRuleHit) -> u32 {
    let next = match walk.state {
        state::HOOK => hook(walk, hit),
        state::ENTRY => entry(walk, hit),
        state::CHAIN => chain(walk),
        state::RULE => rule(walk, hit),
        state::LISTED => listed(walk, hit),
        state::EXPR => expr(walk),
        state::TAIL => tail(walk),
        _ => state::END,
    };
    walk.state = next;
    next
}

#[inline(always)]
fn hook(walk: &mut Walk, hit: &mut RawRuleHit) -> u32 {
    let count: u16 = memory::at(walk.hooks, rule_offset!(entries_count)).unwrap_or(0);
    if walk.hook >= count || count > MAX_ENTRIES {
        return nowhere(walk);
    }
    let private = private(walk.hooks, walk.hook);
    walk.hook += 1;
    (walk.entry, walk.entries) = (0, 0);
    let next = store(walk, hit, private);
    if next != state::ENTRY {
        return next;
    }
    walk.entries = memory::at(private, rule_offset!(lookup_entries)).unwrap_or(0);
    if walk.entries == 0 {
        state::HOOK
    } else {
        state::ENTRY
    }
}

/// What a hook function works on: a table or chain, to be looked through; [`state::ENTRY`] where it
/// is neither.
#[inline(always)]
fn store(walk: &mut Walk, hit: &mut RawRuleHit, private: u64) -> u32 {
    if is_table(private) {
        let found = walk.legacy != 0 && legacy(walk, hit, private).is_some();
        return if found { state::END } else { state::HOOK };
    }
    if first_chain(walk, private).is_none() {
        return state::ENTRY;
    }
    if walk.legacy != 0 {
        state::HOOK
    } else {
        state::CHAIN
    }
}

/// All entries were looked at.
#[inline(always)]
fn nowhere(walk: &mut Walk) -> u32 {
    if walk.legacy == 0 {
        return state::END;
    }
    walk.legacy = 0;
    walk.hook = 0;
    first_of_nft()
}

/// `nf_hook_entries.hooks[index].priv`
#[inline(always)]
fn private(entries: u64, index: u16) -> u64 {
    let at = rule_offset!(entries_hooks)
        .wrapping_add(u32::from(index).wrapping_mul(rule_offset!(entry_size)))
        .wrapping_add(rule_offset!(entry_priv));
    memory::at(entries, at).unwrap_or(0)
}

#[inline(always)]
fn entry(walk: &mut Walk, hit: &mut RawRuleHit) -> u32 {
    let count: u16 = memory::at(walk.entries, rule_offset!(entries_count)).unwrap_or(0);
    if walk.entry >= count || count > MAX_ENTRIES {
        return state::HOOK;
    }
    let private = private(walk.entries, walk.entry);
    walk.entry += 1;
    if walk.legacy != 0 {
        return if legacy(walk, hit, private).is_some() {
            state::END
        } else {
            state::ENTRY
        };
    }
    if first_chain(walk, private).is_some() {
        state::CHAIN
    } else {
        state::ENTRY
    }
}

/// Before 5.13 the namespace itself names its NAT table.
#[inline(always)]
fn own_table(walk: &mut Walk, hit: &mut RawRuleHit) {
    let mut at = rule_offset!(net_nat4);
    if hit.pf == NFPROTO_IPV6 {
        at = rule_offset!(net_nat6);
    }
    let table = memory::at(walk.net, at).unwrap_or(0);
    if legacy(walk, hit, table).is_some() {
        walk.state = state::END;
    }
}

/// Whether the target lies in this `struct xt_table`: then the hit says where.
#[inline(always)]
fn legacy(walk: &Walk, hit: &mut RawRuleHit, table: u64) -> Option<()> {
    if !is_table(table) {
        return None; // an nftables chain
    }
    let info: u64 = memory::at(table, rule_offset!(xt_private))?;
    let size: u32 = memory::at(info, rule_offset!(info_size))?;
    let entries = info.wrapping_add(u64::from(rule_offset!(info_entries)));
    let offset = walk.info.wrapping_sub(entries);
    if offset >= u64::from(size) {
        return None;
    }
    hit.number = memory::at(info, rule_offset!(info_number))?;
    hit.store = rule_store::LEGACY;
    (hit.offset, hit.size) = (offset as u32, size);
    text(
        &mut hit.table,
        table.wrapping_add(u64::from(rule_offset!(xt_name))),
    );
    Some(())
}

/// Whether this is a `struct xt_table`, by its name, and its first member, which links the tables.
#[inline(always)]
fn is_table(at: u64) -> bool {
    let name: Option<[u8; 4]> = memory::at(at, rule_offset!(xt_name));
    name.is_some_and(|name| TABLES.contains(&name)) && linked(at).is_some()
}

#[inline(always)]
fn chain(walk: &mut Walk) -> u32 {
    if walk.cursor == walk.head || walk.cursor == 0 {
        return state::ENTRY;
    }
    walk.chain = walk
        .cursor
        .wrapping_sub(u64::from(rule_offset!(chain_list)));
    walk.cursor = memory::at(walk.cursor, 0).unwrap_or(0);
    walk.index = 0;
    if rule_offset!(chain_rules) != ABSENT {
        walk.end = walk
            .chain
            .wrapping_add(u64::from(rule_offset!(chain_rules)));
        walk.at = memory::at(walk.end, 0).unwrap_or(0);
        return state::LISTED;
    }
    if block(walk, rule_offset!(chain_blob0)).is_some()
        || block(walk, rule_offset!(chain_blob1)).is_some()
    {
        state::RULE
    } else {
        state::CHAIN
    }
}
