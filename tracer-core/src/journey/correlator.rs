//! Events in, told journeys out.

use super::asked::{ASKED_NS, Asker};
use super::bindings::{Bindings, Lookup};
use super::notes::{Candidates, FragmentKey, SkbNote};
use super::order::Reorder;
use super::place::Place;
use super::print::Mark;
use super::resolve::Found;
use super::slab::{FlowRef, Slab};
use super::tracked::{News, Tracked, predates};
use super::{Closed, Direction, Journey, ReadCounter, Settings, Stats};
use crate::event::{Conntrack, DropEvent, Event, NetnsId};
use crate::inventory::Inventory;
use crate::packet::Tuple;
use crate::recent::Recent;
use crate::report::End;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// How long a packet's buffer is taken for the same packet, at most.
const SKB_NS: u64 = 1_000_000_000;
/// How long a fingerprint is looked for at another point.
const MARK_NS: u64 = 2_000_000_000;
/// How long an entry that was asked for is kept for the packet's flow.
const ENTRY_NS: u64 = 2_000_000_000;
/// Most tuples that are bound to one flow, each with its reverse (a few more where an entry adds its own).
const MAX_KEYS: usize = 64;
/// Most notes of each kind: as many as a table has room for before it doubles.
const MAX_NOTES: usize = (1 << 16) / 8 * 7;

/// Joins sightings into flows.
#[derive(Debug)]
pub struct Correlator {
    pub(super) settings: Settings,
    order: Reorder,
    pub(super) flows: Slab<Tracked>,
    pub(super) bindings: Bindings,
    pub(super) skbs: Recent<u64, SkbNote>,
    /// Whether a packet's buffer tells it from others. A capture's packets have none.
    pub(super) has_buffers: bool,
    pub(super) marks: Recent<Mark, Candidates>,
    pub(super) fragments: Recent<FragmentKey, (FlowRef, Direction)>,
    pub(super) asked: Recent<Asker, FlowRef>,
    /// Entries that the kernel was asked for, by the tuple of the packet.
    entries: Recent<(NetnsId, Tuple), Conntrack>,
    /// Drops that wait until everything older has been processed, by time and arrival.
    pub(super) drops: BTreeMap<(u64, u64), DropEvent>,
    pub(super) timers: BinaryHeap<Reverse<(u64, FlowRef)>>,
    /// How many were left when they were last looked through.
    pub(super) timers_kept: usize,
    /// Flows that were told, by the second (of their time) in which they may be forgotten, in the order in which they
    /// were told.
    pub(super) remembered: BTreeMap<u64, VecDeque<FlowRef>>,
    /// Everything up to this time has been processed.
    clock_ns: u64,
    pub(super) stats: Stats,
}

