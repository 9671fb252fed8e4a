//! Two beginnings of one flow. Taps arm one after the other, and events are lost: then a flow that
//! runs already may be met first near its end, and by its next packet at its start, as if there
//! were two. When that packet comes to where the other was met, it shows that they are one.

use super::correlator::Correlator;
use super::place::Place;
use super::slab::FlowRef;
use super::tracked::Tracked;
use super::{Direction, Journey};

const BOTH: [Direction; 2] = [Direction::Request, Direction::Reply];

impl Correlator {
    /// Whether two flows can be parts of one, where a packet of `b` was sighted at `place`, which
    /// belongs to `a`. Two flows that entered (or left) one namespace by different devices are two
    /// networks with equal addresses, and two sequence numbers are two connections.
    pub(super) fn are_parts(&self, a: FlowRef, b: FlowRef, dir: Direction, place: Place) -> bool {
        let (Some(a), Some(b)) = (self.flows.get(a), self.flows.get(b)) else {
            return false;
        };
        let (Some(one), Some(other)) = (a.journey.as_deref(), b.journey.as_deref()) else {
            return false;
        };
        let same_connection = match (one.exchange.syn, other.exchange.syn) {
            (Some(x), Some(y)) => x == y,
            _ => true,
        };
        let certain = !one.ambiguous && !other.ambiguous;
        same_connection
            && certain
            && one.opened.proto == other.opened.proto
            && !one.way(dir).crosses(place)
            && BOTH.into_iter().all(|d| {
                !one.way(d)
                    .hops()
                    .iter()
                    .any(|h| other.way(d).crosses(h.place))
            })
    }

    /// Makes `part` a part of `whole`.
    pub(super) fn merge(&mut self, whole: FlowRef, part: FlowRef) {
        let Some(part_of) = self.flows.remove(part) else {
            return;
        };
        self.stats.seen = self.stats.seen.saturating_sub(1);
        self.bindings.rebind(part, whole, &part_of.keys);
        if let Some(flow) = self.flows.get_mut(whole) {
            flow.absorb(part_of);
        }
    }
}

impl Tracked {
    fn absorb(&mut self, part: Self) {
        // A flow whose SYN was sighted is not older than the trace, whatever else was sighted.
        let opens = |j: &Journey| j.exchange.opened && j.exchange.syn.is_some();
        self.last_ns = self.last_ns.max(part.last_ns);
        self.keys.extend(part.keys);
        let (Some(journey), Some(part)) = (self.journey.as_deref_mut(), part.journey) else {
            return;
        };
        let began = opens(journey) || opens(&part);
        journey.first_ns = journey.first_ns.min(part.first_ns);
        journey.last_ns = self.last_ns;
        journey.exchange.absorb(&part.exchange);
        journey.predates = !began && (journey.predates || part.predates);
        journey.process = journey.process.take().or(part.process);
        journey.losses.extend(part.losses);
        journey.leak = journey.leak.or(part.leak);
        journey.answer = journey.answer.or(part.answer);
        journey.request.absorb(part.request);
        journey.reply.absorb(part.reply);
        journey.error.absorb(part.error);
        for (netns, entry) in part.conntracks {
            super::tracked::remember(journey, netns, entry);
        }
    }
}
