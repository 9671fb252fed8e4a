//! What is told of a capture's packets, and what is only counted: as the programs in the kernel decide it
//! (`tracer-ebpf/src/policy.rs`), by what was seen of the conversation at that side of that interface.

use super::{HERE, matched_of, tap_of};
use crate::event::{Counter, Dir, Tap};
use crate::packet::{Proto, Tuple};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use tracer_common::{RawEvent, present, reason};

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const TRANSITIONS: u8 = FIN | SYN | RST;
/// A flow of which nothing was told for so long is told to be alive, nanoseconds.
const KEEPALIVE_NS: u64 = 10_000_000_000;
/// One packet is seen at another interface within this time; what was sent again comes later.
const COPY_NS: u64 = 5_000_000;
/// Most conversations in each of the two generations: as many as the table has room for before it doubles.
const MOST: usize = (1 << 15) / 8 * 7;

/// A tuple and its reverse, by the lesser of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    tuple: Tuple,
    ifindex: u32,
    /// `None`: the capture does not tell it, and both are one.
    side: Option<Dir>,
}

/// Both directions of a conversation.
#[derive(Clone, Copy, Debug, Default)]
struct Talk {
    /// Whether those with the key's own tuple are the requests.
    asks: bool,
    /// Packets with the key's own tuple, and those with its reverse.
    ways: [Way; 2],
}

/// One direction: what the next packet is compared with.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    packets: u64,
    bytes: u64,
    told_ns: u64,
    last: (u64, Same),
    next_seq: u32,
    flags: u8,
    data: bool,
}

/// What is the same in two sightings of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Same {
    seq: u32,
    ack: u32,
    len: u32,
    id: u32,
}

/// The conversations of a capture, those of late: where there are too many, the ones that are longest
/// silent are forgotten, and begin anew should they go on.
#[derive(Debug, Default)]
pub(super) struct Counts {
    young: HashMap<Key, Talk, RandomState>,
    old: HashMap<Key, Talk, RandomState>,
}

impl Counts {
    /// Counts a packet, fills in what depends on the ones before it, and gives whether it is to be told.
    /// `blind`: one packet is seen several times, and it is not told at which interface.
    pub(super) fn take(
        &mut self,
        raw: &mut RawEvent,
        tuple: Tuple,
        side: Option<Dir>,
        blind: bool,
    ) -> bool {
        let (key, reversed) = key(tuple, raw.ifindex, side);
        let fresh = self.recall(&key);
        let talk = self.young.entry(key).or_default();
        if let Some(asks) = asks(raw, tuple, fresh) {
            talk.asks = asks != reversed;
        }
        let request = talk.asks != reversed;
        let assumed = match request {
            true => Dir::Ingress,
            false => Dir::Egress,
        };
        raw.tap = tap_of(side.unwrap_or(assumed));
        raw.matched = matched_of(request);
        let way = &mut talk.ways[usize::from(reversed)];
        if blind && way.is_copy(raw) {
            return false;
        }
        raw.reasons = way.take(raw);
        raw.reasons != 0
    }

    /// Packets and bytes of a tuple at a tap.
    pub(super) fn of(&self, counter: &Counter) -> Option<(u64, u64)> {
        if counter.netns != HERE {
            return None;
        }
        let side = match counter.tap {
            Tap::Receive | Tap::TcIngress => Dir::Ingress,
            Tap::Transmit | Tap::TcEgress => Dir::Egress,
        };
        let find = |side| {
            let (key, reversed) = key(counter.tuple, counter.ifindex, side);
            let talk = self.young.get(&key).or_else(|| self.old.get(&key))?;
            let way = talk.ways[usize::from(reversed)];
            (way.packets > 0).then_some((way.packets, way.bytes))
        };
        find(Some(side)).or_else(|| find(None))
    }

    /// Conversations that are remembered now.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Makes a conversation one of the young; gives whether it was not known.
    fn recall(&mut self, key: &Key) -> bool {
        if self.young.contains_key(key) {
            return false;
        }
        let known = self.old.remove(key);
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.extend(known.map(|talk| (*key, talk)));
        known.is_none()
    }
}

