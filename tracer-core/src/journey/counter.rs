//! Wire packets and bytes of one flow at one tap.

use crate::event::Event;

/// A tap's counters, less what was there before the flow. Saturating: the numbers come from
/// outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counter {
    packets: u64,
    bytes: u64,
    packets_before: u64,
    bytes_before: u64,
}

impl Counter {
    /// Counters that begin with this event's packet: what was before it belongs to others.
    pub(super) fn from(event: &Event) -> Self {
        let own = u64::from(event.print.wire_packets);
        Self {
            packets: event.packets,
            bytes: event.bytes,
            packets_before: event.packets.saturating_sub(own),
            bytes_before: event.bytes.saturating_sub(event.l3_len.into()),
        }
    }

    /// Raises them; gives whether they grew.
    pub(super) fn raise(&mut self, packets: u64, bytes: u64) -> bool {
        let grew = packets > self.packets;
        self.packets = self.packets.max(packets);
        self.bytes = self.bytes.max(bytes);
        grew
    }

    /// The same tap's counters, seen by two parts of a flow.
    pub(super) fn merge(&mut self, other: &Self) {
        self.raise(other.packets, other.bytes);
        self.packets_before = self.packets_before.min(other.packets_before);
        self.bytes_before = self.bytes_before.min(other.bytes_before);
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets.saturating_sub(self.packets_before)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.bytes_before)
    }
}
