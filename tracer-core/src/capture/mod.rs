//! Packet captures: packets in, the events that a trace would have told of them out.
//!
//! The same reader as in the kernel reads their headers (`tracer_ebpf::parse`), and the same are told: the
//! first packet with a tuple, each transition, first data, what was sent again, and a sign of life; the rest
//! is counted. What a capture does not say is not made up, with one exception: where frames do not tell
//! whether they came in or went out (Ethernet), requests are taken as coming in and answers as going out,
//! because captures come from far sides. [`crate::recording::Captured`] says so, and nothing is derived of it.

mod count;
mod link;
mod records;

pub use link::LinkType;
pub use records::{Interface, Records};

use crate::event::{self, Counter, Dir, Event, NetnsId};
use crate::packet::Tuple;
use count::Counts;
use tracer_common::{RawEvent, event_kind, matched, present, tap};
use tracer_ebpf::parse::{self, Bytes, Cursors, HEAD, Head};

/// The one namespace of a capture's host. Its number is not known.
pub const HERE: NetnsId = NetnsId(0);

/// A packet as it stands in a file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When, nanoseconds since 1970, UTC.
    pub time_ns: u64,
    /// What its bytes begin with.
    pub link: LinkType,
    /// The number of its interface, if the file tells it; 0: it does not. Cooked frames may say it
    /// themselves.
    pub interface: u32,
    /// Into the host or out of it, if the file tells it. Cooked frames say it themselves.
    pub side: Option<Dir>,
    /// Its length on the wire, bytes.
    pub len: u32,
    /// As much of it as was captured.
    pub bytes: &'a [u8],
}

/// What was read of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets.
    pub packets: u64,
    /// Those that are no IP packets.
    pub foreign: u64,
    /// Those that were cut before the end of their headers.
    pub cut: u64,
}

/// A capture that is being read. Its memory is bounded, however many flows there are.
#[derive(Debug, Default)]
pub struct Capture {
    counts: Counts,
    stats: Stats,
    /// Working space: it does not have to be made anew for each packet.
    raw: RawEvent,
}

impl Capture {
    /// Takes the next packet in; gives what is to be told of it.
    pub fn take(&mut self, packet: &Packet<'_>) -> Option<Event> {
        self.stats.packets += 1;
        let Some(frame) = link::frame(packet.link, packet.bytes) else {
            self.stats.foreign += 1;
            return None;
        };
        if self.read(packet, frame.at).is_none() {
            let whole = packet.bytes.len() >= packet.len as usize;
            let count = if whole {
                &mut self.stats.foreign
            } else {
                &mut self.stats.cut
            };
            *count += 1;
            return None;
        }
        let raw = &mut self.raw;
        raw.time_ns = packet.time_ns;
        raw.skb = self.stats.packets;
        raw.ifindex = frame.ifindex.unwrap_or(packet.interface);
        if let Some(vlan) = frame.vlan {
            raw.vlan = vlan;
            raw.present |= present::VLAN;
        }
        let tuple = Tuple::from_raw(&raw.tuple)?;
        // The old cooked frames show one packet once for each interface that it meets.
        let blind = packet.link == LinkType::Cooked;
        let told = self
            .counts
            .take(raw, tuple, frame.side.or(packet.side), blind);
        told.then(|| event::read(raw).ok()).flatten()
    }

    /// What was counted of one tuple so far.
    #[must_use]
    pub fn counted(&self, counter: &Counter) -> Option<(u64, u64)> {
        self.counts.of(counter)
    }

    /// What was read so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Reads the packet's headers; `None` where they are not there.
    fn read(&mut self, packet: &Packet<'_>, at: usize) -> Option<()> {
        let captured = packet.bytes.get(at..)?;
        let valid = captured.len().min(HEAD);
        let mut bytes = Bytes([0; HEAD]);
        bytes.0[..valid].copy_from_slice(&captured[..valid]);
        let head = Head {
            bytes: &bytes,
            valid,
        };
        self.raw = RawEvent::default();
        let raw = &mut self.raw;
        let mut cursors = Cursors::default();
        // What a file says of a length is not more to be trusted than what a header says.
        let len = packet.len.max(packet.bytes.len() as u32) - at as u32;
        parse::parse(&head, len, raw, &mut cursors)?;
        raw.kind = event_kind::PACKET;
        raw.tap = tap::RECEIVE;
        raw.matched = matched::FORWARD;
        raw.print.wire_packets = 1;
        let payload = cursors.outer.at();
        if let Some(hash) = parse::payload_hash(&head, payload, raw.print.payload_len) {
            raw.print.payload_hash = hash;
            raw.present |= present::PAYLOAD_HASH;
        }
        Some(())
    }
}

/// As numbers.
fn tap_of(side: Dir) -> u8 {
    match side {
        Dir::Ingress => tap::RECEIVE,
        Dir::Egress => tap::TRANSMIT,
    }
}

fn matched_of(request: bool) -> u8 {
    match request {
        true => matched::FORWARD,
        false => matched::REVERSE,
    }
}

#[cfg(test)]
mod tests;
