//! The reorder buffer: events come from several CPUs, each in order, together not quite.

use crate::event::Event;
use std::collections::BTreeMap;

/// Width of a slice of time. Events are sorted a slice at a time.
const SLICE_NS: u64 = 4_000_000;

/// Holds events back until everything older must have arrived, and gives them out in their total
/// order (time, then content). Events are large: they are put into the slice of their time once,
/// and not moved again.
#[derive(Debug, Default)]
pub(super) struct Reorder {
    slices: BTreeMap<u64, Vec<Event>>,
    held: usize,
    /// Emptied slices, for the next ones.
    spare: Vec<Vec<Event>>,
}

/// Most emptied slices that are kept.
const MAX_SPARE: usize = 3;

impl Reorder {
    pub(super) fn push(&mut self, event: Event) {
        let slice = self.slices.entry(event.time_ns / SLICE_NS);
        let slice = slice.or_insert_with(|| self.spare.pop().unwrap_or_default());
        slice.push(event);
        self.held += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.held
    }

    /// The last moment of the last slice that is over at `mark_ns`.
    pub(super) fn whole(mark_ns: u64) -> u64 {
        match mark_ns {
            u64::MAX => mark_ns,
            _ => (mark_ns.saturating_add(1) / SLICE_NS * SLICE_NS).saturating_sub(1),
        }
    }

    /// The oldest slice, if it ends at or before `mark_ns` (see [`Reorder::whole`]), in order.
    pub(super) fn ripe(&mut self, mark_ns: u64) -> Option<Slice> {
        let oldest = self.slices.first_entry()?;
        if *oldest.key() > mark_ns / SLICE_NS {
            return None;
        }
        let events = oldest.remove();
        self.held -= events.len();
        let mut order: Vec<u32> = (0..).take(events.len()).collect();
        // Those of one CPU are in order already; the standard sort uses such runs.
        order.sort_by(|a, b| events[*a as usize].cmp(&events[*b as usize]));
        Some(Slice { events, order })
    }

    /// Takes an emptied slice back.
    pub(super) fn recycle(&mut self, mut slice: Slice) {
        if self.spare.len() < MAX_SPARE {
            slice.events.clear();
            self.spare.push(slice.events);
        }
    }
}

/// The events of one slice of time.
#[derive(Debug)]
pub(super) struct Slice {
    events: Vec<Event>,
    order: Vec<u32>,
}

impl Slice {
    /// In their total order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.order.iter().map(|i| &self.events[*i as usize])
    }
}
