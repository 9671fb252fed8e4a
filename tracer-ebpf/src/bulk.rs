//! Bulk traffic is counted and nothing else: a packet that differs from the one before in nothing that is told
//! finds its counter by what it looks like. Once a tick each flow is looked at whole (`policy.rs`), which takes in
//! what was counted here and sees to all that time brings.

use crate::observe::Sighting;
use crate::plain::{self, Plain};
use crate::state::{BULK, FLOWS, Work, offset};
use crate::words::add;
use crate::{buffer, clock, memory, policy};
use tracer_common::{BulkSlot, FlowKey, FlowState};
use tracer_ebpf::parse::forget;

/// Counts a packet if that is all there is to do about it. Leaves its sum in `work.sum`: zero for one that must be
/// looked at whole in any case.
#[inline(always)]
pub(crate) fn counted(work: &mut Work, seen: &Sighting) -> bool {
    work.sum = 0;
    count_plain(work, seen).is_some()
}

#[inline(always)]
fn count_plain(work: &mut Work, seen: &Sighting) -> Option<()> {
    if forget(&work.wrap) != 0 {
        return None; // its entry and mark are the outer packet's
    }
    let plain = plain::read(work)?;
    let sum = sum(work, seen, &plain)?;
    work.sum = sum;
    let slot = slot(sum).filter(|slot| forget(&slot.sum) == sum)?;
    count(work, slot, &plain)
}

/// What such packets have in common at this tap.
#[inline(always)]
fn sum(work: &Work, seen: &Sighting, plain: &Plain) -> Option<u64> {
    let dev = if seen.dev == 0 {
        memory::at(seen.skb, offset!(skb_dev))?
    } else {
        seen.dev
    };
    let beside = u64::from(buffer::vlan(work)) << 16
        | u64::from(buffer::made_here(work)) << 8
        | u64::from(seen.tap);
    Some(add(add(plain.sum, dev), beside) | 1)
}

#[inline(always)]
fn slot(sum: u64) -> Option<&'static mut BulkSlot> {
    let slot = BULK.get_ptr_mut(BulkSlot::index(sum))?;
    // SAFETY: the map's value stays in place during the program run. Its words are read and written whole: two CPUs
    // that take the same place at the same time cost at worst the counts of a moment.
    Some(unsafe { &mut *slot })
}

/// Counts a packet of this place; `None` where there is more to it.
#[inline(always)]
fn count(work: &Work, slot: &mut BulkSlot, plain: &Plain) -> Option<()> {
    if slot.tick != clock::ticks() {
        return None;
    }
    let mut packets = 1;
    if plain.payload != 0 {
        if slot.data == 0 {
            return None;
        }
        packets = buffer::wire_packets(work, plain.payload);
        if plain.is_tcp {
            if !is_later(plain.end, slot.next_seq) {
                return None; // sent again
            }
            slot.next_seq = plain.end;
        }
    }
    policy::add(&raw mut slot.packets, u64::from(packets));
    policy::add(&raw mut slot.bytes, u64::from(plain.len));
    Some(())
}

#[inline(always)]
fn is_later(end: u32, than: u32) -> bool {
    end.wrapping_sub(than) as i32 > 0
}

/// Takes what was counted by the way into the flow's state, before that is compared with a packet.
#[inline(always)]
pub(crate) fn gather(state: &mut FlowState, sum: u64) {
    if state.sum == 0 {
        return;
    }
    if let Some(slot) = slot(state.sum)
        && forget(&slot.sum) == state.sum
    {
        fold(slot, state);
        if is_later(slot.next_seq, state.next_seq) {
            state.next_seq = slot.next_seq;
        }
        if sum != state.sum {
            slot.sum = 0; // its packets look otherwise now
        }
    }
    if sum != state.sum {
        state.sum = 0;
    }
}

/// Moves the counts. Packets that are counted meanwhile stay.
#[inline(always)]
fn fold(slot: &mut BulkSlot, state: &mut FlowState) {
    let (packets, bytes) = (forget(&slot.packets), forget(&slot.bytes));
    policy::add(&raw mut state.packets, packets);
    policy::add(&raw mut state.bytes, bytes);
    policy::add(&raw mut slot.packets, packets.wrapping_neg());
    policy::add(&raw mut slot.bytes, bytes.wrapping_neg());
}

/// Lets the next packets like this one be counted by the way, if there is room: a place is given to another flow
/// when its own was not looked at for a second.
#[inline(always)]
pub(crate) fn keep(state: &mut FlowState, key: &FlowKey, sum: u64) {
    if sum == 0 {
        return;
    }
    let Some(slot) = slot(sum) else { return };
    let tick = clock::ticks();
    if forget(&slot.sum) != sum {
        if forget(&slot.sum) != 0 && tick.wrapping_sub(slot.tick) <= clock::SECOND {
            return;
        }
        vacate(slot);
        slot.key = *key;
    }
    slot.next_seq = state.next_seq;
    slot.data = u64::from(state.data);
    slot.tick = tick;
    state.sum = sum;
    slot.sum = sum;
}

/// Gives back what a place counted for a flow that it is no longer for.
#[inline(never)]
fn vacate(slot: &mut BulkSlot) {
    let sum = forget(&slot.sum);
    slot.sum = 0;
    if sum != 0
        && let Some(state) = FLOWS.get_ptr_mut(slot.key)
    {
        // SAFETY: as in `policy::judge`.
        let state = unsafe { &mut *state };
        if state.sum == sum {
            fold(slot, state);
            state.sum = 0;
        }
    }
    slot.packets = 0;
    slot.bytes = 0;
}
