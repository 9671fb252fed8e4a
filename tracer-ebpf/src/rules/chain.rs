//! The last part of the search: what is a chain, and from it, or from the expression itself, to the
//! rule.

use super::rule_offset;
use super::walk::{Walk, state};
use crate::memory;
use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use tracer_common::{RawRuleHit, rule_store};

const DLEN: u64 = (1 << 12) - 1;
const HANDLE: u64 = (1 << 42) - 1;
const FAMILY: u8 = (1 << 6) - 1;
/// Set in every address of kernel memory, and never in a rule's header: handles are small. (The
/// last header of a block is not initialised but for its lowest bit, which no address has.)
const POINTER_BITS: u64 = 0x7f << 48;

/// Goes to the chains of this chain's table, if it is a chain at all. What is none may be smaller
/// than a chain, so that these reads reach into its neighbours in memory, and one sign alone may
/// be there by accident: both the table's list and the chain's place in it must hold.
#[inline(always)]
pub(super) fn first_chain(walk: &mut Walk, chain: u64) -> Option<()> {
    let table: u64 = memory::at(chain, rule_offset!(chain_table))?;
    walk.head = table.wrapping_add(u64::from(rule_offset!(table_chains)));
    walk.cursor = linked(walk.head)?;
    linked(chain.wrapping_add(u64::from(rule_offset!(chain_list))))?;
    Some(())
}

/// What follows this `struct list_head`, if it is one: then what follows leads back to it.
#[inline(always)]
pub(super) fn linked(node: u64) -> Option<u64> {
    let next: u64 = memory::at(node, 0)?;
    let back: u64 = memory::at(next, 8)?;
    (back == node).then_some(next)
}

/// Goes to the first rule of a chain's block, if the expression lies in it.
#[inline(always)]
pub(super) fn block(walk: &mut Walk, generation: u32) -> Option<()> {
    let block: u64 = memory::at(walk.chain, generation)?;
    let size: u64 = memory::at(block, rule_offset!(blob_size))?;
    let first = block.wrapping_add(u64::from(rule_offset!(blob_data)));
    if walk.expr.wrapping_sub(first) >= size {
        return None;
    }
    (walk.at, walk.end) = (first, first.wrapping_add(size));
    Some(())
}

#[inline(always)]
pub(super) fn rule(walk: &mut Walk, hit: &mut RawRuleHit) -> u32 {
    let Some(word) = memory::at::<u64>(walk.at, rule_offset!(rule_word)) else {
        return state::END;
    };
    if walk.at >= walk.end {
        return state::END;
    }
    walk.index += 1;
    if is_in(walk, word) {
        return found(walk, hit, word);
    }
    walk.at = after(walk.at, word);
    state::RULE
}

#[inline(always)]
pub(super) fn listed(walk: &mut Walk, hit: &mut RawRuleHit) -> u32 {
    if walk.at == walk.end || walk.at == 0 {
        return state::CHAIN;
    }
    walk.index += 1;
    let word = memory::at(walk.at, rule_offset!(rule_word)).unwrap_or(0);
    if is_in(walk, word) {
        return found(walk, hit, word);
    }
    walk.at = memory::at(walk.at, 0).unwrap_or(0);
    state::LISTED
}

/// Whether the expression lies in the rule that begins at `walk.at`.
#[inline(always)]
fn is_in(walk: &Walk, word: u64) -> bool {
    let data = walk.at.wrapping_add(u64::from(rule_offset!(rule_data)));
    walk.expr.wrapping_sub(data) < length(word)
}

#[inline(always)]
fn length(word: u64) -> u64 {
    word >> (rule_offset!(rule_dlen_bit) & 63) & DLEN
}

/// The rule after one that lies in a block.
#[inline(always)]
fn after(at: u64, word: u64) -> u64 {
    at.wrapping_add(u64::from(rule_offset!(rule_data)))
        .wrapping_add(length(word))
}

#[inline(always)]
pub(super) fn expr(walk: &mut Walk) -> u32 {
    let Some(word) = memory::at::<u64>(walk.at, 0) else {
        return state::END;
    };
    if word & POINTER_BITS == 0 || word & 1 != 0 {
        return state::TAIL;
    }
    let size: u32 = memory::at(word, rule_offset!(ops_size)).unwrap_or(0);
    if size == 0 {
        return state::END;
    }
    walk.at = walk.at.wrapping_add(u64::from(size));
    state::EXPR
}

#[inline(always)]
pub(super) fn tail(walk: &mut Walk) -> u32 {
    let Some(word) = memory::at::<u64>(walk.at, rule_offset!(rule_word)) else {
        return state::END;
    };
    if word & 1 == 0 {
        walk.at = after(walk.at, word);
        return state::TAIL;
    }
    walk.chain = memory::at(walk.at, rule_offset!(last_chain)).unwrap_or(0);
    if block(walk, rule_offset!(chain_blob0)).is_some()
        || block(walk, rule_offset!(chain_blob1)).is_some()
    {
        state::RULE
    } else {
        state::END
    }
}

#[inline(always)]
fn found(walk: &Walk, hit: &mut RawRuleHit, word: u64) -> u32 {
    hit.handle = word >> (rule_offset!(rule_handle_bit) & 63) & HANDLE;
    hit.index = walk.index;
    let table: u64 = memory::at(walk.chain, rule_offset!(chain_table)).unwrap_or(0);
    let family: u8 = memory::at(table, rule_offset!(table_family)).unwrap_or(0);
    hit.family = family & FAMILY;
    let name = memory::at(table, rule_offset!(table_name)).unwrap_or(0);
    text(&mut hit.table, name);
    let name = memory::at(walk.chain, rule_offset!(chain_name)).unwrap_or(0);
    text(&mut hit.chain, name);
    hit.store = rule_store::NFT;
    state::END
}

/// Copies a C string, cut to fit.
#[inline(always)]
pub(super) fn text<const N: usize>(to: &mut [u8; N], from: u64) {
    // SAFETY: the helper writes at most `N` bytes and checks the source address.
    unsafe { bpf_probe_read_kernel_str(to.as_mut_ptr().cast(), N as u32, from as *const _) };
}
