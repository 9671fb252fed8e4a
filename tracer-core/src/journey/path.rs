//! The way of a flow's first packet in one direction: the places at which it was sighted.

use super::hop::{Hop, Sighted};
use super::place::Place;
use super::print;
use crate::event::{Dir, Event, NetnsId, Tcp};

/// The way in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    hops: Vec<Hop>,
    /// A copy of the packet took another way as well.
    pub forked: bool,
}

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

    pub(super) fn first_mut(&mut self) -> Option<&mut Hop> {
        self.hops.first_mut()
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
        let hop = Hop::new(event, place, reused, filled, &self.hops);
        self.insert(position, hop);
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
                self.insert(self.position(hop.ttl, hop.place), hop);
            }
        }
    }

    /// Most ways that a capture shows have one hop, and very many are remembered: room is made for no more. Those
    /// that have another have several.
    fn insert(&mut self, position: usize, hop: Hop) {
        if self.hops.len() == self.hops.capacity() {
            let more = match self.hops.len() {
                0 => 1,
                len => len.max(4),
            };
            self.hops.reserve_exact(more);
        }
        self.hops.insert(position, hop);
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
