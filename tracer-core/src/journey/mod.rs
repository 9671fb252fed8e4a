//! Which sightings are of the same packet, and which packets of the same flow.
//!
//! A sighting joins a flow by one of these, in this order of trust:
//! 1. the tuple in its namespace (and conntrack zone), learned from each sighting and from the
//!    four tuples that a conntrack entry binds; a SYN must carry the flow's sequence number;
//! 2. the address of the packet's buffer, where the fingerprint is the same: it survives NAT and
//!    veth, and is reused within microseconds;
//! 3. what the packet's conntrack entry says;
//! 4. the other end of a veth pair, where the fingerprint is the same (XDP makes a new buffer);
//! 5. the initial sequence number or datagram fingerprint, near a place that the flow has met.
//!
//! Where two flows fit, neither is chosen: both are marked as ambiguous (unless the packet shows
//! them to be two beginnings of one flow). A namespace joins a flow
//! only through 2, 4 or 5, so unconnected labs with equal addresses stay apart.

mod asked;
mod bindings;
mod correlator;
mod counter;
mod exchange;
mod hop;
mod loss;
mod merge;
mod notes;
mod order;
mod path;
mod place;
mod print;
mod resolve;
mod slab;
mod taps;
mod timers;
mod tracked;

pub use correlator::Correlator;
pub use exchange::Exchange;
pub use hop::Hop;
pub use loss::{Leak, Loss};
pub use path::Way;
pub use place::Place;

use crate::event::{Conntrack, Counter, NetnsId, Process};
use crate::packet::Tuple;
use crate::report::End;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// From the origin or toward it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the origin.
    Request = 0,
    /// Toward the origin.
    Reply = 1,
}

impl Direction {
    /// The other one.
    #[must_use]
    pub fn flipped(self) -> Self {
        match self {
            Self::Request => Self::Reply,
            Self::Reply => Self::Request,
        }
    }

    /// This one, or the other.
    #[must_use]
    pub fn flipped_if(self, flip: bool) -> Self {
        if flip { self.flipped() } else { self }
    }
}

/// Times and limits of the correlator. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Events may arrive out of order by this much.
    pub reorder_ns: u64,
    /// A closed flow is told after this time, for stragglers.
    pub linger_ns: u64,
    /// A quiet flow is told after this time.
    pub quiet_ns: u64,
    /// A connection whose application has not answered is told after this time: some take long.
    pub pending_ns: u64,
    /// An unanswered SYN is told after this time: two retransmissions (at 1 s and 3 s).
    pub syn_ns: u64,
    /// A told flow is remembered for this time after its last packet.
    pub forget_ns: u64,
    /// Most flows that are followed at a time.
    pub max_flows: usize,
    /// Most events held back for reordering.
    pub max_held: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reorder_ns: 50_000_000,
            linger_ns: 200_000_000,
            quiet_ns: 3_000_000_000,
            pending_ns: 10_000_000_000,
            syn_ns: 4_000_000_000,
            forget_ns: 60_000_000_000,
            max_flows: 100_000,
            max_held: 65_536,
        }
    }
}

/// An ICMP error that answered a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpAnswer {
    /// Who sent it.
    pub from: IpAddr,
    /// ICMPv6, not ICMP.
    pub v6: bool,
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
}

impl IcmpAnswer {
    /// A packet was too big for the next link and may not be cut.
    #[must_use]
    pub fn is_too_big(&self) -> bool {
        matches!(
            (self.v6, self.kind, self.code),
            (false, 3, 4) | (true, 2, _)
        )
    }
}

/// Everything that was sighted of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journey {
    /// The request's tuple where the flow was first sighted.
    pub opened: Tuple,
    /// First sighting, CLOCK_MONOTONIC nanoseconds.
    pub first_ns: u64,
    /// Last sighting.
    pub last_ns: u64,
    /// The way of the first request.
    pub request: Way,
    /// The way of the first reply.
    pub reply: Way,
    /// The way of the first ICMP error about it.
    pub error: Way,
    /// That ICMP error.
    pub answer: Option<IcmpAnswer>,
    /// The conntrack entries that its packets carried, or that were found for them, each with its
    /// namespace.
    pub conntracks: Vec<(NetnsId, Conntrack)>,
    /// Namespaces whose conntrack was asked for the tuples that changed there.
    pub conntrack_asked: Vec<NetnsId>,
    /// The packets of it that the kernel threw away.
    pub losses: Vec<Loss>,
    /// A request that left untranslated, though others of the flow are translated there.
    pub leak: Option<Leak>,
    /// What both sides said.
    pub exchange: Exchange,
    /// The task behind the first packet.
    pub process: Option<Box<Process>>,
    /// The flow was open before its first sighting.
    pub predates: bool,
    /// Another flow fits some of the sightings as well.
    pub ambiguous: bool,
}

impl Journey {
    /// The way in one direction.
    #[must_use]
    pub fn way(&self, dir: Direction) -> &Way {
        match dir {
            Direction::Request => &self.request,
            Direction::Reply => &self.reply,
        }
    }

    pub(crate) fn way_mut(&mut self, dir: Direction) -> &mut Way {
        match dir {
            Direction::Request => &mut self.request,
            Direction::Reply => &mut self.reply,
        }
    }
}

/// A journey that is told, and why now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// What was sighted.
    pub journey: Box<Journey>,
    /// Why it is told.
    pub end: End,
    /// Up to when it was watched, nanoseconds.
    pub at_ns: u64,
}

impl Closed {
    /// Takes in what a namespace's conntrack said when it was asked for the tuples that changed
    /// there.
    pub fn conntrack(&mut self, netns: NetnsId, found: impl IntoIterator<Item = Conntrack>) {
        self.journey.conntrack_asked.push(netns);
        for entry in found {
            tracked::remember(&mut self.journey, netns, entry);
        }
    }
}

/// Reads what a tap counted of one tuple by now: wire packets and bytes.
pub type ReadCounter<'a> = dyn FnMut(&Counter) -> Option<(u64, u64)> + 'a;

impl Journey {
    /// Asks the taps that saw each direction first for what they counted by now; gives whether any
    /// counted more than before.
    fn recount(&mut self, read: &mut ReadCounter<'_>) -> bool {
        let mut grew = false;
        for dir in [Direction::Request, Direction::Reply] {
            if let Some(hop) = self.way_mut(dir).first_mut()
                && let Some((packets, bytes)) = hop.question().and_then(|q| read(&q))
            {
                grew |= hop.count(packets, bytes);
            }
        }
        grew
    }
}

impl Closed {
    /// Asks the taps for their last word: what passed after the last event, such as the
    /// acknowledgement that ends a connection, was only counted.
    pub fn recount(&mut self, read: &mut ReadCounter<'_>) {
        self.journey.recount(read);
    }
}

/// What the correlator holds, and what it had to give up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Flows sighted since the start.
    pub seen: u64,
    /// Flows followed now (told ones that are remembered included).
    pub followed: usize,
    /// Tuples bound now.
    pub bound: usize,
    /// Events held back for reordering now.
    pub held: usize,
    /// Flows told and forgotten early because the limit was reached.
    pub evicted: u64,
    /// Events that arrived later than the reorder window allows.
    pub late: u64,
    /// Events that belong to no flow.
    pub stray: u64,
}
