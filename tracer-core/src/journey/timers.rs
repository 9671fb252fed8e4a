//! When flows are told, and when they are forgotten. Timers follow the events' times, not a clock,
//! so a report does not depend on when events were read.

use super::Closed;
use super::bindings::Bindings;
use super::correlator::Correlator;
use super::slab::{FlowRef, Slab};
use crate::report::End;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// So many keys are not worth a smaller piece of memory, which would leave another piece unused.
const FEW_KEYS: usize = 4;

impl Correlator {
    pub(super) fn schedule(&mut self, at: FlowRef) {
        let Some(flow) = self.flows.get_mut(at) else {
            return;
        };
        let deadline = flow.deadline(&self.settings);
        // One that was told is in a queue of its own.
        if flow.journey.is_some() && deadline < flow.timer_ns {
            flow.timer_ns = deadline;
            self.timers.push(Reverse((deadline, at)));
        }
    }

    /// Does what is due up to and with `mark_ns`. A timer that came too early, because packets
    /// arrived since it was set, is set again.
    pub(super) fn fire(&mut self, mark_ns: u64, told: &mut Vec<Closed>) {
        self.tell_due(mark_ns, told);
        self.forget_quiet(mark_ns);
    }

    fn tell_due(&mut self, mark_ns: u64, told: &mut Vec<Closed>) {
        while let Some(&Reverse((time, at))) = self.timers.peek() {
            if time > mark_ns {
                return;
            }
            self.timers.pop();
            let Some(flow) = self.flows.get_mut(at).filter(|f| f.timer_ns == time) else {
                continue;
            };
            flow.timer_ns = u64::MAX;
            if flow.deadline(&self.settings) > time {
                self.schedule(at);
            } else {
                self.tell(at, None, told);
            }
        }
    }

    /// Forgets the flows that were told and have been quiet since. They are looked at in the order in
    /// which they were told, and again later where packets came meanwhile: so one may be remembered for
    /// a while longer, but never for less.
    fn forget_quiet(&mut self, mark_ns: u64) {
        while let Some(&(due_ns, at)) = self.told.front() {
            if due_ns > mark_ns {
                return;
            }
            self.told.pop_front();
            let deadline = self.flows.get(at).map(|f| f.deadline(&self.settings));
            match deadline {
                Some(deadline) if deadline > mark_ns => self.told.push_back((deadline, at)),
                _ => self.forget(at),
            }
        }
    }

    pub(super) fn tell(&mut self, at: FlowRef, end: Option<End>, told: &mut Vec<Closed>) {
        let Some(flow) = self.flows.get_mut(at) else {
            return;
        };
        let Some(mut journey) = flow.journey.take() else {
            return;
        };
        journey.exchange = flow.exchange;
        if flow.keys.len() > FEW_KEYS {
            flow.keys.shrink_to_fit(); // all that is kept of it for long
        }
        let end = match flow.exchange.closed_ns {
            Some(_) => End::Closed,
            None => end.unwrap_or(End::Timeout),
        };
        let due_ns = flow.deadline(&self.settings);
        self.note_told(due_ns, at);
        let at_ns = journey.last_ns;
        told.push(Closed {
            journey,
            end,
            at_ns,
        });
    }

    pub(super) fn forget(&mut self, at: FlowRef) {
        if let Some(flow) = self.flows.remove(at) {
            self.bindings.unbind(at, &flow.keys);
        }
    }

    /// Nothing comes any more that could belong to a flow.
    pub(super) fn forget_all(&mut self) {
        self.flows = Slab::new();
        self.bindings = Bindings::default();
        self.told = VecDeque::new();
    }

    /// Gives up the flow that was told first: it is only remembered. Where none was told, the one
    /// that would be told next.
    pub(super) fn make_room(&mut self, told: &mut Vec<Closed>) {
        while self.flows.len() >= self.settings.max_flows.max(1) {
            if let Some(at) = self.oldest_told() {
                self.stats.evicted += 1;
                self.forget(at);
                continue;
            }
            let Some(Reverse((time, at))) = self.timers.pop() else {
                return;
            };
            if self.flows.get(at).is_some_and(|f| f.timer_ns == time) {
                self.stats.evicted += 1;
                // It was not waited for to its end: what is missing proves nothing.
                self.tell(at, Some(End::TraceEnded), told);
                self.forget(at);
            }
        }
    }

    fn oldest_told(&mut self) -> Option<FlowRef> {
        let flows = &self.flows;
        let remembered = |at: &FlowRef| flows.get(*at).is_some();
        std::iter::from_fn(|| Some(self.told.pop_front()?.1)).find(remembered)
    }

    /// Keeps the order in which flows were told, without those that are forgotten.
    fn note_told(&mut self, due_ns: u64, at: FlowRef) {
        self.told.push_back((due_ns, at));
        if self.told.len() > self.settings.max_flows.saturating_mul(2) {
            let flows = &self.flows;
            self.told.retain(|(_, at)| flows.get(*at).is_some());
        }
    }
}
