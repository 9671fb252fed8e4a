//! Which flow a sighting belongs to.

use super::Direction;
use super::bindings::Lookup;
use super::correlator::{Correlator, zone};
use super::notes::{SkbNote, continues, fragment_key};
use super::place::Place;
use super::print::{self, Mark};
use super::slab::FlowRef;
use crate::event::{Dir, Event, Fragment, Matched};
use crate::inventory::Inventory;
use crate::packet::Proto;

/// What was resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A packet of a flow.
    Flow(FlowRef, Direction),
    /// A packet of a flow whose tuple is bound to it here.
    Bound(FlowRef, Direction),
    /// An ICMP error about a packet of a flow; its direction, where the quote told it.
    Error(FlowRef, Option<Direction>),
    /// A packet that shows two flows to be parts of one.
    Joins {
        whole: FlowRef,
        part: FlowRef,
        dir: Direction,
    },
    /// One of two flows, and it cannot be told which.
    Rivals([FlowRef; 2]),
    /// The first packet of a flow; `doubted` fit as well.
    Opens {
        dir: Direction,
        doubted: Vec<FlowRef>,
    },
    /// None of ours.
    Nothing,
}

impl Correlator {
    pub(super) fn resolve(&self, event: &Event, place: Place, inventory: &Inventory) -> Found {
        if let Some(quoted) = event.quoted.as_deref() {
            return match self.bindings.find(place.netns, 0, *quoted) {
                Lookup::One(at, dir) => Found::Error(at, Some(dir)),
                Lookup::Two(a, b) => Found::Rivals([a, b]),
                Lookup::Nothing => self
                    .by_skb(event, place, inventory)
                    .map_or(Found::Nothing, |note| Found::Error(note.flow, None)),
            };
        }
        if event.print.fragment == Fragment::Later {
            return self.by_fragment(event, place, inventory);
        }
        match self.known(event, place, inventory) {
            Found::Nothing => self.opens(event, place, inventory),
            Found::Flow(at, dir) => Found::Flow(at, echo_direction(event).unwrap_or(dir)),
            Found::Bound(at, dir) => Found::Bound(at, echo_direction(event).unwrap_or(dir)),
            found => found,
        }
    }

    fn known(&self, event: &Event, place: Place, inventory: &Inventory) -> Found {
        let by_skb = self
            .by_skb(event, place, inventory)
            .and_then(|note| Some((note.flow, note.dir?)))
            .filter(|(at, dir)| self.fits(*at, event, *dir));
        let by_tuple = self.bindings.find(place.netns, zone(event), event.tuple);
        match (by_tuple, by_skb) {
            (Lookup::One(at, dir), None) if self.fits(at, event, dir) => Found::Bound(at, dir),
            (Lookup::One(at, dir), Some((other, _))) if at == other => Found::Bound(at, dir),
            (Lookup::One(at, dir), Some((other, other_dir))) => {
                if self.fits(at, event, dir) {
                    if dir == other_dir && self.are_parts(at, other, dir, place) {
                        return Found::Joins {
                            whole: at,
                            part: other,
                            dir,
                        };
                    }
                    Found::Rivals([at, other])
                } else {
                    // The tuple's earlier flow; this is its next one.
                    by_skb.map_or(Found::Nothing, |(at, dir)| Found::Flow(at, dir))
                }
            }
            (_, Some((at, dir))) => Found::Flow(at, dir),
            (Lookup::Two(a, b), None) => Found::Rivals([a, b]),
            (_, None) => self.by_conntrack(event, place),
        }
    }

    fn fits(&self, at: FlowRef, event: &Event, dir: Direction) -> bool {
        self.flows
            .get(at)
            .is_some_and(|f| f.fits(&event.print, dir))
    }

    fn by_skb(&self, event: &Event, place: Place, inventory: &Inventory) -> Option<&SkbNote> {
        self.skbs
            .get(event.time_ns, &event.skb)
            .filter(|note| print::same(&note.print, &event.print))
            .filter(|note| continues(note, event, place, inventory))
    }

    fn by_conntrack(&self, event: &Event, place: Place) -> Found {
        let Some(ct) = event.conntrack else {
            return Found::Nothing;
        };
        let found =
            [(ct.orig, false), (ct.reply, true)]
                .into_iter()
                .find_map(|(tuple, is_reply)| {
                    match self.bindings.find(place.netns, zone(event), tuple) {
                        Lookup::One(at, dir) => {
                            // The found tuple's direction is the entry's; the packet has its own.
                            let dir = dir.flipped_if(is_reply != ct.is_reply);
                            self.fits(at, event, dir).then_some((at, dir))
                        }
                        _ => None,
                    }
                });
        found.map_or(Found::Nothing, |(at, dir)| Found::Flow(at, dir))
    }

