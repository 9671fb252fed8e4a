//! Where addresses changed: the differences between consecutive sightings, and what the
//! conntrack entries say. A change is pinned to a namespace, a hook and an agent only where that
//! was shown; the rest stays "unknown", known `between` two hops.

mod crossed;
mod outer;
mod passage;
mod place;
mod ruling;
mod seen_rule;
mod step;
mod stopped;
mod suspect;
mod vanished;

pub use outer::outer_rule;
pub use passage::Passage;
pub use place::{role_word, whose};
pub(crate) use seen_rule::evidence;
pub use suspect::{Change, Doubt, Suspect, doubts, name_programs};
pub(crate) use vanished::vanished;

pub use ruling::{Consulted, Ruling, name_rules, rulings, view};
pub(crate) use ruling::{hook, is_service};
pub(crate) use stopped::would_stop;
pub use stopped::{Stopped, Stopper, stopped};

use crate::event::{Conntrack, Dir, NetnsId, Tap};
use crate::inventory::Inventory;
use crate::journey::{Direction, Hop, Journey, Place};
use crate::packet::Tuple;
use crate::report::{
    AddrPort, Rewrite, RewriteAgent, RewriteDirection, RewriteEvidence, RewriteHook,
};
use std::net::SocketAddr;
use step::{Part, Side, Step, tc_hook};

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
    let entry = last.conntrack().filter(|ct| ct.is_reply);
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
    entries(journey, first.place.netns, first.conntrack())
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
pub fn changes(journey: &Journey, inventory: &Inventory) -> Vec<Change> {
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
    found: &'a mut Vec<Change>,
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
                    part: Part::Whole,
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
                part: Part::Whole,
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
                forwarded: match self.direction {
                    Direction::Request => left_unseen(journey).is_some(),
                    Direction::Reply => is_forwarded(journey),
                },
                part: Part::Whole,
            });
        }
    }

    /// The destination is translated before the route is chosen, the source after.
    fn step(&mut self, step: &Step<'a>) {
        if step.before == step.after {
            return;
        }
        for step in step.parts() {
            let (b, a) = (step.before, step.after);
            self.change(&step, Side::Destination, b.destination(), a.destination());
            self.change(&step, Side::Source, b.source(), a.source());
        }
    }

    fn change(&mut self, step: &Step<'a>, side: Side, from: SocketAddr, to: SocketAddr) {
        if from == to {
            return;
        }
        let netns = step.netns();
        let whole = step.tc.is_none() && step.part == Part::Whole;
        let shown = netns.filter(|_| whole);
        let shown = shown.and_then(|ns| self.shown(step, side, ns));
        let (agent, hook) = match (step.tc, &shown) {
            (Some(hop), _) => (RewriteAgent::TcBpf, Some(tc_hook(hop.place.dir))),
            (None, Some(shown)) if shown.is_by_ipvs(side) => {
                (RewriteAgent::Ipvs, Some(ipvs_hook(self.direction)))
            }
            (None, Some(_)) => (RewriteAgent::Netfilter, Some(step.hook(side))),
            (None, None) => (RewriteAgent::Unknown, None),
        };
        let number = |hop: Option<&Hop>| hop.and_then(|h| number_at(self.journey, h.place));
        let rewrite = Rewrite {
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
        };
        let change = Change::new(rewrite, step, self.inventory);
        self.found.push(change);
    }

    /// The entry of the namespace that makes just this change.
    fn shown(&self, step: &Step<'a>, side: Side, netns: NetnsId) -> Option<Shown<'a>> {
        let own = step.to.and_then(Hop::conntrack);
        entries(self.journey, netns, own).find_map(|ct| {
            let mut ways = [(ct.orig, false), (ct.reply, true)].into_iter();
            let made = |tuple| {
                through(ct, tuple).is_some_and(|after| {
                    side.of(tuple) == side.of(step.before) && side.of(after) == side.of(step.after)
                })
            };
            let (_, is_reply) = ways.find(|(tuple, _)| made(*tuple))?;
            Some(Shown { ct, is_reply })
        })
    }
}

/// An entry that makes a change, to packets of its one direction or the other.
struct Shown<'a> {
    ct: &'a Conntrack,
    is_reply: bool,
}

impl Shown<'_> {
    fn is_by_ipvs(&self, side: Side) -> bool {
        let of_destination = matches!(side, Side::Destination) != self.is_reply;
        of_destination && is_balanced(self.ct)
    }
}

/// Whether IPVS changed the destination, of an entry that has another one than was asked for. IPVS writes where it
/// sends a connection into its entry (`ip_vs_update_conntrack`), but only netfilter's NAT sets the bit that says so.
fn is_balanced(ct: &Conntrack) -> bool {
    ct.status & Conntrack::DST_NAT == 0
}

/// IPVS translates what would be delivered to the Service's address, which is the node's own, and
/// the replies that the node forwards (`ip_vs_ops4`).
fn ipvs_hook(direction: Direction) -> RewriteHook {
    match direction {
        Direction::Request => RewriteHook::Input,
        Direction::Reply => RewriteHook::Forward,
    }
}

/// The hop at which an answer from beyond was sighted first, in the namespace in which the request was
/// sighted last, coming in: so the request went on, by a way that no tap can read (encrypted by
/// IPsec, or redirected by a program).
#[must_use]
pub fn left_unseen(journey: &Journey) -> Option<&Hop> {
    let last = journey.request.hops().last()?;
    let first = journey.reply.hops().first()?;
    let from_beyond = match first.place.dir {
        Dir::Ingress => first.place.ifindex != last.place.ifindex,
        // Only the tracepoint knows what was made here.
        Dir::Egress => first.wire_tap() == Tap::Transmit && !first.local,
    };
    // In a capture, neither namespaces are known nor what was made there.
    let same = first.place.netns == last.place.netns && last.place.netns.0 != 0;
    (same && from_beyond && last.place.dir == Dir::Ingress).then_some(first)
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
