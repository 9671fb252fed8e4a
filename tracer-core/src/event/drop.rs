//! A packet that the kernel threw away.

use super::decode::{decode_matched, fingerprint, read_conntrack};
use super::{Conntrack, DecodeError, Fingerprint, Matched, NetnsId};
use crate::packet::Tuple;
use serde::{Deserialize, Serialize};
use tracer_common::{NO_REASON, RawDrop, event_kind, present};
use zerocopy::FromBytes;

/// One packet of ours, thrown away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropEvent {
    /// CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Address of the packet's buffer.
    pub skb: u64,
    /// Its namespace, if it was known.
    pub netns: Option<NetnsId>,
    /// The device that the buffer named: the one it came in by, or was to leave by.
    pub ifindex: Option<u32>,
    /// The packet's tuple when it died.
    pub tuple: Tuple,
    /// The tuple of the packet that an ICMP error quotes.
    pub quoted: Option<Tuple>,
    /// What no translator touches.
    pub print: Fingerprint,
    /// What made it one of ours.
    pub matched: Matched,
    /// The conntrack entry that it carried.
    pub conntrack: Option<Conntrack>,
    /// Whether `conntrack: None` means that there was none.
    pub conntrack_known: bool,
    /// Excluded from conntrack on purpose.
    pub untracked: bool,
    /// Made on this host.
    pub local: bool,
    /// cgroup v2 id of the packet's socket, where it had one still.
    pub cgroup: Option<u64>,
    /// The packet's mark, if readable.
    pub mark: Option<u32>,
    /// Length from the network header, bytes.
    pub l3_len: u32,
    /// Packets that died so with this tuple, this one included.
    pub count: u64,
    /// The kernel's number for its reason; `None` on kernels that give none.
    pub reason_number: Option<u32>,
    /// Address of the code that freed it.
    pub address: u64,
    /// The reason's name on the running kernel, without `SKB_DROP_REASON_`.
    pub reason: Option<String>,
    /// The function that freed it.
    pub location: Option<String>,
}

/// Whether a record of the ring is a [`DropEvent`]'s.
#[must_use]
pub fn is_drop(bytes: &[u8]) -> bool {
    bytes.first() == Some(&event_kind::DROP)
}

/// Reads one record. Names are not in it: whoever knows the running kernel fills them in.
///
/// # Errors
/// When the record has the wrong size or an unknown kind, family or match.
pub fn decode_drop(bytes: &[u8]) -> Result<DropEvent, DecodeError> {
    let unknown = |field, value| DecodeError::Unknown { field, value };
    let raw = RawDrop::read_from_bytes(bytes).map_err(|_| DecodeError::Size(bytes.len()))?;
    if raw.kind != event_kind::DROP {
        return Err(unknown("kind", raw.kind));
    }
    let has = |bit| raw.present & bit != 0;
    let tuple = Tuple::from_raw(&raw.tuple).ok_or(unknown("family", raw.tuple.family))?;
    let quoted = has(present::QUOTED).then(|| Tuple::from_raw(&raw.quoted));
    let conntrack = has(present::CONNTRACK).then(|| read_conntrack(&raw.conntrack));
    Ok(DropEvent {
        time_ns: raw.time_ns,
        skb: raw.skb,
        netns: has(present::NETNS).then_some(NetnsId(raw.netns)),
        ifindex: (raw.ifindex != 0).then_some(raw.ifindex),
        tuple,
        quoted: quoted.flatten(),
        print: fingerprint(&raw.print, raw.present, tuple.proto),
        matched: decode_matched(raw.matched)?,
        conntrack: conntrack.flatten(),
        conntrack_known: has(present::CONNTRACK_KNOWN),
        untracked: has(present::UNTRACKED),
        local: has(present::LOCAL),
        cgroup: has(present::CGROUP).then_some(raw.cgroup),
        mark: has(present::MARK).then_some(raw.mark),
        l3_len: raw.l3_len,
        count: raw.count,
        reason_number: (raw.reason != NO_REASON).then_some(raw.reason),
        address: raw.location,
        reason: None,
        location: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_of_another_size_is_refused() {
        assert_eq!(decode_drop(&[2; 9]), Err(DecodeError::Size(9)));
    }

    proptest! {
        #[test]
        fn any_record_of_the_right_size_is_read_without_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), size_of::<RawDrop>()),
        ) {
            bytes[0] = event_kind::DROP;
            let _ = decode_drop(&bytes);
        }
    }
}