impl Way {
    /// The same packet once more, at another interface.
    fn is_copy(&mut self, raw: &RawEvent) -> bool {
        let same = Same::of(raw);
        let tells = raw.present & (present::TCP | present::IP_ID) != 0;
        let (at_ns, last) = std::mem::replace(&mut self.last, (raw.time_ns, same));
        tells && self.packets > 0 && last == same && raw.time_ns.abs_diff(at_ns) <= COPY_NS
    }

    /// Counts it; gives why it is to be told; zero: it is not.
    fn take(&mut self, raw: &mut RawEvent) -> u16 {
        let first = self.packets == 0;
        self.packets += u64::from(raw.print.wire_packets);
        self.bytes += u64::from(raw.l3_len);
        (raw.packets, raw.bytes) = (self.packets, self.bytes);
        let mut why = self.progress(raw);
        if first {
            // What was before it is not known: it repeats nothing.
            why = reason::FIRST | why & !reason::RETRANSMISSION;
        } else if raw.time_ns.saturating_sub(self.told_ns) > KEEPALIVE_NS {
            why |= reason::KEEPALIVE;
        }
        if raw.present & present::QUOTED != 0 {
            why |= reason::QUOTES;
        }
        if why != 0 {
            self.told_ns = raw.time_ns;
        }
        why
    }

    /// Flags, first data and retransmissions.
    fn progress(&mut self, raw: &RawEvent) -> u16 {
        let mut why = 0;
        let payload = raw.print.payload_len != 0;
        if payload && !std::mem::replace(&mut self.data, true) {
            why |= reason::DATA;
        }
        if raw.present & present::TCP == 0 {
            return why;
        }
        let flags = raw.print.tcp_flags & TRANSITIONS;
        if flags & !self.flags != 0 {
            why |= reason::FLAGS;
        }
        let ghosts = u32::from(flags & FIN != 0) + u32::from(flags & SYN != 0);
        let end = raw
            .print
            .seq
            .wrapping_add(raw.print.payload_len)
            .wrapping_add(ghosts);
        let advance = end.wrapping_sub(self.next_seq) as i32;
        if self.flags == 0 && self.next_seq == 0 || flags & SYN != 0 && advance != 0 {
            // The first packet, or a new connection on an old tuple.
            (self.next_seq, self.flags, self.data) = (end, flags, payload);
            return why | if flags & SYN != 0 { reason::FLAGS } else { 0 };
        }
        if (payload || ghosts != 0) && advance <= 0 {
            why |= reason::RETRANSMISSION;
        } else if advance > 0 {
            self.next_seq = end;
        }
        self.flags |= flags;
        why
    }
}

impl Same {
    fn of(raw: &RawEvent) -> Self {
        Self {
            seq: raw.print.seq,
            ack: raw.print.ack,
            len: raw.print.payload_len,
            id: raw.print.ip_id,
        }
    }
}

fn key(tuple: Tuple, ifindex: u32, side: Option<Dir>) -> (Key, bool) {
    let back = tuple.reversed();
    let reversed = back < tuple;
    let tuple = if reversed { back } else { tuple };
    let key = Key {
        tuple,
        ifindex,
        side,
    };
    (key, reversed)
}

/// Whether a packet shows that its sender asks (or answers); `None`: it goes on as before.
fn asks(raw: &RawEvent, tuple: Tuple, fresh: bool) -> Option<bool> {
    let v6 = tuple.proto == Proto::ICMPV6;
    match (raw.print.tcp_flags & (SYN | ACK), raw.print.icmp_type) {
        (flags, _) if raw.present & present::TCP != 0 && flags & SYN != 0 => Some(flags & ACK == 0),
        (_, kind) if tuple.proto.is_icmp() => match kind {
            8 if !v6 => Some(true),
            128 if v6 => Some(true),
            0 if !v6 => Some(false),
            129 if v6 => Some(false),
            _ => fresh.then_some(true),
        },
        // It was open before: clients' ports are the greater ones.
        _ => fresh.then_some(tuple.sport >= tuple.dport),
    }
}
