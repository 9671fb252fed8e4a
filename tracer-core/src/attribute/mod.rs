//! Where addresses changed: the differences between consecutive sightings, and what the
//! conntrack entries say. A change is pinned to a namespace, a hook and an agent only where that
//! was shown; the rest stays "unknown", known `between` two hops.

mod passage;
mod place;
mod ruling;
mod seen_rule;
mod step;
mod vanished;

pub use passage::Passage;
pub use place::{role_word, whose};
pub(crate) use seen_rule::was_met;
pub(crate) use vanished::vanished;

pub use ruling::{Consulted, Ruling, name_rules, rulings, view};

use crate::event::{Conntrack, Dir, NetnsId};
use crate::inventory::Inventory;
use crate::journey::{Direction, Hop, Journey, Place};
use crate::packet::Tuple;
use crate::report::{AddrPort, Rewrite, RewriteAgent, RewriteDirection, RewriteEvidence};
use std::net::SocketAddr;
use step::{Side, Step, tc_hook};

/// The request as its origin sent it.
#[must_use]
pub fn original(journey: &Journey) -> Tuple {
    if let Some(first) = journey.request.hops().first() {
        return before_first(journey, first)
            .or_else(|| first.tuples().next())
            .unwrap_or(journey.opened);
    }
    // It died before it was sighted: its entry knows what it was.
    let died = journey
        .losses
        .iter()
        .find(|l| l.direction == Direction::Request);
    if let Some(ct) = died
        .and_then(|l| l.first.conntrack)
        .filter(|ct| !ct.is_reply)
    {
        return ct.orig;
    }
    // Only replies were sighted: the last of them is the nearest to the origin.
    let Some(last) = journey.reply.hops().last() else {
        return journey.opened;
    };
    let entry = last.conntrack.filter(|ct| ct.is_reply);
    entry
        .map(|ct| ct.orig)
        .or_else(|| last.tuples().next_back().map(Tuple::reversed))
        .unwrap_or(journey.opened)
}

/// What a conntrack entry makes of a packet.
fn through(ct: &Conntrack, tuple: Tuple) -> Option<Tuple> {
    if ct.orig == tuple {
        Some(ct.reply.reversed())
    } else if ct.reply == tuple {
        Some(ct.orig.reversed())
    } else {
        None
    }
}

/// The tuple that a packet had before its first sighting, from its entry: on a packet that was
/// made here, translation is over before any tap sees it.
fn before_first(journey: &Journey, first: &Hop) -> Option<Tuple> {
    if first.place.dir != Dir::Egress {
        return None;
    }
    let now = first.tuples().next()?;
    entries(journey, first.place.netns, first.conntrack.as_ref())
        .flat_map(|ct| [(ct.orig, ct), (ct.reply, ct)])
        .find(|(before, ct)| *before != now && through(ct, *before) == Some(now))
        .map(|(before, _)| before)
}

/// The entries of a namespace, the packet's own first.
fn entries<'a>(
    journey: &'a Journey,
    netns: NetnsId,
    own: Option<&'a Conntrack>,
) -> impl Iterator<Item = &'a Conntrack> {
    let others = journey.conntracks.iter();
    own.into_iter()
        .chain(others.filter(move |(ns, _)| *ns == netns).map(|(_, ct)| ct))
}

/// Every change of address or port, request first, in the order in which the packets met them.
#[must_use]
pub fn rewrites(journey: &Journey, inventory: &Inventory) -> Vec<Rewrite> {
    let mut found = Vec::new();
    for direction in [Direction::Request, Direction::Reply] {
        Walk {
            journey,
            inventory,
            direction,
            found: &mut found,
        }
        .walk();
    }
    found
}

/// The number of the request hop at a device, from 1.
#[must_use]
pub fn number_at(journey: &Journey, place: Place) -> Option<u32> {
    let hops = journey.request.hops();
    let exact = hops.iter().position(|h| h.place == place);
    let device = |h: &Hop| h.place.netns == place.netns && h.place.ifindex == place.ifindex;
    exact
        .or_else(|| hops.iter().position(device))
        .and_then(|i| u32::try_from(i + 1).ok())
}

struct Walk<'a> {
    journey: &'a Journey,
    inventory: &'a Inventory,
    direction: Direction,
    found: &'a mut Vec<Rewrite>,
}

