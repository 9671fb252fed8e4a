//! The whole way: events in, judged flows out, and the sums of the run.

mod losses;
mod wanted;

pub use wanted::{Checks, Wanted};

use crate::attribute::Consulted;
use crate::event::{Conntrack, DropEvent, Event};
use crate::group::Groups;
use crate::inventory::Inventory;
use crate::journey::{Closed, Correlator, ReadCounter, Settings, Stats};
use crate::observed::{Hits, RuleHit};
use crate::point::{self, Point};
use crate::proxy::{Opening, Relation, Relations, SocketEvent};
use crate::recording::{Asked, Count, Entry, Journal, Lost, Part, Record, Settled, noting};
use crate::report::{Flow, Flows, PointSum, Unavailable};
use crate::rulebook::Rulebook;
use crate::verdict::{self, Context};
use losses::Losses;
use std::borrow::Cow;

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

    /// Judges the flows that are over or quiet at `now_ns` (CLOCK_MONOTONIC).
    pub fn advance(&mut self, now_ns: u64, inventory: &Inventory) -> Vec<Flow> {
        let closed = self.close(now_ns, inventory, &mut |_| None);
        self.judge(closed, inventory)
    }

    /// Judges all that is left: the trace ends.
    pub fn finish(&mut self, now_ns: u64, inventory: &Inventory) -> Vec<Flow> {
        let closed = self.close_all(now_ns, inventory, &mut |_| None);
        self.judge(closed, inventory)
    }

    /// The flows that are over or quiet at `now_ns`, to be handed to [`Trace::judge`]: before that
    /// their namespaces can be asked ([`crate::attribute::doubts`]). `read` asks the taps for their
    /// last counts.
    pub fn close(
        &mut self,
        now_ns: u64,
        inventory: &Inventory,
        read: &mut ReadCounter<'_>,
    ) -> Vec<Closed> {
        self.look(inventory);
        let mut closed = self.correlator.advance(now_ns, inventory);
        let counts = recount(&mut closed, read);
        if let Some(journal) = &mut self.journal {
            journal.advance(Asked { now_ns, counts }, !closed.is_empty());
        }
        closed
    }

    /// As [`Trace::close`], all that is left.
    pub fn close_all(
        &mut self,
        now_ns: u64,
        inventory: &Inventory,
        read: &mut ReadCounter<'_>,
    ) -> Vec<Closed> {
        self.look(inventory);
        let mut closed = self.correlator.finish(now_ns, inventory);
        let counts = recount(&mut closed, read);
        self.note(|| Record::Finish(Asked { now_ns, counts }));
        closed
    }

    /// Judges flows that are over.
    pub fn judge(&mut self, closed: Vec<Closed>, inventory: &Inventory) -> Vec<Flow> {
        let parts = self.judge_parts(closed, inventory);
        parts.into_iter().map(|(_, flow)| flow).collect()
    }

    /// As [`Trace::judge`], with all that was sighted of each flow.
    pub fn judge_parts(&mut self, closed: Vec<Closed>, inventory: &Inventory) -> Vec<Part> {
        if !closed.is_empty() {
            self.look(inventory);
            self.note(|| Record::Judge(Settled::of(&closed)));
        }
        let relations = self.relations_of(&closed);
        let flows = self.flows_of(&closed, &relations, inventory);
        let seen = flows.len();
        // What a proxy may have opened is told only where it has.
        let is_told = |relation: &Relation| !relation.unasked || relation.joined.is_some();
        let mut parts = Vec::new();
        for ((closed, mut flow), relation) in closed.into_iter().zip(flows).zip(&relations) {
            if !self.wanted.wants(&flow) || !is_told(relation) {
                continue;
            }
            if !relation.unasked {
                self.checks.mark(&mut flow, inventory);
            }
            self.groups.add(&flow);
            point::sums(&mut self.point_sums, &flow);
            parts.push((closed, flow));
        }
        self.reported += parts.len() as u64;
        self.left_out += (seen - parts.len()) as u64;
        parts
    }

    /// What is known of these flows as sides of proxies: of all of them before the first is judged.
    fn relations_of(&mut self, closed: &[Closed]) -> Vec<Relation> {
        for closed in closed {
            self.relations.keep(&closed.journey);
        }
        let live = |netns, tuple| self.correlator.live(netns, tuple);
        let journeys = closed.iter().map(|c| &c.journey);
        journeys.map(|j| self.relations.of(j, &live)).collect()
    }

    fn flows_of(
        &mut self,
        closed: &[Closed],
        relations: &[Relation],
        inventory: &Inventory,
    ) -> Vec<Flow> {
        let hits: Vec<Vec<&RuleHit>> = closed.iter().map(|c| self.hits.of(&c.journey)).collect();
        let begun = closed.iter().map(|c| c.journey.first_ns);
        let then: Vec<Cow<'_, Inventory>> = begun.map(|at| inventory.as_of(at)).collect();
        let rules = Consulted::new(&self.rulebook);
        let mut observed = Vec::new();
        let flows = closed
            .iter()
            .zip(&hits)
            .zip(&then)
            .zip(relations)
            .map(|(((closed, hits), then), relation)| {
                let context = Context {
                    inventory: then,
                    realtime_offset_ns: self.realtime_offset_ns,
                    lost: self.losses.during(&closed.journey),
                    unavailable: &self.unavailable,
                    rules: &rules,
                    hits,
                    points: &self.points,
                    relation,
                };
                let flow = verdict::judge(closed, &context);
                let hits = hits.iter().map(|hit| (*hit).clone());
                observed.extend(hits.map(|hit| (flow.id.clone(), hit)));
                flow
            })
            .collect();
        self.observed.append(&mut observed);
        flows
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

/// Asks the taps for their last counts; gives what they answered.
fn recount(closed: &mut [Closed], read: &mut ReadCounter<'_>) -> Vec<Count> {
    let mut counts = Vec::new();
    let mut noting = noting(read, &mut counts);
    closed.iter_mut().for_each(|flow| flow.recount(&mut noting));
    drop(noting);
    counts
}
