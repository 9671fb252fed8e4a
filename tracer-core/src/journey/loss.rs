//! Packets of a flow that the kernel threw away, and such as left untranslated.

use super::bindings::Lookup;
use super::correlator::Correlator;
use super::place::Place;
use super::print;
use super::slab::FlowRef;
use super::tracked::{Tracked, predates};
use super::{Closed, Direction, IcmpAnswer, Journey};
use crate::event::{Conntrack, Dir, DropEvent, Event, Matched, NetnsId, Tcp};
use crate::packet::{Proto, Tuple};

/// Most kinds of drops that are remembered of one flow.
const MAX_LOSSES: usize = 16;
/// Most drops that wait to be processed.
const MAX_WAITING: usize = 1 << 14;

/// Packets of one flow that died at one place for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which way they went.
    pub direction: Direction,
    /// The last sighting of the first of them.
    pub after: Option<Place>,
    /// Their namespace: the kernel's word, or that of the last sighting.
    pub netns: Option<NetnsId>,
    /// The first of them.
    pub first: DropEvent,
    /// How many.
    pub count: u64,
    /// When the last of them died, CLOCK_MONOTONIC nanoseconds.
    pub last_ns: u64,
}

/// A packet that left a namespace untranslated, though the flow is translated there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leak {
    /// Where it left.
    pub place: Place,
    /// As what.
    pub tuple: Tuple,
    /// Its TCP flags, if it is TCP.
    pub flags: Option<u8>,
}

impl Correlator {
    /// Takes a drop in.
    pub fn push_drop(&mut self, drop: DropEvent) {
        if self.drops.len() < MAX_WAITING {
            let arrival = self.drops.len() as u64;
            let mut key = (drop.time_ns, arrival);
            while self.drops.contains_key(&key) {
                key.1 += 1;
            }
            self.drops.insert(key, drop);
        }
    }

    /// Processes the drops up to a time.
    pub(super) fn take_drops(&mut self, mark_ns: u64, told: &mut Vec<Closed>) {
        while self
            .drops
            .first_key_value()
            .is_some_and(|((time, _), _)| *time <= mark_ns)
        {
            if let Some((_, drop)) = self.drops.pop_first() {
                self.fire(drop.time_ns, told);
                self.lose(drop, told);
            }
        }
    }

    fn lose(&mut self, drop: DropEvent, told: &mut Vec<Closed>) {
        if drop.quoted.is_some() && !says_too_big(&drop) {
            return; // redirects and the like: whether they arrive changes nothing
        }
        let note = self
            .skbs
            .get(drop.time_ns, &drop.skb)
            .filter(|note| print::same(&note.print, &drop.print));
        let (after, by_skb) = (
            note.map(|note| note.place),
            note.and_then(|note| Some((note.flow, note.dir?))),
        );
        let netns = drop.netns.or(after.map(|place| place.netns));
        let found = by_skb
            .filter(|(at, dir)| self.belongs(*at, &drop, *dir))
            .or_else(|| self.whose(&drop, netns?));
        let at = match found {
            Some(found) => Some(found),
            None if opens(&drop) => {
                self.make_room(told);
                Some((self.begin(&drop, netns), Direction::Request))
            }
            None => None,
        };
        let Some((at, dir)) = at else {
            self.stats.stray += 1;
            return;
        };
        if let Some(flow) = self.flows.get_mut(at) {
            flow.lose(drop, dir, after, netns);
        }
        self.schedule(at);
    }

    fn belongs(&self, at: FlowRef, drop: &DropEvent, dir: Direction) -> bool {
        self.flows.get(at).is_some_and(|f| f.fits(&drop.print, dir))
    }

    /// By the tuple (or the quoted one) in its namespace, else by its conntrack entry.
    fn whose(&self, drop: &DropEvent, netns: NetnsId) -> Option<(FlowRef, Direction)> {
        if let Some(quoted) = drop.quoted {
            return match self.bindings.find(netns, 0, quoted) {
                Lookup::One(at, Direction::Request) => Some((at, Direction::Reply)),
                _ => None,
            };
        }
        let zone = drop.conntrack.and_then(|ct| ct.zone).unwrap_or(0);
        let one = |tuple| match self.bindings.find(netns, zone, tuple) {
            Lookup::One(at, dir) => Some((at, dir)),
            _ => None,
        };
        let by_entry = |ct: Conntrack| {
            let original = one(ct.orig).map(|(at, dir)| (at, dir.flipped_if(ct.is_reply)));
            original.or_else(|| one(ct.reply).map(|(at, dir)| (at, dir.flipped_if(!ct.is_reply))))
        };
        one(drop.tuple)
            .or_else(|| drop.conntrack.and_then(by_entry))
            .filter(|(at, dir)| self.belongs(*at, drop, *dir))
    }

