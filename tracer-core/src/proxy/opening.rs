//! How a connection begins: a PROXY header, and a digest of what follows it. The bytes themselves are
//! not kept.

use super::header::{self, Header};
use crate::event::NetnsId;
use crate::packet::Tuple;
use serde::{Deserialize, Serialize};
use tracer_common::{RawOpening, event_kind};
use zerocopy::FromBytes;

/// How much of the payload is compared: so many groups of so many bytes.
const GROUPS: usize = 4;
const GROUP: usize = 8;

/// The beginning of one of the first segments with payload that one side of a connection sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// The device's namespace.
    pub netns: NetnsId,
    /// The packet's tuple there.
    pub tuple: Tuple,
    /// Sequence number of the payload's first byte.
    pub seq: u32,
    /// Bytes of payload in the segment.
    pub payload_len: u32,
    /// The PROXY header that it begins with.
    pub header: Option<Header>,
    /// What follows the header, or the payload itself.
    pub digest: Digest,
}

/// A digest of the first bytes of payload: of every eighth byte up to the thirty-second, so that two
/// beginnings of different lengths can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// One for each whole group of eight bytes.
    groups: Vec<u32>,
    /// How many bytes stand behind those, up to the thirty-second, and their digest.
    tail: (u32, u32),
}

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(GROUPS * GROUP)];
        let whole = bytes.chunks_exact(GROUP);
        let rest = whole.remainder();
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
            (hash ^ (hash >> 32)) as u32
        };
        let groups = whole.map(&mut add).collect();
        let len = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        Self {
            groups,
            tail: (len, add(rest)),
        }
    }

    /// Nothing was there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.tail.0 == 0
    }

    /// Whether both are of the same bytes, as far as both go.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        match self.groups.len().min(other.groups.len()) {
            0 => !self.is_empty() && self == other,
            common => self.groups[common - 1] == other.groups[common - 1],
        }
    }
}

/// Reads one record of the kernel half; `None` where it is none (a bug, or a foreign object).
#[must_use]
pub fn decode_opening(bytes: &[u8]) -> Option<Opening> {
    let raw = RawOpening::read_from_bytes(bytes).ok()?;
    let payload = raw.bytes.get(..raw.len.into())?;
    let header = header::read(payload);
    let behind = header.map_or(0, |h| h.len) as usize;
    (raw.kind == event_kind::OPENING).then_some(())?;
    Some(Opening {
        time_ns: raw.time_ns,
        netns: NetnsId(raw.netns),
        tuple: Tuple::from_raw(&raw.tuple)?,
        seq: raw.seq,
        payload_len: raw.payload_len,
        header,
        digest: Digest::of(payload.get(behind..).unwrap_or_default()),
    })
}

/// How one side of a connection began, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Side {
    /// The first segments, by sequence number.
    segments: Vec<Segment>,
}

/// What is kept of an [`Opening`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    seq: u32,
    payload_len: u32,
    header: Option<Box<Header>>,
    digest: Digest,
}

/// More segments than the kernel half tells of a tap.
const MAX_SEGMENTS: usize = 4;

impl Side {
    pub(super) fn add(&mut self, opening: Opening) {
        let again = self.segments.iter().any(|s| s.seq == opening.seq);
        if again || self.segments.len() >= MAX_SEGMENTS {
            return;
        }
        // Most sides are read in one segment, and very many are kept.
        self.segments.reserve_exact(1);
        self.segments.push(Segment {
            seq: opening.seq,
            payload_len: opening.payload_len,
            header: opening.header.map(Box::new),
            digest: opening.digest,
        });
        // Both are near each other, whatever the number they wrap at.
        self.segments
            .sort_by(|a, b| (a.seq.wrapping_sub(b.seq) as i32).cmp(&0));
    }

    pub(super) fn was_read(&self) -> bool {
        !self.segments.is_empty()
    }

    /// The PROXY header that it begins with.
    pub(super) fn header(&self) -> Option<Header> {
        self.segments.first()?.header.as_deref().copied()
    }

    /// The digest of what the application sent first: a header may fill a segment of its own.
    pub(super) fn digest(&self) -> Option<&Digest> {
        let first = self.segments.first()?;
        let header = first.header.as_deref();
        let alone = header.is_some_and(|h| h.len == first.payload_len);
        let shown = if alone {
            let next = self.segments.get(1)?;
            (next.seq == first.seq.wrapping_add(first.payload_len)).then_some(next)?
        } else {
            first
        };
        (!shown.digest.is_empty()).then_some(&shown.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_of_different_lengths_are_compared_as_far_as_both_go() {
        let of = |text: &str| Digest::of(text.as_bytes());
        assert!(of("GET /index HTTP/1.1").agrees(&of("GET /index HTTP/1.1\r\nHost: a")));
        assert!(of("GET /ind").agrees(&of("GET /index")));
        assert!(!of("GET /inx").agrees(&of("GET /index")));
        assert!(of("hi").agrees(&of("hi")) && !of("hi").agrees(&of("ho")));
        assert!(!of("hi").agrees(&of("hi there")) && !of("").agrees(&of("")));
    }
}
