//! A flow that is followed: its journey until it is told, then only what keeps its later packets
//! from looking like a new flow.

use super::bindings::Key;
use super::exchange;
use super::hop::Sighted;
use super::loss;
use super::place::Place;
use super::{Direction, Exchange, IcmpAnswer, Journey, Settings, Way};
use crate::event::{Conntrack, Event, Fingerprint, Fragment, NetnsId};
use crate::packet::{Proto, Tuple};

/// Most conntrack entries that are remembered of one flow.
const MAX_CONNTRACKS: usize = 8;

#[derive(Debug)]
pub(super) struct Tracked {
    /// `None` once it was told.
    pub(super) journey: Option<Box<Journey>>,
    /// Of a TCP connection that was told: its initial sequence number.
    told_syn: Option<u32>,
    pub(super) last_ns: u64,
    /// The tuple was another flow's before: the taps' counters go on from there.
    pub(super) reused: bool,
    /// What the bindings hold for it.
    pub(super) keys: Vec<Key>,
    /// The timer that counts; older ones in the queue are void.
    pub(super) timer_ns: u64,
}

/// What a sighting taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// The tuple may be new in its namespace.
    pub(super) tuple: bool,
    /// The conntrack entry is new.
    pub(super) conntrack: bool,
}

impl Tracked {
    /// `first`: when, and with which tuple in which direction, it was met first.
    pub(super) fn new(first: (u64, Tuple, Direction), predates: bool, reused: bool) -> Self {
        let (first_ns, tuple, dir) = first;
        let journey = Journey {
            opened: match dir {
                Direction::Request => tuple,
                Direction::Reply => tuple.reversed(),
            },
            first_ns,
            last_ns: first_ns,
            request: Way::default(),
            reply: Way::default(),
            error: Way::default(),
            answer: None,
            conntracks: Vec::new(),
            conntrack_asked: Vec::new(),
            losses: Vec::new(),
            leak: None,
            exchange: Exchange::default(),
            process: None,
            predates,
            ambiguous: false,
        };
        Self {
            journey: Some(Box::new(journey)),
            told_syn: None,
            last_ns: first_ns,
            reused,
            keys: Vec::new(),
            timer_ns: u64::MAX,
        }
    }

    /// When something is to be done about it next.
    pub(super) fn deadline(&self, settings: &Settings) -> u64 {
        let Some(journey) = self.journey.as_deref() else {
            return self.last_ns.saturating_add(settings.forget_ns);
        };
        let exchange = &journey.exchange;
        let (from, wait) = if let Some(closed) = exchange.closed_ns {
            (closed, settings.linger_ns)
        } else if exchange.awaits_answer() {
            (journey.first_ns, settings.syn_ns)
        } else if exchange.is_pending() {
            (self.last_ns, settings.pending_ns)
        } else {
            (self.last_ns, settings.quiet_ns)
        };
        from.saturating_add(wait)
    }

    /// Gives its journey away, to be told; what is left tells its later packets from another flow's.
    pub(super) fn leave(&mut self) -> Option<Box<Journey>> {
        let journey = self.journey.take()?;
        self.told_syn = journey.exchange.syn;
        Some(journey)
    }

    /// Takes in a packet of the flow.
    pub(super) fn take(&mut self, event: &Event, place: Place, dir: Direction) -> News {
        self.last_ns = self.last_ns.max(event.time_ns);
        let Some(journey) = self.journey.as_deref_mut() else {
            return News::default();
        };
        journey.last_ns = self.last_ns;
        if event.print.fragment == Fragment::Later {
            if let Some(hop) = journey.way_mut(dir).at_mut(place) {
                hop.count_fragment(event);
            }
            return News::default();
        }
        let sighted = journey.way_mut(dir).sight(event, place, self.reused);
        loss::note_leak(journey, event, place, dir);
        let again = is_again(journey, event, place, dir, sighted);
        journey.exchange.take(event, dir, again);
        if journey.process.is_none() && dir == Direction::Request && event.local {
            journey.process.clone_from(&event.process);
        }
        if dir == Direction::Request
            && sighted == Sighted::NewPlace
            && journey.exchange.reply_ns.is_none()
        {
            journey.predates |= has_history(event);
        }
        News {
            tuple: sighted != Sighted::Again,
            conntrack: event
                .conntrack
                .is_some_and(|ct| remember(journey, place.netns, ct)),
        }
    }

