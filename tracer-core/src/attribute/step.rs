//! One step of a packet between two sightings, and the two ends of a tuple that it may change.

use crate::event::{Conntrack, Dir, NetnsId};
use crate::inventory::Inventory;
use crate::journey::{Hop, Place};
use crate::packet::Tuple;
use crate::report::{RewriteField, RewriteHook};
use std::net::SocketAddr;

/// One step of a packet: from a sighting, or the unsighted, to the next.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) from: Option<&'a Hop>,
    pub(super) to: Option<&'a Hop>,
    pub(super) before: Tuple,
    pub(super) after: Tuple,
    /// A traffic-control program's doing: the device's two taps differ.
    pub(super) tc: Option<&'a Hop>,
    /// The packet went on, though that was not sighted.
    pub(super) forwarded: bool,
    /// The part of the way between the sightings.
    pub(super) part: Part,
}

/// A part of the way between two sightings, by what conntrack knows of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Before conntrack saw it.
    Early,
    /// After translation.
    Late,
}

/// One side of a device where programs may sit, and which of them come into question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) place: Place,
    pub(super) seat: Seat,
}

/// Where on a device's side, seen from our own traffic-control tap there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// Before any tap.
    Wire,
    /// Between the tracepoint of a device that packets come in by and our tap, or before our tap
    /// on the way out.
    BeforeOurs,
    /// Behind it.
    AfterOurs,
    /// We have none.
    Anywhere,
}

impl Step<'_> {
    /// The namespace in which the change happened, where both sides are in one.
    pub(super) fn netns(&self) -> Option<NetnsId> {
        if let Some(hop) = self.tc {
            return Some(hop.place.netns);
        }
        match (self.from, self.to) {
            (Some(a), Some(b)) => (a.place.netns == b.place.netns).then_some(a.place.netns),
            (Some(one), None) | (None, Some(one)) => Some(one.place.netns),
            (None, None) => None,
        }
    }

    /// The namespace to blame: between two of them, the one that the packet came to.
    pub(super) fn settled_in(&self) -> Option<NetnsId> {
        self.netns().or(self.to.map(|h| h.place.netns))
    }

    /// The same step in the parts that the packet's own entry tells apart: conntrack saw it as
    /// `seen` and made `out` of it.
    pub(super) fn parts(self) -> Vec<Self> {
        let within = self.tc.is_none() && self.from.is_some() && self.netns().is_some();
        let own = self.to.and_then(Hop::conntrack).filter(|_| within);
        let Some(own) = own else { return vec![self] };
        let (seen, out) = tracked(own, self.before, self.after);
        let part = |before, after, part| Self {
            before,
            after,
            part,
            ..self
        };
        match (seen == self.before, out == self.after) {
            (false, true) => {
                let first = part(self.before, seen, Part::Early);
                vec![first, part(seen, self.after, Part::Whole)]
            }
            (true, false) => {
                let last = part(out, self.after, Part::Late);
                vec![part(self.before, out, Part::Whole), last]
            }
            _ => vec![self],
        }
    }

    /// Whether netfilter's translation lies outside this step: by where it is, or because the packet's
    /// own entry says what that did.
    pub(super) fn is_beyond_netfilter(&self) -> bool {
        self.tc.is_some() || self.part != Part::Whole || self.netns().is_none()
    }

    /// Where programs may have done it.
    pub(super) fn points(&self, inventory: &Inventory) -> Vec<Point> {
        let at = |hop: &Hop, seat| Point {
            place: hop.place,
            seat,
        };
        if let Some(hop) = self.tc {
            return vec![match hop.place.dir {
                Dir::Ingress => at(hop, Seat::BeforeOurs),
                Dir::Egress => at(hop, Seat::AfterOurs),
            }];
        }
        let to = self.to;
        if let Some(to) = to.filter(|to| self.netns().is_none() && to.place.dir == Dir::Ingress) {
            let pair = self.from.is_some_and(|from| {
                let peer = inventory.peer(from.place.netns, from.place.ifindex);
                peer == Some((to.place.netns, to.place.ifindex))
            });
            return pair.then(|| at(to, Seat::Wire)).into_iter().collect();
        }
        if self.netns().is_none() {
            return Vec::new();
        }
        let came = self.from.filter(|hop| hop.place.dir == Dir::Ingress);
        let left = to.filter(|hop| hop.place.dir == Dir::Egress);
        let came = came.map(|hop| at(hop, seat(hop, Seat::AfterOurs)));
        let left = left.map(|hop| at(hop, seat(hop, Seat::BeforeOurs)));
        came.filter(|_| self.part != Part::Late)
            .into_iter()
            .chain(left.filter(|_| self.part != Part::Early))
            .collect()
    }

    /// netfilter's hook: by where the packet came from and where it goes.
    pub(super) fn hook(&self, side: Side) -> RewriteHook {
        let came_in = match (self.from, self.to) {
            (Some(from), _) => from.place.dir == Dir::Ingress,
            (None, to) => to.is_some_and(|h| !h.local),
        };
        match side {
            Side::Destination if came_in => RewriteHook::Prerouting,
            Side::Destination => RewriteHook::Output,
            Side::Source if self.to.is_none() && !self.forwarded => RewriteHook::Input,
            Side::Source => RewriteHook::Postrouting,
        }
    }
}

/// What an entry saw of its packet, and what it makes of it.
fn ends(own: &Conntrack) -> (Tuple, Tuple) {
    if own.is_reply {
        (own.reply, own.orig.reversed())
    } else {
        (own.orig, own.reply.reversed())
    }
}

/// The packet as netfilter had it, between two sightings around it: where one of them shows an
/// address that its own entry does not know, something else changed it before or after. With both
/// unknown to it, the entry is no guide.
pub(super) fn tracked(own: &Conntrack, before: Tuple, after: Tuple) -> (Tuple, Tuple) {
    let (seen, out) = ends(own);
    let is_foreign = |tuple: Tuple| {
        [Side::Source, Side::Destination].into_iter().any(|side| {
            let end = side.of(tuple);
            end != side.of(seen) && end != side.of(out)
        })
    };
    match (is_foreign(before), is_foreign(after)) {
        (true, false) => (seen, after),
        (false, true) => (before, out),
        _ => (before, after),
    }
}

fn seat(hop: &Hop, beside_ours: Seat) -> Seat {
    if hop.has_tc_tap() {
        beside_ours
    } else {
        Seat::Anywhere
    }
}

pub(super) fn tc_hook(dir: Dir) -> RewriteHook {
    match dir {
        Dir::Ingress => RewriteHook::TcIngress,
        Dir::Egress => RewriteHook::TcEgress,
    }
}

#[derive(Clone, Copy)]
pub(super) enum Side {
    Source,
    Destination,
}

impl Side {
    pub(super) fn of(self, tuple: Tuple) -> SocketAddr {
        match self {
            Self::Source => tuple.source(),
            Self::Destination => tuple.destination(),
        }
    }

    pub(super) fn field(self, address: bool) -> RewriteField {
        match (self, address) {
            (Self::Source, true) => RewriteField::Src,
            (Self::Source, false) => RewriteField::Sport,
            (Self::Destination, true) => RewriteField::Dst,
            (Self::Destination, false) => RewriteField::Dport,
        }
    }
}
