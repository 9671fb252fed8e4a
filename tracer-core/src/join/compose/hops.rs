//! The hops of all hosts, in the order of the way.

use super::Scene;
use crate::journey::Direction;
use crate::report::Hop;

/// What became of the parts' hop numbers.
#[derive(Debug)]
pub(super) struct Numbers(Vec<Vec<u32>>);

impl Numbers {
    /// The new number of a part's hop.
    pub(super) fn of(&self, member: usize, old: Option<u32>) -> Option<u32> {
        let at = usize::try_from(old?.checked_sub(1)?).ok()?;
        self.0.get(member)?.get(at).copied()
    }

    /// Those of a part's first and last hop.
    pub(super) fn ends(&self, member: usize) -> (Option<u32>, Option<u32>) {
        let all = self.0.get(member);
        let get = |f: fn(&Vec<u32>) -> Option<&u32>| all.and_then(f).copied();
        (get(|all| all.first()), get(|all| all.last()))
    }
}

/// Puts the hops together. Each part's order stays; where parts interleave, the greater hop limit is
/// met first.
pub(super) fn hops(scene: &Scene<'_>) -> (Vec<Hop>, Numbers) {
    let members = scene.members;
    let mut next = vec![0usize; members.len()];
    let mut numbers = vec![Vec::new(); members.len()];
    let mut hops = Vec::new();
    let (mut start, mut latest) = (None, 0);
    loop {
        let head = |at: usize| {
            let sights = members[at].witness.way(Direction::Request);
            members[at]
                .flow
                .hops
                .get(next[at])
                .map(|hop| (hop, sights.get(next[at])))
        };
        let ttl = |at: usize| head(at).map(|(_, sight)| sight.map_or(0, |s| s.ttl));
        let heads = (0..members.len()).filter_map(|at| Some((ttl(at)?, at)));
        let best = heads.max_by_key(|(ttl, at)| (*ttl, std::cmp::Reverse(*at)));
        let Some((_, at)) = best else { break };
        let Some((hop, sight)) = head(at) else { break };
        if let Some(sight) = sight.filter(|sight| !sight.filled) {
            let time = scene.clocks.align(members[at].source, sight.at_ns);
            let start = *start.get_or_insert(time);
            // By clocks that are known so well only; the order is known better.
            latest = (time.saturating_sub(start) / 1000).max(latest);
        }
        let n = u32::try_from(hops.len() + 1).unwrap_or(u32::MAX);
        numbers[at].push(n);
        next[at] += 1;
        hops.push(Hop {
            n,
            t_us: latest,
            ..hop.clone()
        });
    }
    (hops, Numbers(numbers))
}
