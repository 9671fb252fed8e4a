//! When events were lost, and which flows may lack them.

use crate::journey::Journey;

/// Most spans of time that are remembered.
const MAX_LOSSES: usize = 64;

/// A span of time in which events were lost.
#[derive(Clone, Copy, Debug)]
struct Loss {
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

/// The spans of time in which events were lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses(Vec<Loss>);

impl Losses {
    /// Adds one.
    pub(super) fn add(&mut self, from_ns: u64, to_ns: u64, count: u64) {
        if self.0.len() >= MAX_LOSSES {
            // Too many to keep apart: one span that covers the two oldest.
            let oldest = self.0.remove(0);
            let next = &mut self.0[0];
            next.from_ns = next.from_ns.min(oldest.from_ns);
            next.count = next.count.saturating_add(oldest.count);
        }
        self.0.push(Loss {
            from_ns,
            to_ns,
            count,
        });
    }

    /// How many were lost while a flow lasted.
    pub(super) fn during(&self, journey: &Journey) -> u64 {
        // A flow that is over has no more to lose; any other may miss what came after its last
        // sighting.
        let over_before = |at: u64| journey.exchange.closed_ns.is_some_and(|c| c < at);
        let those = |l: &&Loss| l.to_ns >= journey.first_ns && !over_before(l.from_ns);
        let counts = self.0.iter().filter(those).map(|l| l.count);
        counts.fold(0, u64::saturating_add)
    }
}
