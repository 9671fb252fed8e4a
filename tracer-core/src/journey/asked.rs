//! Who waits for an answer. A far side with several addresses, or a translation that nobody takes
//! back, answers from another address than was asked: that is the reply of the flow that waits, and
//! no flow of its own.

use super::correlator::Correlator;
use super::place::Place;
use super::slab::FlowRef;
use super::{Direction, Journey};
use crate::event::{Event, NetnsId};
use crate::packet::{Proto, Tuple};
use std::net::IpAddr;

/// How long a request is expected to be answered so.
pub(super) const ASKED_NS: u64 = 2_000_000_000;

/// The asking end, in its namespace.
pub(super) type Asker = (NetnsId, Proto, IpAddr, u16);

fn asker(netns: NetnsId, tuple: Tuple) -> Asker {
    (netns, tuple.proto, tuple.src, tuple.sport)
}

/// Whether many hear it, and answer from their own addresses. A subnet's broadcast address is known
/// only there; one that may be one is taken for it.
fn asks_many(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_multicast() || addr.octets()[3] == 255,
        IpAddr::V6(addr) => addr.is_multicast(),
    }
}

impl Correlator {
    /// Notes a request. Where both ends have the same port, as between equals (NTP, WireGuard),
    /// others call there of their own accord.
    pub(super) fn note_asked(&mut self, event: &Event, place: Place, at: FlowRef) {
        let equals = event.tuple.sport == event.tuple.dport;
        if !equals && !asks_many(event.tuple.dst) {
            let key = asker(place.netns, event.tuple);
            self.asked.note(event.time_ns, key, at);
        }
    }

    /// The flow that waits for this packet's like, from another address.
    pub(super) fn waiting_for(&self, event: &Event, place: Place) -> Option<FlowRef> {
        let asked = event.tuple.reversed();
        let at = *self.asked.get(event.time_ns, &asker(place.netns, asked))?;
        let flow = self.flows.get(at)?;
        let journey = flow.journey.as_deref()?;
        let waits =
            journey.exchange.reply_ns.is_none() && journey.request_to_port(place, asked.dport);
        (waits && flow.fits(&event.print, Direction::Reply)).then_some(at)
    }
}

impl Journey {
    /// Whether the request went to this port, as it was sighted in a namespace.
    fn request_to_port(&self, place: Place, port: u16) -> bool {
        let there = self
            .request
            .hops()
            .iter()
            .filter(|h| h.place.netns == place.netns);
        there.flat_map(super::Hop::tuples).any(|t| t.dport == port)
    }
}
