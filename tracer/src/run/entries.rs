//! Conntrack entries by netlink, where packets cannot show theirs: each packet that is a tap's first
//! of a tuple is asked for in its namespace, a moment after it passed. An entry is believed as the
//! kernel tells it; what it does not explain stays known only `between` two sightings.
//!
//! Where packets can show theirs, only those are asked for that leave a namespace which they came
//! into without one: the fast path of a flowtable forwards so.

use crate::system::Survey;
use crate::system::conntrack::{self, Question};
use std::collections::BTreeMap;
use tracer_common::reason;
use tracer_core::event::{Conntrack, Event, NetnsId, Tap};
use tracer_core::report::Unavailable;

/// Events that wait for their entries.
pub(super) struct Entries {
    held: Vec<Event>,
    askable: bool,
    /// Whether no packet can show its entry.
    all: bool,
}

impl Entries {
    /// Of packets that can show theirs and leave without.
    pub(super) fn of_bypassing() -> Self {
        Self {
            held: Vec::new(),
            askable: conntrack::askable().is_ok(),
            all: false,
        }
    }

    /// Of every packet; says what cannot be asked.
    pub(super) fn of_all() -> (Self, Option<Unavailable>) {
        let askable = conntrack::askable();
        let entries = Self {
            held: Vec::new(),
            askable: askable.is_ok(),
            all: true,
        };
        let lacking = askable.err().map(|why| Unavailable {
            what: "conntrack over netlink".to_owned(),
            why,
            effect: "a rewrite is known by the sightings before and after it, not by who made it"
                .to_owned(),
        });
        (entries, lacking)
    }

    /// Whether an event has to wait here. Where all do, their order is kept.
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.all || self.askable && bypasses(event)
    }

    /// Takes an event in.
    pub(super) fn hold(&mut self, event: Event) {
        self.held.push(event);
    }

    /// Gives the events out, each with the entry that was found: one visit to each namespace. A
    /// namespace that is gone answers nothing.
    pub(super) fn answered(&mut self, survey: &Survey) -> Vec<(Event, Option<Conntrack>)> {
        let events = std::mem::take(&mut self.held);
        let mut entries = vec![None; events.len()];
        for (netns, asking) in self.asking(&events) {
            let about = |at: &usize| Question {
                tuple: events[*at].tuple,
                icmp: events[*at].print.icmp,
            };
            let questions: Vec<_> = asking.iter().map(about).collect();
            let found = survey.netns(netns);
            let found = found.and_then(|netns| conntrack::entries(netns, &questions).ok());
            for (at, entry) in asking.into_iter().zip(found.into_iter().flatten()) {
                entries[at] = entry;
            }
        }
        events.into_iter().zip(entries).collect()
    }

    /// Which events of each namespace are asked for.
    fn asking(&self, events: &[Event]) -> BTreeMap<NetnsId, Vec<usize>> {
        let mut asking: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            let is_new = self.askable && (bypasses(event) || event.reasons.any(reason::FIRST));
            if let Some(netns) = event.netns.filter(|_| is_new) {
                asking.entry(netns).or_default().push(at);
            }
        }
        asking
    }
}

/// Whether a packet that was forwarded leaves without an entry, for the first time or where it had
/// one before.
fn bypasses(event: &Event) -> bool {
    let forwarded = event.tap == Tap::Transmit && !event.local;
    let without = event.conntrack_known && event.conntrack.is_none();
    forwarded && without && event.reasons.any(reason::FIRST | reason::CONNTRACK)
}
