//! One step of a packet between two sightings, and the two ends of a tuple that it may change.

use crate::event::{Dir, NetnsId};
use crate::journey::Hop;
use crate::packet::Tuple;
use crate::report::{RewriteField, RewriteHook};
use std::net::SocketAddr;

/// One step of a packet: from a sighting, or the unsighted, to the next.
pub(super) struct Step<'a> {
    pub(super) from: Option<&'a Hop>,
    pub(super) to: Option<&'a Hop>,
    pub(super) before: Tuple,
    pub(super) after: Tuple,
    /// A traffic-control program's doing: the device's two taps differ.
    pub(super) tc: Option<&'a Hop>,
    /// The packet went on, though that was not sighted.
    pub(super) forwarded: bool,
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
