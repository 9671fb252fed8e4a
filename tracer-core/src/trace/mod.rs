//! The whole way: events in, judged flows out, and the sums of the run.

mod judging;
mod losses;
mod wanted;

pub use wanted::{Checks, Wanted};

use crate::event::{Conntrack, DropEvent, Event};
use crate::group::Groups;
use crate::inventory::Inventory;
use crate::journey::{Correlator, ReadCounter, Settings, Stats};
use crate::observed::{Hits, RuleHit};
use crate::point::Point;
use crate::proxy::{Opening, Relations, SocketEvent};
use crate::recording::{Asked, Entry, Journal, Lost, Record, noting};
use crate::report::{Flows, PointSum, Unavailable};
use crate::rulebook::Rulebook;
use losses::Losses;

/// One run.
#[derive(Debug)]
pub struct Trace {
    wanted: Wanted,
    checks: Checks,
    correlator: Correlator,
    realtime_offset_ns: i64,
    losses: Losses,
    unavailable: Vec<Unavailable>,
    points: Vec<Point>,
    point_sums: Vec<PointSum>,
    rulebook: Rulebook,
    hits: Hits,
    relations: Relations,
    observed: Vec<(String, RuleHit)>,
    groups: Groups,
    reported: u64,
    left_out: u64,
    journal: Option<Box<Journal>>,
}

impl Trace {
    /// A run that has seen nothing. `realtime_offset_ns` is what to add to CLOCK_MONOTONIC to get
    /// nanoseconds since 1970, UTC.
    #[must_use]
    pub fn new(settings: Settings, realtime_offset_ns: i64) -> Self {
        Self {
            wanted: Wanted::default(),
            checks: Checks::default(),
            correlator: Correlator::new(settings),
            realtime_offset_ns,
            losses: Losses::default(),
            unavailable: Vec::new(),
            points: Vec::new(),
            point_sums: Vec::new(),
            rulebook: Rulebook::default(),
            hits: Hits::default(),
            relations: Relations::default(),
            observed: Vec::new(),
            groups: Groups::default(),
            reported: 0,
            left_out: 0,
            journal: None,
        }
    }

    /// What comes is of a capture: see [`Correlator::without_buffers`].
    pub fn without_buffers(&mut self) {
        self.correlator.without_buffers();
    }

    /// Notes down from now on what it is told.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Box::default());
        self.rulebook.keep_log();
    }

    /// What it was told since this was last asked, if it notes that down.
    pub fn take_journal(&mut self) -> Vec<Record> {
        self.journal.as_mut().map_or_else(Vec::new, |j| j.take())
    }

    fn note(&mut self, record: impl FnOnce() -> Record) {
        if let Some(journal) = &mut self.journal {
            journal.note(record());
        }
    }

    /// Notes what may have changed since the last judgement: rules and the inventory.
    fn look(&mut self, inventory: &Inventory) {
        let readings = self.rulebook.take_log();
        if let Some(journal) = &mut self.journal {
            readings.iter().for_each(|reading| journal.rules(reading));
            journal.look(inventory);
        }
    }

    /// Tells only these flows from now on.
    pub fn want(&mut self, wanted: Wanted) {
        self.wanted = wanted;
    }

    /// Tells of every flow from now on what these points of `host` saw of it.
    pub fn name_points(&mut self, points: Vec<Point>, host: &str) {
        let sums = points.iter().map(|point| PointSum::of(&point.unseen(host)));
        self.point_sums = sums.collect();
        self.points = points;
    }

    /// How many flows each point saw.
    #[must_use]
    pub fn point_sums(&self) -> &[PointSum] {
        &self.point_sums
    }

    /// Compares every flow that is told from now on.
    pub fn check(&mut self, checks: Checks) {
        self.checks = checks;
    }

    /// What flows are compared with, and how that fares.
    #[must_use]
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Takes an event in. `true` asks for [`Trace::advance`] now, before memory grows further.
    #[must_use = "memory grows until the events are processed"]
    pub fn push(&mut self, event: Event) -> bool {
        self.note(|| Record::Event(Box::new(event.clone())));
        self.relations.sighted(&event);
        self.correlator.push(event)
    }

    /// Takes in the conntrack entry that a namespace has for the packet of `event`, which showed none
    /// itself. To be called before [`Trace::push`].
    pub fn entry(&mut self, event: &Event, entry: Conntrack) {
        self.note(|| {
            let event = event.clone();
            Record::Entry(Box::new(Entry { event, entry }))
        });
        self.correlator.entry(event, entry);
    }

    /// Asks the taps what they counted of each flow by `now_ns` (CLOCK_MONOTONIC): it may run
    /// without anything new to tell.
    pub fn recount(&mut self, now_ns: u64, read: &mut ReadCounter<'_>) {
        let mut counts = Vec::new();
        self.correlator
            .recount(now_ns, &mut noting(read, &mut counts));
        if !counts.is_empty() {
            self.note(|| Record::Recount(Asked { now_ns, counts }));
        }
    }

    /// Takes a drop in.
    pub fn push_drop(&mut self, drop: DropEvent) {
        self.note(|| Record::Drop(Box::new(drop.clone())));
        self.correlator.push_drop(drop);
    }

    /// Events were lost between two readings of the counter.
    pub fn lost(&mut self, from_ns: u64, to_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.note(|| {
            Record::Lost(Lost {
                from_ns,
                to_ns,
                count,
            })
        });
        self.losses.add(from_ns, to_ns, count);
    }

    /// A process used a connection that it had accepted.
    pub fn socket(&mut self, socket: SocketEvent) {
        self.note(|| Record::Socket(Box::new(socket.clone())));
        self.relations.socket(socket);
    }

    /// How a connection begins.
    pub fn opening(&mut self, opening: Opening) {
        self.note(|| Record::Opening(Box::new(opening.clone())));
        self.relations.opening(opening);
    }

    /// A rule was seen to run.
    pub fn hit(&mut self, hit: RuleHit) {
        self.note(|| Record::Hit(Box::new(hit.clone())));
        self.hits.push(hit);
    }

    /// The rules that ran for flows told since this was last asked, each with the flow's id.
    pub fn take_observed(&mut self) -> Vec<(String, RuleHit)> {
        std::mem::take(&mut self.observed)
    }

    /// A point that was wanted cannot be observed: every flow told from now on says so.
    pub fn unavailable(&mut self, what: Unavailable) {
        self.note(|| Record::Unavailable(what.clone()));
        self.unavailable.push(what);
    }

    /// The rules by which flows are judged.
    pub fn rulebook(&mut self) -> &mut Rulebook {
        &mut self.rulebook
    }

    /// The groups of what was told so far.
    #[must_use]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Flow counts for the summary.
    #[must_use]
    pub fn flows(&self) -> Flows {
        Flows {
            seen: self.correlator.stats().seen,
            reported: self.reported,
            left_out: self.left_out,
            groups: self.groups.summary().len() as u64,
        }
    }

    /// What the correlator holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.correlator.stats()
    }
}
