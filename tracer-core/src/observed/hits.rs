//! Which hits are of which flow.

use super::RuleHit;
use crate::event::NetnsId;
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
    /// there that begins with it, at about the same time.
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
            let entry = hop.conntrack.map(|entry| entry.orig);
            keys.extend(hop.tuples().chain(entry).map(|tuple| (netns, tuple)));
        }
        let entries = journey.conntracks.iter();
        keys.extend(entries.map(|(netns, entry)| (*netns, entry.orig)));
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
