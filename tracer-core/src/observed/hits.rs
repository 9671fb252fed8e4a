//! Which hits are of which flow.

use super::RuleHit;
use crate::event::{Conntrack, NetnsId};
use crate::journey::Journey;
use crate::packet::Tuple;
use std::collections::{BTreeMap, VecDeque};

/// At most so many hits are kept: those of flows that are not told for long go first.
const MOST: usize = 16_384;

/// A flow's first packet passes a namespace's NAT hooks within this time of its sightings there: it
/// may wait for a neighbour's address.
const NEAR_NS: u64 = 5_000_000_000;

/// Hits that wait for their flow to be told.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    by_flow: BTreeMap<(NetnsId, Tuple), Vec<RuleHit>>,
    order: VecDeque<(NetnsId, Tuple)>,
}

impl Hits {
    /// Keeps a hit. The same rule for the same packet is kept once: two probes may see it.
    pub fn push(&mut self, hit: RuleHit) {
        let key = (hit.netns, hit.tuple);
        let of_flow = self.by_flow.entry(key).or_default();
        let same =
            |kept: &RuleHit| (kept.hook, &kept.place, kept.skb) == (hit.hook, &hit.place, hit.skb);
        if of_flow.iter().any(same) {
            return;
        }
        of_flow.push(hit);
        self.order.push_back(key);
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.by_flow.remove(&oldest);
            }
        }
    }

    /// The rules that ran for a journey's packets, in the order in which they ran. A hit is a
    /// flow's if a sighting in the same namespace shows the hit's tuple, or a conntrack entry
    /// there that begins with it or comes by it half translated, at about the same time.
    #[must_use]
    pub fn of(&self, journey: &Journey) -> Vec<&RuleHit> {
        if self.by_flow.is_empty() {
            return Vec::new();
        }
        let mut keys: Vec<(NetnsId, Tuple)> = Vec::new();
        for hop in [&journey.request, &journey.reply]
            .iter()
            .flat_map(|way| way.hops())
        {
            let netns = hop.place.netns;
            keys.extend(hop.tuples().map(|tuple| (netns, tuple)));
            let entry = hop.conntrack();
            keys.extend(entry.into_iter().flat_map(|entry| forms(netns, entry)));
        }
        let entries = journey.conntracks.iter();
        keys.extend(entries.flat_map(|(netns, entry)| forms(*netns, entry)));
        keys.sort_unstable();
        keys.dedup();
        let near = |hit: &&RuleHit| {
            let (from, to) = (journey.first_ns, journey.last_ns);
            hit.time_ns.saturating_add(NEAR_NS) >= from && hit.time_ns <= to.saturating_add(NEAR_NS)
        };
        let found = keys.iter().filter_map(|key| self.by_flow.get(key));
        let mut hits: Vec<_> = found.flatten().filter(near).collect();
        hits.sort_by_key(|hit| hit.time_ns);
        hits
    }

    /// How many are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_flow.values().map(Vec::len).sum()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_flow.is_empty()
    }
}

/// What a flow's packet looks like to rules before all of its translation is done: as it came, and
/// with the destination translated. iptables-legacy's trace shows each packet as its hook has it.
fn forms(netns: NetnsId, entry: &Conntrack) -> [(NetnsId, Tuple); 2] {
    let (came, leaves) = (entry.orig, entry.reply.reversed());
    let routed = Tuple {
        dst: leaves.dst,
        dport: leaves.dport,
        ..came
    };
    [(netns, came), (netns, routed)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Proto;
    use std::net::SocketAddr;

    fn tuple(src: &str, dst: &str) -> Tuple {
        let (src, dst): (SocketAddr, SocketAddr) = (src.parse().unwrap(), dst.parse().unwrap());
        Tuple {
            src: src.ip(),
            sport: src.port(),
            dst: dst.ip(),
            dport: dst.port(),
            proto: Proto::TCP,
        }
    }

    /// A Service's packet as POSTROUTING sees it is neither what came nor what leaves.
    #[test]
    fn a_half_translated_packet_is_known_by_its_entry() {
        let entry = Conntrack {
            orig: tuple("10.12.3.4:43210", "10.96.0.10:443"),
            reply: tuple("10.20.30.40:8443", "10.100.0.5:43210"),
            status: Conntrack::SRC_NAT | Conntrack::DST_NAT,
            zone: None,
            mark: None,
            is_reply: false,
        };
        let [came, routed] = forms(NetnsId(1), &entry).map(|(_, tuple)| tuple);
        assert_eq!(came, entry.orig);
        assert_eq!(routed, tuple("10.12.3.4:43210", "10.20.30.40:8443"));
    }
}
