//! Ring-buffer bytes to [`Event`]s. Total: any bytes give an event or an error.

use super::{
    Conntrack, Event, Fingerprint, Fragment, Icmp, Matched, NetnsId, Outer, Process, Reasons, Tap,
    Tcp, Wrap,
};
use crate::packet::{Proto, Tuple};
use tracer_common::{
    RawConntrack, RawEvent, RawFingerprint, RawProcess, event_kind, matched, present, tap,
};
use zerocopy::{FromZeros, IntoBytes};

/// Why a record could not be read. Each is a bug or a foreign object, never a normal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record is not as long as what it says to hold.
    #[error("event record of {0} bytes, which is not the length of what it holds")]
    Size(usize),
    /// A discriminant that this build does not know.
    #[error("event record with unknown {field} {value}")]
    Unknown {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u8,
    },
}

/// Reads one record.
///
/// # Errors
/// When the record has the wrong size or an unknown kind, tap, family or match.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    match bytes.first() {
        Some(&event_kind::PACKET) => packet(&whole(bytes)?),
        Some(&value) => Err(DecodeError::Unknown {
            field: "kind",
            value,
        }),
        None => Err(DecodeError::Size(0)),
    }
}

/// The event of a record, with zeros where the record leaves parts off.
fn whole(bytes: &[u8]) -> Result<RawEvent, DecodeError> {
    let mut raw = RawEvent::new_zeroed();
    let part = raw.as_mut_bytes().get_mut(..bytes.len());
    part.ok_or(DecodeError::Size(bytes.len()))?
        .copy_from_slice(bytes);
    if bytes.len() == RawEvent::record_len(raw.present) {
        Ok(raw)
    } else {
        Err(DecodeError::Size(bytes.len()))
    }
}

/// Reads one sighting.
pub(crate) fn packet(raw: &RawEvent) -> Result<Event, DecodeError> {
    let has = |bit| raw.present & bit != 0;
    let tuple = Tuple::from_raw(&raw.tuple).ok_or(DecodeError::Unknown {
        field: "family",
        value: raw.tuple.family,
    })?;
    Ok(Event {
        time_ns: raw.time_ns,
        skb: raw.skb,
        tap: decode_tap(raw.tap)?,
        netns: has(present::NETNS).then_some(NetnsId(raw.netns)),
        ifindex: raw.ifindex,
        tuple,
        print: fingerprint(&raw.print, raw.present, tuple.proto),
        reasons: Reasons(raw.reasons),
        matched: decode_matched(raw.matched)?,
        mark: has(present::MARK).then_some(raw.mark),
        conntrack: conntrack(raw).filter(|_| !has(present::OUTER)),
        conntrack_known: has(present::CONNTRACK_KNOWN) && !has(present::OUTER),
        quoted: if has(present::QUOTED) {
            Tuple::from_raw(&raw.quoted).map(Box::new)
        } else {
            None
        },
        outer: outer(raw)?.map(Box::new),
        vlan: has(present::VLAN).then_some(raw.vlan),
        local: has(present::LOCAL),
        process: process(&raw.process, raw.present).map(Box::new),
        l3_len: raw.l3_len,
        packets: raw.packets,
        bytes: raw.bytes,
    })
}

fn conntrack(raw: &RawEvent) -> Option<Conntrack> {
    let carries = raw.present & present::CONNTRACK != 0;
    read_conntrack(&raw.conntrack).filter(|_| carries)
}

/// The packet around this one; mark and entry are then its.
fn outer(raw: &RawEvent) -> Result<Option<Outer>, DecodeError> {
    if raw.present & present::OUTER == 0 {
        return Ok(None);
    }
    let tuple = Tuple::from_raw(&raw.outer).ok_or(DecodeError::Unknown {
        field: "outer family",
        value: raw.outer.family,
    })?;
    Ok(Some(Outer {
        wrap: Wrap::decode(raw.wrap)?,
        tuple,
        conntrack: conntrack(raw),
    }))
}

fn decode_tap(value: u8) -> Result<Tap, DecodeError> {
    match value {
        tap::RECEIVE => Ok(Tap::Receive),
        tap::TRANSMIT => Ok(Tap::Transmit),
        tap::TC_INGRESS => Ok(Tap::TcIngress),
        tap::TC_EGRESS => Ok(Tap::TcEgress),
        _ => Err(DecodeError::Unknown {
            field: "tap",
            value,
        }),
    }
}

pub(super) fn decode_matched(value: u8) -> Result<Matched, DecodeError> {
    match value {
        matched::FORWARD => Ok(Matched::Forward),
        matched::REVERSE => Ok(Matched::Reverse),
        matched::CONNTRACK => Ok(Matched::Conntrack),
        matched::LEARNED => Ok(Matched::Learned),
        matched::SKB => Ok(Matched::Skb),
        matched::QUOTED => Ok(Matched::Quoted),
        matched::OPENED => Ok(Matched::Opened),
        _ => Err(DecodeError::Unknown {
            field: "match",
            value,
        }),
    }
}

pub(super) fn fingerprint(raw: &RawFingerprint, bits: u32, proto: Proto) -> Fingerprint {
    let has = |bit| bits & bit != 0;
    let first = !has(present::LATER_FRAGMENT);
    Fingerprint {
        tcp: has(present::TCP).then_some(Tcp {
            seq: raw.seq,
            ack: raw.ack,
            flags: raw.tcp_flags,
        }),
        icmp: (proto.is_icmp() && first).then_some(Icmp {
            kind: raw.icmp_type,
            code: raw.icmp_code,
            seq: raw.seq as u16,
        }),
        sctp_tag: (proto == Proto::SCTP && first).then_some(raw.seq),
        payload_len: raw.payload_len,
        payload_hash: has(present::PAYLOAD_HASH).then_some(raw.payload_hash),
        ip_id: has(present::IP_ID).then_some(raw.ip_id),
        fragment: if has(present::LATER_FRAGMENT) {
            Fragment::Later
        } else if has(present::FIRST_FRAGMENT) {
            Fragment::First
        } else {
            Fragment::Whole
        },
        frag_offset: raw.frag_offset,
        ttl: raw.ttl,
        wire_packets: raw.wire_packets.max(1),
    }
}

