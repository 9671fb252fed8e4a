//! A place at which a flow's first packet was sighted.

use super::counter::Counter;
use super::place::Place;
use super::print;
use super::taps::Taps;
use crate::event::{self, Conntrack, Dir, Event, Fingerprint, Outer, Tap, Tcp};
use crate::packet::Tuple;
use std::sync::Arc;

/// A sighting of the first packet. Both taps of a device's side are one hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where.
    pub place: Place,
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// TTL or hop limit here.
    pub ttl: u8,
    /// The packet's mark.
    pub mark: Option<u32>,
    /// The conntrack entry it carried, which the hops of a way share.
    conntrack: Option<Arc<Conntrack>>,
    /// Whether no entry is known to mean that there was none.
    pub conntrack_known: bool,
    /// The packet that it was inside of here; the mark is then that one's.
    pub outer: Option<Box<Outer>>,
    /// Whether the packet was made on this host.
    pub local: bool,
    /// The packet's tuple at each tap.
    taps: Taps,
    pub(super) print: Fingerprint,
    counted: Counter,
    /// Whether the tracepoint counted: it counts every packet, a tc tap only those it looks at.
    counted_all: bool,
    /// Whether the tap's counters hold more than this flow's packets.
    shared: bool,
    /// Later fragments have a tuple, and so counters, of their own.
    fragments: Option<Box<Counter>>,
    /// Another packet's sighting, in a gap of the first packet's way.
    pub(super) filled: bool,
}

/// What a tap had counted of a flow at its first event there. Where the counters hold more than the
/// flow's packets, they count from here.
fn first_count(event: &Event, shared: bool) -> Counter {
    let opens = event.print.tcp.is_some_and(|t| t.has(Tcp::SYN));
    let mut counted = Counter::default();
    if shared || (opens && !event.reasons.is_retransmission()) {
        counted = Counter::from(event);
    }
    counted.raise(event.packets, event.bytes);
    counted
}

/// The entry that a sighting shows: that of a hop before, where it is the same.
fn entry_of(event: &Event, before: &[Hop]) -> Option<Arc<Conntrack>> {
    let entry = event.conntrack.as_ref()?;
    let known = before.iter().filter_map(|hop| hop.conntrack.as_ref());
    let same = known.rev().find(|known| known.as_ref() == entry);
    Some(same.map_or_else(|| Arc::new(*entry), Arc::clone))
}

impl Hop {
    /// `before`: hops of the same way.
    pub(super) fn new(
        event: &Event,
        place: Place,
        reused: bool,
        filled: bool,
        before: &[Self],
    ) -> Self {
        let shared = reused || event.tuple == event.tuple.reversed();
        Self {
            place,
            time_ns: event.time_ns,
            ttl: event.print.ttl,
            mark: event.mark,
            conntrack: entry_of(event, before),
            conntrack_known: event.conntrack_known,
            outer: event.outer.clone(),
            // Before a received packet's device is noted, every packet looks local.
            local: event.local && place.dir == Dir::Egress,
            taps: Taps::of(event.tap, event.tuple),
            print: event.print,
            counted: first_count(event, shared),
            counted_all: event.tap.counts_all(),
            shared,
            fragments: None,
            filled,
        }
    }

    /// The conntrack entry that the packet carried.
    #[must_use]
    pub fn conntrack(&self) -> Option<&Conntrack> {
        self.conntrack.as_deref()
    }