    fn by_fragment(&self, event: &Event, place: Place, inventory: &Inventory) -> Found {
        let by_id = fragment_key(event, place)
            .and_then(|key| self.fragments.get(event.time_ns, &key).copied());
        let by_skb = || {
            let note = self.by_skb(event, place, inventory)?;
            Some((note.flow, note.dir?))
        };
        match by_id.or_else(by_skb) {
            Some((at, dir)) => Found::Flow(at, dir),
            None => Found::Nothing,
        }
    }

    /// The packet may have a new buffer: XDP on the other end of a pair, a tunnel, a tap device.
    fn by_print(
        &self,
        event: &Event,
        place: Place,
        inventory: &Inventory,
    ) -> Vec<(FlowRef, Direction)> {
        let peer = inventory
            .peer(place.netns, place.ifindex)
            .map(|(netns, ifindex)| Place {
                netns,
                ifindex,
                dir: place.dir.other(),
            });
        let across = peer.and_then(|peer| {
            let Lookup::One(at, dir) = self.bindings.find(peer.netns, 0, event.tuple) else {
                return None;
            };
            let journey = self.flows.get(at)?.journey.as_deref()?;
            let hop = journey.way(dir).at(peer)?;
            (hop.is_print_of(event) && self.fits(at, event, dir)).then_some((at, dir))
        });
        if let Some(found) = across {
            return vec![found];
        }
        let candidates = Mark::of(event).and_then(|m| self.marks.get(event.time_ns, &m));
        let near = |&(at, dir): &(FlowRef, Direction)| {
            self.flows.get(at).is_some_and(|flow| {
                let Some(journey) = flow.journey.as_deref() else {
                    return false;
                };
                let way = journey.way(dir);
                let here = way.visits(place.netns)
                    && (event.print.tcp.is_some() || (place.dir == Dir::Egress && !event.local));
                let pair = peer.is_some_and(|p| way.at(p).is_some());
                (here || pair)
                    && flow.fits(&event.print, dir)
                    && flow.knows_far_end(event.tuple, dir)
            })
        };
        candidates
            .map(|c| c.0.into_iter().flatten().filter(near).collect())
            .unwrap_or_default()
    }

    fn opens(&self, event: &Event, place: Place, inventory: &Inventory) -> Found {
        let near = self.by_print(event, place, inventory);
        if let [(at, dir)] = near[..] {
            return Found::Flow(at, dir);
        }
        let dir = self.opening_direction(event, place);
        let reply = dir.filter(|dir| *dir == Direction::Reply);
        if let Some(at) = reply.and_then(|_| self.waiting_for(event, place)) {
            return Found::Flow(at, Direction::Reply);
        }
        match dir {
            Some(dir) => Found::Opens {
                dir,
                doubted: near.into_iter().map(|(at, _)| at).collect(),
            },
            None => Found::Nothing,
        }
    }

    /// Whether a packet that fits no flow begins one, and which way it goes.
    fn opening_direction(&self, event: &Event, place: Place) -> Option<Direction> {
        let by_filter = match event.matched {
            Matched::Forward | Matched::Opened => Direction::Request,
            Matched::Reverse => Direction::Reply,
            Matched::Conntrack => {
                Direction::Request.flipped_if(event.conntrack.is_some_and(|ct| ct.is_reply))
            }
            Matched::Learned | Matched::Skb | Matched::Quoted => return None,
        };
        if event.tuple.proto.is_icmp() {
            return echo_direction(event);
        }
        match event.print.tcp {
            Some(tcp) if tcp.is_syn() => Some(Direction::Request),
            Some(tcp) if tcp.is_syn_ack() => {
                // An answer to a connection of this tuple that is over begins nothing.
                let known = self.bindings.find(place.netns, zone(event), event.tuple);
                (known == Lookup::Nothing).then_some(Direction::Reply)
            }
            _ => Some(by_filter),
        }
    }
}

/// An echo tells its direction itself; on loopback its tuple is the same both ways.
fn echo_direction(event: &Event) -> Option<Direction> {
    let icmp = event.print.icmp?;
    let v6 = event.tuple.proto == Proto::ICMPV6;
    if icmp.is_echo_request(v6) {
        Some(Direction::Request)
    } else {
        icmp.is_echo_reply(v6).then_some(Direction::Reply)
    }
}