impl Correlator {
    /// An empty one.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            order: Reorder::default(),
            flows: Slab::new(),
            bindings: Bindings::default(),
            skbs: Recent::new(SKB_NS, MAX_NOTES),
            has_buffers: true,
            marks: Recent::new(MARK_NS, MAX_NOTES),
            fragments: Recent::new(SKB_NS, MAX_NOTES),
            asked: Recent::new(ASKED_NS, MAX_NOTES),
            entries: Recent::new(ENTRY_NS, MAX_NOTES),
            drops: BTreeMap::new(),
            timers: BinaryHeap::new(),
            timers_kept: 0,
            remembered: BTreeMap::new(),
            clock_ns: 0,
            stats: Stats::default(),
        }
    }

    /// Events come of a capture: the address of a packet's buffer is only its number there, and no two have the same.
    pub fn without_buffers(&mut self) {
        self.has_buffers = false;
    }

    /// Takes an event in. Nothing is told before [`Correlator::advance`]; where that is not called
    /// often enough to keep within `max_held`, `true` asks for it.
    #[must_use = "memory grows until the events are processed"]
    pub fn push(&mut self, event: Event) -> bool {
        if event.time_ns < self.clock_ns {
            self.stats.late += 1;
        }
        self.order.push(event);
        self.order.len() >= self.settings.max_held
    }

    /// Takes in the entry that a namespace has for the packet of `event`, which showed none itself:
    /// the kernel was asked a moment later. To be called before [`Correlator::push`].
    pub fn entry(&mut self, event: &Event, entry: Conntrack) {
        if let Some(netns) = event.netns {
            self.entries
                .note(event.time_ns, (netns, event.tuple), entry);
        }
    }

    /// Processes what is older than the reorder window at `now_ns`, and tells the flows that are
    /// over or quiet by then, in the order in which that became so.
    pub fn advance(&mut self, now_ns: u64, inventory: &Inventory) -> Vec<Closed> {
        let mut told = Vec::new();
        let mark_ns = Reorder::whole(now_ns.saturating_sub(self.settings.reorder_ns));
        self.run_to(mark_ns, inventory, &mut told);
        told
    }

    /// Processes everything and tells every flow: those that are not over as `trace-ended`.
    pub fn finish(&mut self, now_ns: u64, inventory: &Inventory) -> Vec<Closed> {
        let mut told = Vec::new();
        self.run_to(Reorder::whole(now_ns), inventory, &mut told);
        self.run_events(u64::MAX, inventory, &mut told);
        self.fire(now_ns, &mut told);
        while let Some(Reverse((time, at))) = self.timers.pop() {
            if self.flows.get(at).is_some_and(|f| f.timer_ns == time) {
                self.tell(at, Some(End::TraceEnded), &mut told);
            }
        }
        self.forget_all();
        // Not in the order of timers: by the time of their first packet.
        told.sort_by_key(|c| c.end == End::TraceEnded);
        let open = told.partition_point(|c| c.end != End::TraceEnded);
        for closed in &mut told[open..] {
            closed.at_ns = now_ns.max(closed.at_ns);
        }
        told[open..].sort_by_key(|c| (c.journey.first_ns, c.journey.opened));
        told
    }

    /// The flow of a tuple in a namespace that was not told yet.
    #[must_use]
    pub fn live(&self, netns: NetnsId, tuple: Tuple) -> Option<&Journey> {
        let Lookup::One(at, _) = self.bindings.find(netns, 0, tuple) else {
            return None;
        };
        self.flows.get(at)?.journey.as_deref()
    }

    /// Reads the counters of the flows that were not told yet. One whose counters grew is not quiet.
    pub fn recount(&mut self, now_ns: u64, read: &mut ReadCounter<'_>) {
        for flow in self.flows.iter_mut() {
            if flow.journey.as_deref_mut().is_some_and(|j| j.recount(read)) {
                flow.last_ns = flow.last_ns.max(now_ns);
            }
        }
    }

    /// What is held now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            followed: self.flows.len(),
            bound: self.bindings.len(),
            held: self.order.len(),
            ..self.stats
        }
    }

    fn run_to(&mut self, mark_ns: u64, inventory: &Inventory, told: &mut Vec<Closed>) {
        self.run_events(mark_ns, inventory, told);
        if self.order.len() > self.settings.max_held {
            // Events from the future, or far too many at once: memory goes before order.
            self.run_events(u64::MAX, inventory, told);
        }
        self.fire(mark_ns, told);
        self.clock_ns = self.clock_ns.max(mark_ns);
    }

    fn run_events(&mut self, mark_ns: u64, inventory: &Inventory, told: &mut Vec<Closed>) {
        while let Some(slice) = self.order.ripe(mark_ns) {
            for event in slice.iter() {
                self.take_drops(event.time_ns, told);
                self.fire(event.time_ns, told);
                self.take(event, inventory, told);
            }
            self.order.recycle(slice);
        }
        self.take_drops(mark_ns, told);
    }

    fn take(&mut self, event: &Event, inventory: &Inventory, told: &mut Vec<Closed>) {
        let place = Place::of(event);
        match self.resolve(event, place, inventory) {
            Found::Flow(at, dir) => self.join(event, place, at, dir, false),
            // A tuple that was found without its zone is not bound in it.
            Found::Bound(at, dir) => self.join(event, place, at, dir, zone(event) == 0),
            Found::Error(at, about) => self.refuse(event, place, at, about),
            Found::Joins { whole, part, dir } => {
                self.merge(whole, part);
                self.join(event, place, whole, dir, false);
            }
            Found::Rivals(flows) => {
                self.stats.stray += 1;
                self.doubt(&flows);
            }
            Found::Opens { dir, doubted } => {
                self.make_room(told);
                self.open(event, place, dir, &doubted);
            }
            Found::Nothing => self.stats.stray += 1,
        }
    }

    /// Begins a flow.
    fn open(&mut self, event: &Event, place: Place, dir: Direction, doubted: &[FlowRef]) {
        self.stats.seen += 1;
        let zone = zone(event);
        let before = match self.bindings.find(place.netns, zone, event.tuple) {
            Lookup::One(before, d) => Some((before, d)),
            _ => None,
        };
        let at = self.flows.insert(Tracked::new(
            (event.time_ns, event.tuple, dir),
            predates(&event.print, event.tuple.proto, dir),
            before.is_some(),
        ));
        if let Some((before, d)) = before {
            self.supersede(event, place, before, d, at);
        }
        if !doubted.is_empty() {
            self.doubt(doubted);
            self.doubt(&[at]);
        }
        self.join(event, place, at, dir, false);
    }

    /// A tuple is used anew: its earlier flow is over. Unless that is alive somewhere else: then
    /// there are two networks with equal addresses in one namespace, and nobody can tell them apart.
    fn supersede(&mut self, event: &Event, place: Place, old: FlowRef, d: Direction, new: FlowRef) {
        let Some(flow) = self.flows.get_mut(old) else {
            return;
        };
        let Some(journey) = flow.journey.as_deref_mut() else {
            return;
        };
        let elsewhere = journey.way(d).at(place).is_none();
        let alive = journey.exchange.closed_ns.is_none()
            && flow.last_ns.saturating_add(SKB_NS) >= event.time_ns;
        if elsewhere && alive {
            self.doubt(&[old, new]);
            return;
        }
        journey.exchange.closed_ns.get_or_insert(event.time_ns);
        self.schedule(old);
    }

    fn join(&mut self, event: &Event, place: Place, at: FlowRef, dir: Direction, bound: bool) {
        let Some(flow) = self.flows.get_mut(at) else {
            return;
        };
        let mut news = flow.take(event, place, dir);
        let asked = (place.netns, event.tuple);
        if let Some(entry) = self.entries.get(event.time_ns, &asked) {
            flow.prove(place.netns, *entry);
        }
        news.tuple &= !bound;
        if news.tuple && dir == Direction::Request {
            self.note_asked(event, place, at);
        }
        if news != News::default() {
            self.learn(event, place, at, dir, news);
        }
        self.remember(event, place, at, Some(dir));
        self.schedule(at);
    }

    fn refuse(&mut self, event: &Event, place: Place, at: FlowRef, about: Option<Direction>) {
        if let Some(flow) = self.flows.get_mut(at) {
            flow.refused(event, place, about);
            self.remember(event, place, at, None);
            self.schedule(at);
        }
    }

    /// Binds what the sighting taught: its tuple both ways, and the entry's four.
    fn learn(&mut self, event: &Event, place: Place, at: FlowRef, dir: Direction, news: News) {
        let Some(flow) = self.flows.get_mut(at) else {
            return;
        };
        let keys = &mut flow.keys;
        if keys.len() >= MAX_KEYS {
            return;
        }
        let zone = zone(event);
        let mut bind = |tuple: Tuple, dir: Direction| {
            self.bindings.bind(place.netns, zone, tuple, at, dir, keys);
        };
        if news.tuple {
            bind(event.tuple, dir);
        }
        if let Some(ct) = event.conntrack.filter(|_| news.conntrack) {
            let request = dir.flipped_if(ct.is_reply);
            let known = [event.tuple, event.tuple.reversed()];
            for (tuple, dir) in [(ct.orig, request), (ct.reply, request.flipped())] {
                if !known.contains(&tuple) {
                    bind(tuple, dir);
                }
            }
        }
    }

    fn doubt(&mut self, flows: &[FlowRef]) {
        for at in flows {
            let flow = self.flows.get_mut(*at);
            if let Some(journey) = flow.and_then(|f| f.journey.as_deref_mut()) {
                journey.ambiguous = true;
            }
        }
    }
}

/// The conntrack zone of a sighting; 0 for the default zone and where it is not known.
pub(super) fn zone(event: &Event) -> u16 {
    event.conntrack.and_then(|ct| ct.zone).unwrap_or(0)
}