    /// Takes in an entry that a namespace has for one of its packets.
    pub(super) fn prove(&mut self, netns: NetnsId, entry: Conntrack) {
        if let Some(journey) = self.journey.as_deref_mut() {
            remember(journey, netns, entry);
        }
    }

    /// Takes in an ICMP error about the flow. Only one about a request answers it; one about a
    /// reply tells the far side.
    pub(super) fn refused(&mut self, event: &Event, place: Place, about: Option<Direction>) {
        self.last_ns = self.last_ns.max(event.time_ns);
        let (Some(journey), Some(icmp)) = (self.journey.as_deref_mut(), event.print.icmp) else {
            return;
        };
        journey.last_ns = self.last_ns;
        if about == Some(Direction::Request) {
            journey.answer.get_or_insert(IcmpAnswer {
                from: event.tuple.src,
                v6: event.tuple.proto == Proto::ICMPV6,
                kind: icmp.kind,
                code: icmp.code,
            });
        }
        if journey.answer.is_some() && about != Some(Direction::Reply) {
            journey.error.sight(event, place, false);
        }
    }

    /// Whether a packet can be this flow's: a SYN must be of the same connection.
    pub(super) fn fits(&self, print: &Fingerprint, dir: Direction) -> bool {
        let journey = self.journey.as_deref();
        let syn = journey.map_or(self.told_syn, |journey| journey.exchange.syn);
        print.tcp.is_none_or(|tcp| exchange::fits(syn, tcp, dir))
    }

    /// Whether one of its packets had this destination (or, for a reply, source).
    pub(super) fn knows_far_end(&self, tuple: Tuple, dir: Direction) -> bool {
        let far = |t: Tuple, d| match d {
            Direction::Request => t.destination(),
            Direction::Reply => t.source(),
        };
        let wanted = far(tuple, dir);
        self.journey.as_deref().is_some_and(|j| {
            [Direction::Request, Direction::Reply].into_iter().any(|d| {
                let mut tuples = j.way(d).hops().iter().flat_map(|h| h.tuples());
                tuples.any(|t| far(t, d) == wanted)
            })
        })
    }
}

/// A request that was sent before, where it enters our sight.
fn is_again(
    journey: &Journey,
    event: &Event,
    place: Place,
    dir: Direction,
    sighted: Sighted,
) -> bool {
    let at_first = journey.way(dir).hops().first().map(|h| h.place) == Some(place);
    let syn_again = event.print.tcp.is_some_and(|t| t.is_syn()) && sighted == Sighted::Again;
    at_first && (event.reasons.is_retransmission() || syn_again)
}

/// A flow whose first sighted packet does not open it was open before.
pub(super) fn predates(print: &Fingerprint, proto: Proto, dir: Direction) -> bool {
    match print.tcp {
        Some(tcp) => !tcp.is_syn(),
        None => dir == Direction::Reply && !proto.is_icmp(),
    }
}

/// An entry that a request shows before any reply could have come.
fn has_history(event: &Event) -> bool {
    let opens = event.print.tcp.is_some_and(|t| t.is_syn());
    event.conntrack.is_some_and(|ct| {
        !opens && (ct.is_reply || ct.status & (Conntrack::SEEN_REPLY | Conntrack::ASSURED) != 0)
    })
}

/// Remembers an entry; gives whether it is new.
pub(super) fn remember(journey: &mut Journey, netns: NetnsId, ct: Conntrack) -> bool {
    let entries = &mut journey.conntracks;
    let known = entries
        .iter_mut()
        .find(|(ns, old)| *ns == netns && old.orig == ct.orig && old.reply == ct.reply);
    if let Some((_, old)) = known {
        old.status |= ct.status;
        old.zone = old.zone.or(ct.zone);
        return false;
    }
    let room = entries.len() < MAX_CONNTRACKS;
    if room {
        entries.push((netns, ct));
    }
    room
}
