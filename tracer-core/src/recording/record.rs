//! What a recording consists of.
//!
//! These types, and those that they hold, are written field by field with their names (CBOR): a later
//! version may add fields, with `#[serde(default)]`, and kinds of records; older readers pass over what
//! they do not know. A field that changes its meaning needs another [`VERSION`](super::VERSION).

use super::change::Change;
use crate::contract::Contract;
use crate::event::{Conntrack, Counter, DropEvent, Event, NetnsId};
use crate::expect::Expectation;
use crate::journey::{self, Closed};
use crate::observed::RuleHit;
use crate::point::Point;
use crate::proxy::{Opening, SocketEvent};
use crate::report::{Summary, Unavailable};
use crate::ruleset::Ruleset;
use crate::trace::Wanted;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Who recorded, how and what. The first record of all.
    Header(Box<Header>),
    /// What both clocks showed at one moment.
    Clock(Clock),
    /// How the inventory changed; the first one: what it was.
    Inventory(Box<Change>),
    /// A sighting.
    Event(Box<Event>),
    /// A conntrack entry that was asked for.
    Entry(Box<Entry>),
    /// A packet died.
    Drop(Box<DropEvent>),
    /// A rule was seen to run.
    Hit(Box<RuleHit>),
    /// Events were lost.
    Lost(Lost),
    /// A point could not be observed.
    Unavailable(Unavailable),
    /// A namespace's rules were read.
    Rules(Box<Reading>),
    /// The taps were asked for their counts.
    Recount(Asked),
    /// Flows were over.
    Advance(Asked),
    /// Those were judged, with what was asked about them meanwhile.
    Judge(Settled),
    /// All flows were over: the run ended. They are judged after that.
    Finish(Asked),
    /// A process used a connection that it had accepted.
    Socket(Box<SocketEvent>),
    /// How a connection begins.
    Opening(Box<Opening>),
    /// The run's own summary. The last record of all.
    Summary(Box<Summary>),
}

/// A record's kind: the number that its frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "they are those of Record")]
pub enum Kind {
    Header = 1,
    Clock = 2,
    Inventory = 3,
    Event = 4,
    Entry = 5,
    Drop = 6,
    Hit = 7,
    Lost = 8,
    Unavailable = 9,
    Rules = 10,
    Recount = 11,
    Advance = 12,
    Finish = 13,
    Summary = 14,
    Judge = 15,
    Socket = 16,
    Opening = 17,
}

impl Record {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Header(_) => Kind::Header,
            Self::Clock(_) => Kind::Clock,
            Self::Inventory(_) => Kind::Inventory,
            Self::Event(_) => Kind::Event,
            Self::Entry(_) => Kind::Entry,
            Self::Drop(_) => Kind::Drop,
            Self::Hit(_) => Kind::Hit,
            Self::Lost(_) => Kind::Lost,
            Self::Unavailable(_) => Kind::Unavailable,
            Self::Rules(_) => Kind::Rules,
            Self::Recount(_) => Kind::Recount,
            Self::Advance(_) => Kind::Advance,
            Self::Finish(_) => Kind::Finish,
            Self::Judge(_) => Kind::Judge,
            Self::Socket(_) => Kind::Socket,
            Self::Opening(_) => Kind::Opening,
            Self::Summary(_) => Kind::Summary,
        }
    }
}

/// Who recorded, how and what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// srctrace's version.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's name, as `--host` or the machine says.
    pub host: String,
    /// When the trace was armed, RFC 3339 UTC.
    pub started: String,
    /// Both clocks when the recording began. What is told in UTC goes by this pair.
    pub clock: Clock,
    /// What was asked for.
    pub requested: Requested,
    /// How flows were told apart and judged.
    pub settings: Settings,
    /// Names the secret with which addresses were replaced; `None`: nothing was. Recordings of equal
    /// numbers have equal addresses replaced alike.
    pub redacted: Option<u64>,
    /// Of a packet capture: what kind of one. Recordings have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured: Option<Captured>,
}

/// What kind of a packet capture it is: what it does not tell makes what is said by it less sure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// Its link layers, in words.
    pub links: Vec<String>,
    /// Whether each packet's interface is known. Linux cooked frames of version 1 do not tell it, and show
    /// one packet several times.
    pub interfaces: bool,
    /// Whether it is told which packets came in and which went out.
    pub sides: bool,
}

/// Both clocks at one moment, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME: since 1970, UTC.
    pub realtime_ns: i64,
}

impl Clock {
    /// What to add to CLOCK_MONOTONIC to get nanoseconds since 1970, UTC.
    #[must_use]
    pub fn offset_ns(&self) -> i64 {
        let offset = i128::from(self.realtime_ns) - i128::from(self.monotonic_ns);
        i64::try_from(offset).unwrap_or(0)
    }
}

/// Which flows were asked for. Whoever misses one in the recording must know whether it could have been
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requested {
    /// Destinations; empty: any.
    pub dests: Vec<IpNet>,
    /// Whether anything else narrowed it down: ports, protocols, sources, origins, devices.
    pub narrowed: bool,
}

/// How flows were told apart and judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Times and limits.
    pub journey: journey::Settings,
    /// Which flows were told.
    pub wanted: Wanted,
    /// The points that were named.
    #[serde(default)]
    pub points: Vec<Point>,
    /// What they had to be like.
    pub expectations: Vec<Expectation>,
    /// What was agreed about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// The source that the far side says it saw.
    pub peer_saw: Option<IpAddr>,
}

/// A conntrack entry that a namespace was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The packet for which it was asked.
    pub event: Event,
    /// The answer.
    pub entry: Conntrack,
}

/// Events that were lost between two moments, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// From then.
    pub from_ns: u64,
    /// To then.
    pub to_ns: u64,
    /// How many.
    pub count: u64,
}

/// A reading of a namespace's rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The namespace.
    pub netns: NetnsId,
    /// When it began, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// The rules; `None`: those of the reading before.
    pub rules: Option<Ruleset>,
    /// There was no reading, and no more was to be waited for one: why.
    pub given_up: Option<String>,
}

/// What was asked about flows that were over, before they were judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled(pub Vec<Answered>);

/// What conntrack said of one of the flows that were over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Its place among them, from 0.
    pub at: u32,
    /// The namespaces that were asked.
    pub asked: Vec<NetnsId>,
    /// The entries that are known of it since then.
    pub conntracks: Vec<(NetnsId, Conntrack)>,
}

impl Settled {
    /// What was asked about these.
    #[must_use]
    pub fn of(closed: &[Closed]) -> Self {
        let asked = (0..).zip(closed);
        let asked = asked.filter(|(_, flow)| !flow.journey.conntrack_asked.is_empty());
        let answered = asked.map(|(at, flow)| Answered {
            at,
            asked: flow.journey.conntrack_asked.clone(),
            conntracks: flow.journey.conntracks.clone(),
        });
        Self(answered.collect())
    }

    /// Tells it to the same flows again.
    pub fn tell(self, closed: &mut [Closed]) {
        for answered in self.0 {
            let at = usize::try_from(answered.at).ok();
            if let Some(flow) = at.and_then(|at| closed.get_mut(at)) {
                flow.journey.conntrack_asked = answered.asked;
                flow.journey.conntracks = answered.conntracks;
            }
        }
    }
}

/// A moment, and what the taps answered when they were asked then, in the order of the questions. One
/// that did not answer is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub now_ns: u64,
    /// The answers.
    pub counts: Vec<Count>,
}

/// What a tap counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Which one, and of what.
    pub counter: Counter,
    /// Wire packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}