impl<'a> Walk<'a> {
    fn walk(&mut self) {
        let journey = self.journey;
        let hops = journey.way(self.direction).hops();
        let mut previous: Option<(&Hop, Tuple)> = None;
        for (i, hop) in hops.iter().enumerate() {
            let (Some(enters), Some(leaves)) = (hop.tuples().next(), hop.tuples().next_back())
            else {
                continue;
            };
            let before = match previous {
                Some((_, tuple)) => Some(tuple),
                None => before_first(journey, hop),
            };
            let from = previous.map(|(hop, _)| hop);
            if let Some(before) = before {
                self.step(&Step {
                    from,
                    to: Some(hop),
                    before,
                    after: enters,
                    tc: None,
                    forwarded: false,
                });
            }
            let (tc_from, tc_to) = match hop.place.dir {
                Dir::Egress => (from, Some(hop)),
                Dir::Ingress => (Some(hop), hops.get(i + 1)),
            };
            self.step(&Step {
                from: tc_from,
                to: tc_to,
                before: enters,
                after: leaves,
                tc: Some(hop),
                forwarded: false,
            });
            previous = Some((hop, leaves));
        }
        if let Some((last, tuple)) = previous.filter(|(h, _)| h.place.dir == Dir::Ingress) {
            self.delivered(last, tuple);
        }
    }

    /// A packet that ends in a namespace may be translated for a local socket after its last
    /// sighting: the entry of its replies tells.
    fn delivered(&mut self, last: &'a Hop, tuple: Tuple) {
        let journey = self.journey;
        let after = entries(journey, last.place.netns, None).find_map(|ct| through(ct, tuple));
        if let Some(after) = after {
            self.step(&Step {
                from: Some(last),
                to: None,
                before: tuple,
                after,
                tc: None,
                forwarded: self.direction == Direction::Reply && is_forwarded(journey),
            });
        }
    }

    /// The destination is translated before the route is chosen, the source after.
    fn step(&mut self, step: &Step<'_>) {
        let (b, a) = (step.before, step.after);
        self.change(step, Side::Destination, b.destination(), a.destination());
        self.change(step, Side::Source, b.source(), a.source());
    }

    fn change(&mut self, step: &Step<'_>, side: Side, from: SocketAddr, to: SocketAddr) {
        if from == to {
            return;
        }
        let netns = step.netns();
        let shown = netns.filter(|ns| step.tc.is_none() && self.shown(step, side, *ns));
        let (agent, hook) = match (step.tc, shown) {
            (Some(hop), _) => (RewriteAgent::TcBpf, Some(tc_hook(hop.place.dir))),
            (None, Some(_)) => (RewriteAgent::Netfilter, Some(step.hook(side))),
            (None, None) => (RewriteAgent::Unknown, None),
        };
        let number = |hop: Option<&Hop>| hop.and_then(|h| number_at(self.journey, h.place));
        self.found.push(Rewrite {
            direction: match self.direction {
                Direction::Request => RewriteDirection::Request,
                Direction::Reply => RewriteDirection::Reply,
            },
            field: side.field(from.ip() != to.ip()),
            from: addr_port(from),
            to: addr_port(to),
            between: [number(step.from), number(step.to)],
            place: whose(self.journey, self.inventory, step.settled_in()),
            netns: netns.map(|ns| ns.0),
            hook,
            agent,
            rule: None,
            marked_by: None,
            program: None,
            evidence: match shown {
                Some(_) => RewriteEvidence::Conntrack,
                None => RewriteEvidence::Between,
            },
        });
    }

    /// Whether an entry of the namespace makes just this change.
    fn shown(&self, step: &Step<'_>, side: Side, netns: NetnsId) -> bool {
        let own = step.to.and_then(|h| h.conntrack.as_ref());
        entries(self.journey, netns, own).any(|ct| {
            [ct.orig, ct.reply].into_iter().any(|tuple| {
                through(ct, tuple).is_some_and(|after| {
                    side.of(tuple) == side.of(step.before) && side.of(after) == side.of(step.after)
                })
            })
        })
    }
}

/// Whether the request had come in by a device before its first sighting, which was at egress.
fn is_forwarded(journey: &Journey) -> bool {
    let first = journey.request.hops().first();
    first.is_some_and(|h| h.place.dir == Dir::Egress && !h.local)
}

fn addr_port(socket: SocketAddr) -> AddrPort {
    AddrPort {
        addr: socket.ip(),
        port: socket.port(),
    }
}