    /// A flow whose first packet died before any tap saw it.
    fn begin(&mut self, drop: &DropEvent, netns: Option<NetnsId>) -> FlowRef {
        self.stats.seen += 1;
        let dir = Direction::Request;
        let predates = predates(&drop.print, drop.tuple.proto, dir);
        let first = (drop.time_ns, drop.tuple, dir);
        let at = self.flows.insert(Tracked::new(first, predates, false));
        if let (Some(flow), Some(netns)) = (self.flows.get_mut(at), netns) {
            let zone = drop.conntrack.and_then(|ct| ct.zone).unwrap_or(0);
            let keys = &mut flow.keys;
            self.bindings.bind(netns, zone, drop.tuple, at, dir, keys);
        }
        at
    }
}

/// An ICMP error on whose arrival a sender depends.
fn says_too_big(drop: &DropEvent) -> bool {
    let v6 = drop.tuple.proto == Proto::ICMPV6;
    drop.print.icmp.is_some_and(|icmp| {
        let answer = IcmpAnswer {
            from: drop.tuple.src,
            v6,
            kind: icmp.kind,
            code: icmp.code,
        };
        answer.is_too_big()
    })
}

/// Whether a packet that belongs to no flow would have begun one.
fn opens(drop: &DropEvent) -> bool {
    let v6 = drop.tuple.proto == Proto::ICMPV6;
    let begins = match (drop.print.tcp, drop.print.icmp) {
        (Some(tcp), _) => tcp.is_syn(),
        (None, Some(icmp)) => icmp.is_echo_request(v6),
        (None, None) => true,
    };
    drop.matched == Matched::Forward && drop.quoted.is_none() && begins
}

impl Tracked {
    /// Takes in a packet of the flow that died.
    fn lose(
        &mut self,
        drop: DropEvent,
        dir: Direction,
        after: Option<Place>,
        netns: Option<NetnsId>,
    ) {
        self.last_ns = self.last_ns.max(drop.time_ns);
        let Some(journey) = self.journey.as_deref_mut() else {
            return;
        };
        journey.last_ns = self.last_ns;
        journey.exchange.lose(&drop.print, dir);
        let known = journey
            .losses
            .iter_mut()
            .find(|loss| loss.is_like(&drop, dir, netns));
        if let Some(loss) = known {
            loss.count = drop.count.max(loss.count + 1);
            loss.last_ns = drop.time_ns;
        } else if journey.losses.len() < MAX_LOSSES {
            let after = after.or_else(|| last_in(journey, dir, netns?, &drop));
            journey.losses.push(Loss {
                direction: dir,
                after,
                netns,
                count: drop.count,
                last_ns: drop.time_ns,
                first: drop,
            });
        }
    }
}

impl Loss {
    fn is_like(&self, drop: &DropEvent, dir: Direction, netns: Option<NetnsId>) -> bool {
        let first = &self.first;
        (self.direction, self.netns) == (dir, netns)
            && first.quoted.is_some() == drop.quoted.is_some()
            && first.reason_number == drop.reason_number
            && first.address == drop.address
    }
}

/// Where packets of this direction were last sighted in a namespace. One that was made there and
/// died there was not sighted before.
fn last_in(journey: &Journey, dir: Direction, netns: NetnsId, drop: &DropEvent) -> Option<Place> {
    let hops = journey.way(dir).hops().iter().rev();
    let mut here = hops.filter(|h| h.place.netns == netns);
    here.find(|h| !drop.local || h.place.dir == Dir::Egress)
        .map(|h| h.place)
}

/// Notes a request that leaves as it came, where an entry of that namespace translates the flow:
/// it had no entry (INVALID), so its translation was not asked for.
pub(super) fn note_leak(journey: &mut Journey, event: &Event, place: Place, dir: Direction) {
    let untracked = event.conntrack_known && event.conntrack.is_none();
    if dir == Direction::Reply || place.dir == Dir::Ingress || !untracked || journey.leak.is_some()
    {
        return;
    }
    let translated = journey.conntracks.iter().any(|(netns, ct)| {
        *netns == place.netns
            && ct.status & Conntrack::SRC_NAT != 0
            && ct.orig == event.tuple
            && ct.translated_source() != event.tuple.source()
    });
    if translated {
        journey.leak = Some(Leak {
            place,
            tuple: event.tuple,
            flags: event
                .print
                .tcp
                .map(|t| t.flags & (Tcp::SYN | Tcp::FIN | Tcp::RST)),
        });
    }
}