    /// The tuples at this side's taps, in the order in which the packet met them. Two that differ
    /// are the doing of a traffic-control program on the device.
    pub fn tuples(&self) -> impl DoubleEndedIterator<Item = Tuple> + '_ {
        self.taps.both().into_iter().flatten()
    }

    /// The packet as it was on the device's wire, where that tap saw it.
    #[must_use]
    pub fn tuple(&self) -> Option<Tuple> {
        match self.place.dir {
            Dir::Ingress => self.tuples().next(),
            Dir::Egress => self.tuples().next_back(),
        }
    }

    /// Whether a traffic-control tap of ours saw it.
    #[must_use]
    pub fn has_tc_tap(&self) -> bool {
        let tc = match self.place.dir {
            Dir::Ingress => Tap::TcIngress,
            Dir::Egress => Tap::TcEgress,
        };
        self.taps.at(tc).is_some()
    }

    /// The tap that saw that.
    #[must_use]
    pub fn wire_tap(&self) -> Tap {
        let [first, second] = self.taps.both();
        match self.place.dir {
            Dir::Ingress if first.is_some() => Tap::Receive,
            Dir::Ingress => Tap::TcIngress,
            Dir::Egress if second.is_some() => Tap::Transmit,
            Dir::Egress => Tap::TcEgress,
        }
    }

    /// Wire packets of the flow here.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.counted.packets() + self.fragments.as_deref().map_or(0, Counter::packets)
    }

    /// Bytes (from the network header) of the flow here.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counted.bytes() + self.fragments.as_deref().map_or(0, Counter::bytes)
    }

    /// What no translator touches in the packet.
    #[must_use]
    pub fn print(&self) -> &Fingerprint {
        &self.print
    }

    /// Whether this is another packet's sighting: its time says nothing about the first packet.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        self.filled
    }

    /// Whether an event shows the packet that this hop was made of.
    pub(super) fn is_print_of(&self, event: &Event) -> bool {
        print::same(&self.print, &event.print)
    }

    /// What to ask its tap on the wire for: how many packets of this tuple passed.
    pub(super) fn question(&self) -> Option<event::Counter> {
        let place = self.place;
        Some(event::Counter {
            tuple: self.tuple()?,
            netns: place.netns,
            ifindex: place.ifindex,
            tap: self.wire_tap(),
        })
    }

    /// Raises the counters; gives whether they grew.
    pub(super) fn count(&mut self, packets: u64, bytes: u64) -> bool {
        self.counted.raise(packets, bytes)
    }

    /// Counts a later fragment, by the counters of its own tuple.
    pub(super) fn count_fragment(&mut self, event: &Event) {
        self.fragments
            .get_or_insert_with(|| Box::new(Counter::from(event)))
            .raise(event.packets, event.bytes);
    }

    /// Takes in the counters of an event: those of a tc tap only as long as there are no others.
    fn count_event(&mut self, event: &Event) {
        match (self.counted_all, event.tap.counts_all()) {
            (false, true) => {
                self.counted_all = true;
                self.counted = first_count(event, self.shared);
            }
            (true, false) => {}
            _ => {
                self.count(event.packets, event.bytes);
            }
        }
    }

    /// Takes in what another part of the flow knows of this place.
    pub(super) fn merge(&mut self, other: &Self) {
        self.local |= other.local;
        if self.conntrack.is_none() {
            self.conntrack.clone_from(&other.conntrack);
        }
        match (self.counted_all, other.counted_all) {
            (true, false) => {}
            (false, true) => {
                self.counted_all = true;
                self.counted = other.counted;
            }
            _ => self.counted.merge(&other.counted),
        }
        match (&mut self.fragments, &other.fragments) {
            (Some(own), Some(new)) => own.merge(new),
            (own, new) => *own = own.take().or_else(|| new.clone()),
        }
        self.taps.merge(&other.taps);
    }

    /// Whether an event shows the hop's packet once more and not a retransmission.
    fn is_copy(&self, event: &Event) -> bool {
        event.time_ns <= self.time_ns.saturating_add(COPY_NS)
            && !event.reasons.is_retransmission()
            && self.is_print_of(event)
    }

    pub(super) fn again(&mut self, event: &Event) -> Sighted {
        // Only the tracepoint can tell.
        self.local |= event.local && self.place.dir == Dir::Egress;
        let copy = self.is_copy(event);
        let same = self.is_print_of(event);
        self.count_event(event);
        let sighted = match self.taps.at(event.tap) {
            None => Sighted::OtherTap,
            Some(tuple) if tuple == event.tuple => Sighted::Again,
            Some(_) if copy => Sighted::Fork,
            Some(_) => Sighted::Changed,
        };
        if sighted == Sighted::OtherTap && same {
            self.taps.merge(&Taps::of(event.tap, event.tuple));
        }
        if self.conntrack.is_none() && same {
            self.conntrack = entry_of(event, &[]);
        }
        sighted
    }
}

/// What a sighting was to its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sighted {
    /// A place that was not met before.
    NewPlace,
    /// A known place's other tap.
    OtherTap,
    /// A known place and tuple.
    Again,
    /// A known place with another tuple, later on.
    Changed,
    /// A known place with another tuple at once: the packet was forked.
    Fork,
    /// A new place that a later packet met: no hop of the first packet's.
    Elsewhere,
}

/// Copies of a packet follow it at once; what looks the same later was sent again.
const COPY_NS: u64 = 100_000_000;
