//! A recording told again: the same inputs, so the same report.

use super::{Asked, Clock, Header, Reading, Record, Settings};
use crate::contract::Checker;
use crate::event::{Counter, NetnsId};
use crate::expect::Expectations;
use crate::inventory::Inventory;
use crate::journey::{self, Closed, ReadCounter};
use crate::report::{Flow, Summary};
use crate::ruleset::Ruleset;
use crate::trace::{Checks, Trace};
use std::collections::BTreeMap;

/// A flow as it was judged, with all that was sighted of it.
pub type Part = (Closed, Flow);

/// Events are processed at the latest when there are so many more than the settings allow: a live run
/// takes in a handful after that.
const SLACK: usize = 4096;

/// However many there are, each remembers so many flows.
const FEWEST_FLOWS: usize = 8192;

/// A run that happens again.
#[derive(Debug)]
pub struct Replay {
    header: Header,
    trace: Trace,
    inventory: Inventory,
    rules: BTreeMap<NetnsId, Ruleset>,
    /// Flows that are over and not judged yet.
    closed: Vec<Closed>,
    max_held: usize,
    now_ns: u64,
    received: u64,
    lost: u64,
    finished: bool,
    summary: Option<Summary>,
}

impl Replay {
    /// As it was when the recording began.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self::one_of(header, 1)
    }

    /// One of so many that happen side by side: together they remember as many flows as one alone.
    #[must_use]
    pub fn one_of(header: Header, sources: usize) -> Self {
        let settings = bounded(header.settings.journey, sources);
        let mut trace = Trace::new(settings, header.clock.offset_ns());
        if header.captured.is_some() {
            trace.without_buffers();
        }
        trace.want(header.settings.wanted.clone());
        trace.check(checks(&header.settings));
        trace.name_points(header.settings.points.clone(), &header.host);
        Self {
            now_ns: header.clock.monotonic_ns,
            max_held: settings.max_held,
            header,
            trace,
            inventory: Inventory::default(),
            rules: BTreeMap::new(),
            closed: Vec::new(),
            received: 0,
            lost: 0,
            finished: false,
            summary: None,
        }
    }

    /// Who recorded, how and what.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The run so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The host at this moment.
    #[must_use]
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The rules of each namespace as they were read last.
    #[must_use]
    pub fn rules(&self) -> &BTreeMap<NetnsId, Ruleset> {
        &self.rules
    }

    /// Up to when it has come, CLOCK_MONOTONIC nanoseconds of that host.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Events taken in so far, and those that were lost.
    #[must_use]
    pub fn events(&self) -> (u64, u64) {
        (self.received, self.lost)
    }

    /// The run's own summary, once it has come.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Takes in the next record; gives the flows that are told then.
    pub fn take(&mut self, record: Record) -> Vec<Part> {
        self.take_counting(record, &mut |_| None)
    }

    /// As [`Replay::take`]; `counted` is asked what the record does not answer: what the taps counted by now.
    pub fn take_counting(&mut self, record: Record, counted: &mut ReadCounter<'_>) -> Vec<Part> {
        let over = self.take_unjudged(record, counted);
        self.judge(over)
    }

    /// As [`Replay::take_counting`], of the flows that are told then only what was sighted of them: judging takes
    /// most of the time, and not everybody needs it. [`Replay::judge`] makes up for it.
    pub fn take_unjudged(&mut self, record: Record, counted: &mut ReadCounter<'_>) -> Vec<Closed> {
        match record {
            Record::Header(_) => {}
            Record::Clock(Clock { monotonic_ns, .. }) => self.reach(monotonic_ns),
            Record::Inventory(change) => change.apply(&mut self.inventory),
            Record::Event(event) => {
                self.received += 1;
                if self.trace.push(*event) && self.trace.stats().held > self.max_held + SLACK {
                    self.close(&Asked::default(), counted);
                    return std::mem::take(&mut self.closed);
                }
            }
            Record::Entry(asked) => self.trace.entry(&asked.event, asked.entry),
            Record::Drop(drop) => {
                self.received += 1;
                self.trace.push_drop(*drop);
            }
            Record::Hit(hit) => self.trace.hit(*hit),
            Record::Socket(socket) => self.trace.socket(*socket),
            Record::Opening(opening) => self.trace.opening(*opening),
            Record::Lost(lost) => {
                self.lost = self.lost.saturating_add(lost.count);
                self.trace.lost(lost.from_ns, lost.to_ns, lost.count);
            }
            Record::Unavailable(what) => self.trace.unavailable(what),
            Record::Rules(reading) => self.read(*reading),
            Record::Recount(asked) => {
                self.reach(asked.now_ns);
                self.trace
                    .recount(asked.now_ns, &mut answers(&asked, counted));
            }
            Record::Advance(asked) => {
                self.reach(asked.now_ns);
                // Those before that nothing was asked about: captures ask nobody.
                let over = std::mem::take(&mut self.closed);
                self.close(&asked, counted);
                return over;
            }
            Record::Finish(asked) => {
                self.reach(asked.now_ns);
                let over = std::mem::take(&mut self.closed);
                self.close_all(&asked, counted);
                return over;
            }
            Record::Judge(settled) => {
                settled.tell(&mut self.closed);
                return std::mem::take(&mut self.closed);
            }
            Record::Summary(summary) => self.summary = Some(*summary),
        }
        Vec::new()
    }

    /// Nothing comes any more: tells what is left, where the recording did not.
    pub fn finish(&mut self) -> Vec<Part> {
        let over = self.finish_unjudged();
        self.judge(over)
    }

    /// As [`Replay::finish`], without judging: see [`Replay::take_unjudged`].
    pub fn finish_unjudged(&mut self) -> Vec<Closed> {
        let mut over = std::mem::take(&mut self.closed);
        if !self.finished {
            let asked = Asked {
                now_ns: self.now_ns,
                counts: Vec::new(),
            };
            self.close_all(&asked, &mut |_| None);
            over.append(&mut self.closed);
        }
        over
    }

    /// Judges flows that are over, in the order in which they were given.
    pub fn judge(&mut self, over: Vec<Closed>) -> Vec<Part> {
        if over.is_empty() {
            return Vec::new();
        }
        let parts = self.trace.judge_parts(over, &self.inventory);
        self.trace.take_observed();
        parts
    }

    fn close(&mut self, asked: &Asked, counted: &mut ReadCounter<'_>) {
        let mut read = answers(asked, counted);
        let closed = self.trace.close(self.now_ns, &self.inventory, &mut read);
        self.closed.extend(closed);
    }

    fn close_all(&mut self, asked: &Asked, counted: &mut ReadCounter<'_>) {
        self.finished = true;
        let mut read = answers(asked, counted);
        let closed = self
            .trace
            .close_all(self.now_ns, &self.inventory, &mut read);
        self.closed.extend(closed);
    }

    fn reach(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn read(&mut self, reading: Reading) {
        let Reading {
            netns,
            at_ns,
            rules,
            given_up,
        } = reading;
        if let Some(why) = given_up {
            return self.trace.rulebook().give_up(netns, why);
        }
        if let Some(rules) = &rules {
            self.rules.insert(netns, rules.clone());
        }
        if let Some(rules) = rules.or_else(|| self.rules.get(&netns).cloned()) {
            self.trace.rulebook().add(netns, at_ns, rules);
        }
    }
}

/// The answers come in the order of the questions; a tap that gave none is not among them.
fn answers<'a>(
    asked: &'a Asked,
    counted: &'a mut ReadCounter<'_>,
) -> impl FnMut(&Counter) -> Option<(u64, u64)> + 'a {
    let mut counts = asked.counts.iter().peekable();
    move |counter| match counts.next_if(|count| count.counter == *counter) {
        Some(count) => Some((count.packets, count.bytes)),
        None => counted(counter),
    }
}

fn checks(settings: &Settings) -> Checks {
    Checks {
        expectations: Expectations::new(settings.expectations.iter().copied()),
        contract: settings.contract.clone().map(Checker::new),
        peer_saw: settings.peer_saw,
    }
}

/// A file does not say how much memory is used.
fn bounded(settings: journey::Settings, sources: usize) -> journey::Settings {
    let most = journey::Settings::default();
    let share = (most.max_flows / sources.max(1)).max(FEWEST_FLOWS);
    journey::Settings {
        max_flows: settings.max_flows.min(share),
        max_held: settings.max_held.min(most.max_held),
        ..settings
    }
}
