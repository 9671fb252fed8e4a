//! The way of a flow's first packet in one direction: the places at which it was sighted.

use super::counter::Counter;
use super::place::Place;
use super::print;
use crate::event::{Conntrack, Dir, Event, Fingerprint, NetnsId, Tap, Tcp};
use crate::packet::Tuple;

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
    /// The conntrack entry it carried.
    pub conntrack: Option<Conntrack>,
    /// Whether `conntrack: None` is known to mean that there was none.
    pub conntrack_known: bool,
    /// Whether the packet was made on this host.
    pub local: bool,
    /// The packet's tuple at the tap it meets first and at the one it meets second.
    taps: [Option<Tuple>; 2],
    print: Fingerprint,
    counted: Counter,
    /// Later fragments have a tuple, and so counters, of their own.
    fragments: Counter,
    /// Another packet's sighting, in a gap of the first packet's way.
    filled: bool,
}

/// Which of a side's two taps a packet meets first: at ingress the tracepoint, at egress ours.
fn rank(tap: Tap) -> usize {
    match tap {
        Tap::Receive | Tap::TcEgress => 0,
        Tap::TcIngress | Tap::Transmit => 1,
    }
}

impl Hop {
    fn new(event: &Event, place: Place, reused: bool, filled: bool) -> Self {
        let opens = event.print.tcp.is_some_and(|t| t.has(Tcp::SYN));
        // Where the tap's counters hold more than this flow's packets, they count from here.
        let shared = reused || event.tuple == event.tuple.reversed();
        let from_here = shared || (opens && !event.reasons.is_retransmission());
        let mut hop = Self {
            place,
            time_ns: event.time_ns,
            ttl: event.print.ttl,
            mark: event.mark,
            conntrack: event.conntrack,
            conntrack_known: event.conntrack_known,
            // Before a received packet's device is noted, every packet looks local.
            local: event.local && place.dir == Dir::Egress,
            taps: [None; 2],
            print: event.print,
            counted: if from_here {
                Counter::from(event)
            } else {
                Counter::default()
            },
            fragments: Counter::default(),
            filled,
        };
        hop.taps[rank(event.tap)] = Some(event.tuple);
        hop.count(event.packets, event.bytes);
        hop
    }

