//! The connections of processes, and how they began, as they are told; `choice` says which of them belong together.

mod choice;

use super::SocketEvent;
use super::opening::{Opening, Side as Begin};
use crate::event::{Event, Matched, NetnsId, Process, Tap};
use crate::journey::{Direction, Journey};
use crate::packet::Tuple;
use crate::verdict;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Most connections that are remembered of each kind, and most sources of a destination.
const MOST: usize = 4096;
const MOST_SOURCES: usize = 16;

/// A connection that a process accepted and used.
#[derive(Clone, Debug)]
struct Accepted {
    told: SocketEvent,
    over_ns: Option<u64>,
    begun: Option<Begun>,
}

/// A connection that a process opened.
#[derive(Clone, Debug)]
struct Opened {
    time_ns: u64,
    netns: NetnsId,
    tuple: Tuple,
    process: Process,
    asked: bool,
    begun: Option<Begun>,
}

/// How a connection began, both ways.
#[derive(Clone, Debug, Default)]
struct Begun {
    id: String,
    sides: [Begin; 2],
    sent: bool,
}

impl Begun {
    /// Whether one side of both sent the same bytes first.
    fn agrees(&self, other: &Self) -> bool {
        let mut sides = self.sides.iter().zip(&other.sides);
        sides.any(|(a, b)| a.digest().zip(b.digest()).is_some_and(|(a, b)| a.agrees(b)))
    }
}

/// The live flow of a tuple in a namespace, if there is one.
pub(in crate::proxy) type Live<'a> = dyn Fn(NetnsId, Tuple) -> Option<&'a Journey> + 'a;

/// Connections of processes, and how connections began, as they are told.
#[derive(Clone, Debug, Default)]
pub struct Relations {
    accepted: VecDeque<Accepted>,
    opened: VecDeque<Opened>,
    /// By namespace and tuple there.
    openings: BTreeMap<(NetnsId, Tuple), Begin>,
    order: VecDeque<(NetnsId, Tuple)>,
    reached: BTreeMap<SocketAddr, BTreeSet<IpAddr>>,
}

impl Relations {
    /// Takes in what was told of an accepted connection.
    pub fn socket(&mut self, told: SocketEvent) {
        let mut known = self.accepted.iter_mut().rev();
        let same = |a: &&mut Accepted| {
            (a.told.sk, a.told.since_ns, a.told.tuple) == (told.sk, told.since_ns, told.tuple)
        };
        if let Some(known) = known.find(same) {
            if told.over {
                known.over_ns = Some(told.time_ns);
            }
            return;
        }
        let over_ns = told.over.then_some(told.time_ns);
        push(
            &mut self.accepted,
            Accepted {
                told,
                over_ns,
                begun: None,
            },
        );
    }

    /// Takes in how a connection begins.
    pub fn opening(&mut self, opening: Opening) {
        let key = (opening.netns, opening.tuple);
        if !self.openings.contains_key(&key) {
            if self.order.len() >= MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.openings.remove(&oldest);
            }
            self.order.push_back(key);
        }
        self.openings.entry(key).or_default().add(opening);
    }

    /// Takes in a sighting: who opens connections, and who reaches what.
    pub fn sighted(&mut self, event: &Event) {
        let opens = event.print.tcp.is_some_and(|t| t.is_syn());
        if !opens || event.reasons.is_retransmission() {
            return;
        }
        self.reach(event.tuple);
        let (Some(process), Some(netns)) = (&event.process, event.netns) else {
            return;
        };
        if !event.local || event.tap != Tap::Transmit || process.pid.is_none() {
            return;
        }
        let again = self.opened.iter().rev().find(|o| o.tuple == event.tuple);
        if again.is_some_and(|o| o.netns == netns && o.time_ns + 1_000_000 > event.time_ns) {
            return; // one packet at a device and at that below it
        }
        let opened = Opened {
            time_ns: event.time_ns,
            netns,
            tuple: event.tuple,
            process: (**process).clone(),
            asked: event.matched != Matched::Opened,
            begun: None,
        };
        push(&mut self.opened, opened);
    }

    fn reach(&mut self, tuple: Tuple) {
        let to = SocketAddr::new(tuple.dst, tuple.dport);
        if self.reached.len() < MOST || self.reached.contains_key(&to) {
            let sources = self.reached.entry(to).or_default();
            if sources.len() < MOST_SOURCES {
                sources.insert(tuple.src);
            }
        }
    }

    /// Keeps how a flow began that will be judged, for its other side.
    pub fn keep(&mut self, journey: &Journey) {
        if self.accepted.is_empty() && self.opened.is_empty() {
            return;
        }
        let (ended, opened) = (self.ended(journey), self.opened(journey));
        if ended.is_none() && opened.is_none() {
            return;
        }
        let begun = self.begun(journey);
        if let Some(at) = ended {
            self.accepted[at].begun = Some(begun.clone());
        }
        if let Some(at) = opened {
            self.opened[at].begun = Some(begun);
        }
    }

    /// How a flow began, wherever that was read first.
    fn begun(&self, journey: &Journey) -> Begun {
        let side = |dir| {
            let hops = journey.way(dir).hops().iter();
            let tuples = hops.flat_map(|h| h.tuples().map(|t| (h.place.netns, t)));
            let mut known = tuples.filter_map(|key| self.openings.get(&key));
            known.next().cloned().unwrap_or_default()
        };
        Begun {
            id: verdict::id(journey),
            sides: [side(Direction::Request), side(Direction::Reply)],
            sent: journey.exchange.data_ns[Direction::Request as usize].is_some(),
        }
    }

    /// The accepted connection that a flow ends in.
    fn ended(&self, journey: &Journey) -> Option<usize> {
        let is_it = |a: &Accepted| {
            let told = &a.told;
            told.since_ns >= journey.first_ns.saturating_sub(SLACK_NS)
                && told.since_ns <= journey.last_ns.saturating_add(SLACK_NS)
                && has(journey, told.netns, told.tuple)
        };
        self.accepted.iter().rposition(is_it)
    }

    /// The connection that a flow is, as its process opened it.
    fn opened(&self, journey: &Journey) -> Option<usize> {
        let is_it =
            |o: &Opened| {
                o.time_ns >= journey.first_ns
                    && o.time_ns <= journey.last_ns
                    && journey.request.hops().iter().any(|h| {
                        h.place.netns == o.netns && h.tuples().any(|tuple| tuple == o.tuple)
                    })
            };
        self.opened.iter().rposition(is_it)
    }
}

/// A tap's clock and a socket's are the same; events of one moment may be told in either order.
const SLACK_NS: u64 = 1_000_000;

/// Whether a flow has this tuple in a namespace, by a sighting or by conntrack.
fn has(journey: &Journey, netns: NetnsId, tuple: Tuple) -> bool {
    let seen = |dir: Direction, tuple: Tuple| {
        let hops = journey.way(dir).hops().iter();
        hops.filter(|h| h.place.netns == netns)
            .flat_map(|h| h.tuples())
            .any(|t| t == tuple)
    };
    let mut entries = journey.conntracks.iter().filter(|(ns, _)| *ns == netns);
    seen(Direction::Request, tuple)
        || seen(Direction::Reply, tuple.reversed())
        || entries.any(|(_, ct)| ct.orig == tuple || ct.reply.reversed() == tuple)
}

fn push<T>(queue: &mut VecDeque<T>, value: T) {
    if queue.len() >= MOST {
        queue.pop_front();
    }
    queue.push_back(value);
}
