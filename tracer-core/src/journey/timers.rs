//! When flows are told, and when they are forgotten. Timers follow the events' times, not a clock,
//! so a report does not depend on when events were read.

use super::Closed;
use super::bindings::Bindings;
use super::correlator::Correlator;
use super::slab::{FlowRef, Slab};
use crate::report::End;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// So many keys are not worth a smaller piece of memory, which would leave another piece unused.
const FEW_KEYS: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;
/// So many timers are not worth looking through.
const FEW_TIMERS: usize = 1024;

impl Correlator {
    pub(super) fn schedule(&mut self, at: FlowRef) {
        let Some(flow) = self.flows.get_mut(at) else {
            return;
        };
        let deadline = flow.deadline(&self.settings);
        // One that was told only waits to be forgotten.
        if flow.journey.is_some() && deadline < flow.timer_ns {
            flow.timer_ns = deadline;
            self.timers.push(Reverse((deadline, at)));
            self.drop_void_timers();
        }
    }

    /// A timer that was set anew leaves its former one behind. Where those are most, they go.
    fn drop_void_timers(&mut self) {
        if self.timers.len() < self.timers_kept.saturating_mul(2).max(FEW_TIMERS) {
            return;
        }
        let flows = &self.flows;
        let counts = |(time, at): (u64, FlowRef)| flows.get(at).is_some_and(|f| f.timer_ns == time);
        self.timers.retain(|Reverse(timer)| counts(*timer));
        self.timers_kept = self.timers.len();
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

    /// Forgets the flows that were told and have been quiet since. They are looked at together, so many
    /// seconds later than they were due as make up a whole one: when depends on their packets alone.
    fn forget_quiet(&mut self, mark_ns: u64) {
        while let Some(entry) = self.remembered.first_entry() {
            let second = *entry.key();
            if second >= mark_ns / SECOND_NS {
                return;
            }
            for at in entry.remove() {
                let deadline = self.flows.get(at).map(|f| f.deadline(&self.settings));
                match deadline.map(|ns| ns / SECOND_NS) {
                    Some(later) if later > second => self.keep_until(later, at),
                    _ => self.forget(at),
                }
            }
        }
    }

    fn keep_until(&mut self, second: u64, at: FlowRef) {
        self.remembered.entry(second).or_default().push_back(at);
    }

    pub(super) fn tell(&mut self, at: FlowRef, end: Option<End>, told: &mut Vec<Closed>) {
        let Some(flow) = self.flows.get_mut(at) else {
            return;
        };
        let Some(journey) = flow.leave() else {
            return;
        };
        if flow.keys.len() > FEW_KEYS {
            flow.keys.shrink_to_fit(); // all that is kept of it for long
        }
        let end = match journey.exchange.closed_ns {
            Some(_) => End::Closed,
            None => end.unwrap_or(End::Timeout),
        };
        let due_ns = flow.deadline(&self.settings);
        self.keep_until(due_ns / SECOND_NS, at);
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
        self.remembered = BTreeMap::new();
    }

    /// Gives up one of the flows that were told: it is only remembered. Where none was told, the one
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

    /// That of which packets were sighted least lately, as far as it was looked at since.
    fn oldest_told(&mut self) -> Option<FlowRef> {
        while let Some(mut entry) = self.remembered.first_entry() {
            let Some(at) = entry.get_mut().pop_front() else {
                entry.remove();
                continue;
            };
            if self.flows.get(at).is_some() {
                return Some(at);
            }
        }
        None
    }
}
