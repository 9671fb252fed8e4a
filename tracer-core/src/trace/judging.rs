//! Flows that are over: out of the correlator, judged, counted into groups and sums.

use super::Trace;
use crate::attribute::Consulted;
use crate::inventory::Inventory;
use crate::journey::{Closed, ReadCounter};
use crate::observed::RuleHit;
use crate::point;
use crate::proxy::Relation;
use crate::recording::{Asked, Count, Part, Record, Settled, noting};
use crate::report::Flow;
use crate::verdict::{self, Context};
use std::borrow::Cow;

impl Trace {
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
        let mut parts = Vec::with_capacity(seen);
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
}

/// Asks the taps for their last counts; gives what they answered.
fn recount(closed: &mut [Closed], read: &mut ReadCounter<'_>) -> Vec<Count> {
    let mut counts = Vec::new();
    let mut noting = noting(read, &mut counts);
    closed.iter_mut().for_each(|flow| flow.recount(&mut noting));
    drop(noting);
    counts
}