/// `IP_CT_IS_REPLY` of `enum ip_conntrack_info`: reply states are 3 and 4 (uapi
/// `linux/netfilter/nf_conntrack_common.h`).
const CT_FIRST_REPLY_STATE: u8 = 3;

pub(crate) fn read_conntrack(raw: &RawConntrack) -> Option<Conntrack> {
    Some(Conntrack {
        orig: Tuple::from_raw(&raw.orig)?,
        reply: Tuple::from_raw(&raw.reply)?,
        status: raw.status,
        zone: (raw.zone_known == 1).then_some(raw.zone),
        mark: (raw.mark_known == 1).then_some(raw.mark),
        is_reply: (CT_FIRST_REPLY_STATE..=4).contains(&raw.info),
    })
}

fn process(raw: &RawProcess, bits: u32) -> Option<Process> {
    let named = bits & present::PROCESS != 0;
    let cgroup = (bits & present::CGROUP != 0).then_some(raw.cgroup);
    (named || cgroup.is_some()).then(|| Process {
        pid: named.then_some(raw.pid),
        comm: named.then(|| comm(&raw.comm)),
        cgroup,
    })
}

fn comm(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::FromBytes;

    fn sighting() -> RawEvent {
        let mut raw = RawEvent::new_zeroed();
        raw.kind = event_kind::PACKET;
        raw.tap = tap::RECEIVE;
        raw.tuple.family = 4;
        raw.matched = matched::FORWARD;
        raw
    }

    #[test]
    fn a_record_of_another_size_is_refused() {
        assert_eq!(decode(&[]), Err(DecodeError::Size(0)));
        assert_eq!(decode(&[1; 3]), Err(DecodeError::Size(3)));
        assert_eq!(decode(&[1; 400]), Err(DecodeError::Size(400)));
    }

    #[test]
    fn a_record_is_as_long_as_what_it_holds() {
        let mut raw = sighting();
        raw.conntrack.orig.family = 4;
        raw.conntrack.reply.family = 6;
        raw.quoted.family = 4;
        raw.outer.family = 4;
        raw.wrap = tracer_common::wrap::GRE;
        for (bits, len) in [
            (0, 128),
            (present::CGROUP, 160),
            (present::PROCESS, 160),
            (present::CONNTRACK, 256),
            (present::CONNTRACK | present::PROCESS, 256),
            (present::QUOTED, 296),
            (present::OUTER, 336),
        ] {
            raw.present = bits;
            assert_eq!(raw.record().len(), len);
            let event = decode(raw.record()).unwrap();
            let has = |bit| bits & bit != 0;
            assert_eq!(
                event.process.is_some(),
                has(present::PROCESS | present::CGROUP)
            );
            assert_eq!(event.conntrack.is_some(), has(present::CONNTRACK));
            assert_eq!(event.quoted.is_some(), has(present::QUOTED));
            assert_eq!(event.outer.is_some(), has(present::OUTER));
        }
    }

    #[test]
    fn a_record_that_says_to_hold_more_than_it_does_is_refused() {
        let mut raw = sighting();
        raw.present = present::CONNTRACK;
        assert_eq!(decode(&raw.as_bytes()[..128]), Err(DecodeError::Size(128)));
        assert_eq!(decode(raw.as_bytes()), Err(DecodeError::Size(336)));
    }

    #[test]
    fn a_wrapped_packets_entry_is_the_outer_ones() {
        let mut raw = sighting();
        raw.present = present::OUTER | present::CONNTRACK | present::CONNTRACK_KNOWN;
        (raw.outer.family, raw.wrap) = (4, tracer_common::wrap::VXLAN);
        raw.outer.dport = 4789u16.to_be_bytes();
        (raw.conntrack.orig.family, raw.conntrack.reply.family) = (4, 4);
        let event = decode(raw.record()).unwrap();
        let outer = event.outer.expect("it is inside another one");
        assert_eq!((outer.wrap, outer.tuple.dport), (Wrap::Vxlan, 4789));
        assert!(outer.conntrack.is_some() && event.conntrack.is_none() && !event.conntrack_known);
        raw.wrap = 77;
        let refused = DecodeError::Unknown {
            field: "wrap",
            value: 77,
        };
        assert_eq!(decode(raw.record()), Err(refused));
    }

    #[test]
    fn an_unknown_tap_is_refused_and_named() {
        let mut raw = sighting();
        raw.tap = 99;
        assert_eq!(
            decode(raw.record()),
            Err(DecodeError::Unknown {
                field: "tap",
                value: 99
            })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_event_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn any_record_of_the_right_size_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), size_of::<RawEvent>())) {
            let mut raw = RawEvent::read_from_bytes(&bytes).unwrap();
            (raw.kind, raw.tap, raw.matched) = (event_kind::PACKET, tap::RECEIVE, matched::FORWARD);
            raw.tuple.family = 4 + raw.tuple.family % 2 * 2;
            raw.outer.family = 4 + raw.outer.family % 2 * 2;
            raw.wrap = 1 + raw.wrap % 4;
            prop_assert!(decode(raw.record()).is_ok());
        }
    }
}
