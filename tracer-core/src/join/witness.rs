//! What is compared of a part.

use crate::event::{Dir, Icmp};
use crate::journey::{Closed, Direction, Hop, Way};
use crate::packet::{Proto, Tuple};
use crate::recording::Header;

/// What makes two parts candidates for one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// TCP's initial sequence number: no translator but a rare firewall changes it.
    Syn(u32),
    /// The first datagram.
    Datagram {
        /// Its protocol.
        proto: Proto,
        /// IP id, where it has one.
        id: Option<u32>,
        /// Hash of its payload, where that was readable: a snap length may leave it out.
        hash: Option<u32>,
        /// Length of its payload.
        len: u32,
        /// ICMP's numbers; the identifier is not among them.
        icmp: Option<Icmp>,
    },
    /// A tuple with which the flow came or left. Weak: it may be used again, and elsewhere.
    Tuple(Tuple),
}

impl Key {
    /// Whether it tells its packet from others.
    #[must_use]
    pub fn is_strong(&self) -> bool {
        match self {
            Self::Syn(_) => true,
            Self::Datagram { id, hash, .. } => id.is_some_and(|id| id != 0) || hash.is_some(),
            Self::Tuple(_) => false,
        }
    }

    /// Whether both can be of one packet.
    pub(super) fn fits(&self, other: &Self) -> bool {
        let hash = |key: &Self| match key {
            Self::Datagram { hash, .. } => *hash,
            _ => None,
        };
        let both = hash(self).zip(hash(other));
        both.is_none_or(|(a, b)| a == b) && self.unhashed() == other.unhashed()
    }

    /// Without the hash of the payload.
    fn unhashed(self) -> Self {
        match self {
            Self::Datagram {
                proto,
                id,
                len,
                icmp,
                ..
            } => Self::Datagram {
                proto,
                id,
                hash: None,
                len,
                icmp,
            },
            other => other,
        }
    }
}

/// One sighting of a flow's first packet in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// When, nanoseconds since 1970, by the host's own clock.
    pub at_ns: i64,
    /// TTL or hop limit: less by one behind each router.
    pub ttl: u8,
    /// Into the namespace or out of it.
    pub dir: Dir,
    /// Whether that is known: captures of Ethernet do not tell it.
    pub sided: bool,
    /// The packet on the wire there.
    pub tuple: Tuple,
    /// Another packet's sighting: its time says nothing.
    pub filled: bool,
}

/// What is compared of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The strongest key.
    pub key: Option<Key>,
    /// Initial sequence number of the answer.
    pub answer: Option<u32>,
    /// First and last sighting, by the host's own clock.
    pub lasted: (i64, i64),
    /// The way of the first request, and of the first reply.
    pub ways: [Vec<Sight>; 2],
}

impl Witness {
    /// What a flow shows of the recording or capture with this header.
    #[must_use]
    pub fn of(closed: &Closed, header: &Header) -> Self {
        let journey = &closed.journey;
        let offset_ns = header.clock.offset_ns();
        let sided = header.captured.as_ref().is_none_or(|kind| kind.sides);
        let unix = |ns| unix(ns, offset_ns);
        let sights = |way: &Way| {
            way.hops()
                .iter()
                .filter_map(|h| sight(h, offset_ns, sided))
                .collect()
        };
        Self {
            key: key(closed),
            answer: journey.exchange.syn_ack,
            lasted: (unix(journey.first_ns), unix(journey.last_ns)),
            ways: [sights(&journey.request), sights(&journey.reply)],
        }
    }

    /// The way in one direction.
    #[must_use]
    pub fn way(&self, dir: Direction) -> &[Sight] {
        &self.ways[dir as usize]
    }

    /// Where the request came in, and where it was last sighted.
    #[must_use]
    pub fn ends(&self) -> Option<(&Sight, &Sight)> {
        let way = self.way(Direction::Request);
        Some((way.first()?, way.last()?))
    }

    /// All keys, the strongest first.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let ends = self.ends().map(|(first, last)| (first.tuple, last.tuple));
        let first = ends.map(|(first, _)| Key::Tuple(first));
        let last = ends.filter(|(first, last)| first != last);
        let last = last.map(|(_, last)| Key::Tuple(last));
        let unhashed = self
            .key
            .map(Key::unhashed)
            .filter(|key| Some(*key) != self.key);
        self.key
            .into_iter()
            .chain(unhashed)
            .chain(first)
            .chain(last)
    }
}

/// UTC of a moment, nanoseconds since 1970.
pub(super) fn unix(monotonic_ns: u64, offset_ns: i64) -> i64 {
    let unix = i128::from(monotonic_ns) + i128::from(offset_ns);
    i64::try_from(unix).unwrap_or(i64::MAX)
}

fn sight(hop: &Hop, offset_ns: i64, sided: bool) -> Option<Sight> {
    Some(Sight {
        at_ns: unix(hop.time_ns, offset_ns),
        ttl: hop.ttl,
        dir: hop.place.dir,
        sided,
        tuple: hop.tuple()?,
        filled: hop.is_filled(),
    })
}

fn key(closed: &Closed) -> Option<Key> {
    let journey = &closed.journey;
    if journey.opened.proto == Proto::TCP {
        return journey.exchange.syn.map(Key::Syn);
    }
    let print = journey.request.hops().first()?.print();
    Some(Key::Datagram {
        proto: journey.opened.proto,
        id: print.ip_id,
        hash: print.payload_hash,
        len: print.payload_len,
        icmp: print.icmp,
    })
}
