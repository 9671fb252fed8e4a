//! The reorder buffer: events come from several CPUs, each in order, together not quite.

use crate::event::Event;

/// Holds events back until everything older must have arrived, and gives them out in their total
/// order (time, then content).
#[derive(Debug, Default)]
pub(super) struct Reorder {
    held: Vec<Event>,
}

impl Reorder {
    pub(super) fn push(&mut self, event: Event) {
        self.held.push(event);
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// The events up to and with `mark_ns`, in order.
    pub(super) fn ripe(&mut self, mark_ns: u64) -> Vec<Event> {
        // The events of one CPU are in order already; the standard sort uses such runs.
        self.held.sort();
        let ripe = self.held.partition_point(|e| e.time_ns <= mark_ns);
        if ripe == self.held.len() {
            return std::mem::take(&mut self.held);
        }
        self.held.drain(..ripe).collect()
    }
}