    /// The tuples at this side's taps, in the order in which the packet met them. Two that differ
    /// are the doing of a traffic-control program on the device.
    pub fn tuples(&self) -> impl DoubleEndedIterator<Item = Tuple> + '_ {
        self.taps.iter().flatten().copied()
    }

    /// The packet as it was on the device's wire, where that tap saw it.
    #[must_use]
    pub fn tuple(&self) -> Option<Tuple> {
        match self.place.dir {
            Dir::Ingress => self.tuples().next(),
            Dir::Egress => self.tuples().next_back(),
        }
    }

    /// The tap that saw that.
    #[must_use]
    pub fn wire_tap(&self) -> Tap {
        let [first, second] = self.taps;
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
        self.counted.packets() + self.fragments.packets()
    }

    /// Bytes (from the network header) of the flow here.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counted.bytes() + self.fragments.bytes()
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

    /// Raises the counters; gives whether they grew.
    pub(super) fn count(&mut self, packets: u64, bytes: u64) -> bool {
        self.counted.raise(packets, bytes)
    }

    /// Counts a later fragment, by the counters of its own tuple.
    pub(super) fn count_fragment(&mut self, event: &Event) {
        if self.fragments == Counter::default() {
            self.fragments = Counter::from(event);
        }
        self.fragments.raise(event.packets, event.bytes);
    }

    /// Takes in what another part of the flow knows of this place.
    fn merge(&mut self, other: &Self) {
        self.local |= other.local;
        self.conntrack = self.conntrack.or(other.conntrack);
        self.counted.merge(&other.counted);
        self.fragments.merge(&other.fragments);
        for (own, new) in self.taps.iter_mut().zip(other.taps) {
            *own = own.or(new);
        }
    }

    /// Whether an event shows the hop's packet once more and not a retransmission.
    fn is_copy(&self, event: &Event) -> bool {
        event.time_ns <= self.time_ns.saturating_add(COPY_NS)
            && !event.reasons.is_retransmission()
            && self.is_print_of(event)
    }

    fn again(&mut self, event: &Event) -> Sighted {
        // Only the tracepoint can tell.
        self.local |= event.local && self.place.dir == Dir::Egress;
        let copy = self.is_copy(event);
        let same = self.is_print_of(event);
        self.count(event.packets, event.bytes);
        let tap = &mut self.taps[rank(event.tap)];
        let sighted = match tap {
            None => Sighted::OtherTap,
            Some(tuple) if *tuple == event.tuple => Sighted::Again,
            Some(_) if copy => Sighted::Fork,
            Some(_) => Sighted::Changed,
        };
        if sighted == Sighted::OtherTap && same {
            *tap = Some(event.tuple);
        }
        if self.conntrack.is_none() && same {
            self.conntrack = event.conntrack;
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

/// The way in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    hops: Vec<Hop>,
    /// A copy of the packet took another way as well.
    pub forked: bool,
}

/// Copies of a packet follow it at once; what looks the same later was sent again.
const COPY_NS: u64 = 100_000_000;
/// Longest way that is remembered.
const MAX_HOPS: usize = 32;
/// A later packet may fill a gap in the way of a flow whose first packet is not known, this long.
const FILL_NS: u64 = 1_000_000_000;

impl Way {
    /// The hops, in the order in which the packet met them.
    #[must_use]
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Whether anything was sighted in this direction.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    pub(super) fn visits(&self, netns: NetnsId) -> bool {
        self.hops.iter().any(|h| h.place.netns == netns)
    }

    pub(crate) fn at(&self, place: Place) -> Option<&Hop> {
        self.hops.iter().find(|h| h.place == place)
    }

    pub(super) fn at_mut(&mut self, place: Place) -> Option<&mut Hop> {
        self.hops.iter_mut().find(|h| h.place == place)
    }

    pub(super) fn sight(&mut self, event: &Event, place: Place, reused: bool) -> Sighted {
        if let Some(known) = self.at_mut(place) {
            let sighted = known.again(event);
            self.forked |= sighted == Sighted::Fork;
            return sighted;
        }
        let (position, filled) = match self.hops.last() {
            None => (0, false),
            Some(last) if print::same(&last.print, &event.print) => (self.hops.len(), false),
            Some(_) if self.may_fill(event) => (self.position(event.print.ttl, place), true),
            Some(_) => return Sighted::Elsewhere,
        };
        if self.hops.len() >= MAX_HOPS {
            return Sighted::Elsewhere;
        }
        self.hops
            .insert(position, Hop::new(event, place, reused, filled));
        Sighted::NewPlace
    }

    /// Whether the way entered (or left) the namespace of a place by another device.
    pub(super) fn crosses(&self, place: Place) -> bool {
        self.hops.iter().any(|h| {
            let there = h.place;
            there != place && (there.netns, there.dir) == (place.netns, place.dir)
        })
    }

    /// Takes in the hops of another part of the same way.
    pub(super) fn absorb(&mut self, part: Self) {
        self.forked |= part.forked;
        for mut hop in part.hops {
            if let Some(known) = self.at_mut(hop.place) {
                known.merge(&hop);
            } else if self.hops.len() < MAX_HOPS {
                hop.filled = true;
                self.hops.insert(self.position(hop.ttl, hop.place), hop);
            }
        }
    }

    /// Taps arm within microseconds of each other, and a flow that runs already may show one packet
    /// to the first and another to the second. A flow that began under our eyes has no such gaps.
    fn may_fill(&self, event: &Event) -> bool {
        self.hops.first().is_some_and(|first| {
            !first.print.tcp.is_some_and(|t| t.has(Tcp::SYN))
                && event.time_ns <= first.time_ns.saturating_add(FILL_NS)
        })
    }

    /// Where a later packet's place belongs: routers lower the TTL, and between two of them a
    /// packet leaves one before it enters the next.
    fn position(&self, ttl: u8, place: Place) -> usize {
        let stage = |ttl: u8, dir: Dir| (u8::MAX - ttl, u8::from(dir == Dir::Ingress));
        let new = stage(ttl, place.dir);
        self.hops
            .iter()
            .position(|h| stage(h.ttl, h.place.dir) > new)
            .unwrap_or(self.hops.len())
    }
}
