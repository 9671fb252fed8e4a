//! What is gone stays in the inventory for a while.

use super::Delta;
use crate::system::host;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Former, Inventory, Namespace};

/// How long: flows that end after their pod can still be named, and what took its place be told
/// from it.
const MEMORY: Duration = Duration::from_secs(60);

/// When namespaces went that the inventory still holds.
#[derive(Debug, Default)]
pub(super) struct Memory {
    departed: BTreeMap<NetnsId, Instant>,
    /// Those whose number another has now.
    replaced: BTreeMap<NetnsId, Instant>,
}

impl Memory {
    /// Those that are gone and whose number nobody has.
    pub(super) fn departed(&self) -> &BTreeMap<NetnsId, Instant> {
        &self.departed
    }

    /// Keeps what is gone, from the namespaces of the inventory `before`; `fresh` are those that
    /// were not there then, whatever had their numbers.
    pub(super) fn keep(
        &mut self,
        mut before: BTreeMap<NetnsId, Namespace>,
        delta: &Delta,
        fresh: &BTreeSet<NetnsId>,
        present: &BTreeSet<NetnsId>,
        inventory: &mut Inventory,
    ) {
        let now = Instant::now();
        let recent = |at: &Instant| now.duration_since(*at) < MEMORY;
        for id in fresh {
            if let Some(namespace) = before.remove(id) {
                let gone = self.departed.get(id).map(Instant::elapsed);
                let gone_ns = gone.map(|ago| host::monotonic_ns().saturating_sub(nanoseconds(ago)));
                let former = Former { namespace, gone_ns };
                inventory.replaced.insert(*id, former);
                self.replaced.insert(*id, now);
            }
        }
        self.replaced.retain(|_, at| recent(at));
        inventory
            .replaced
            .retain(|id, _| self.replaced.contains_key(id));
        self.departed
            .extend(delta.removed.iter().map(|id| (*id, now)));
        self.departed
            .retain(|id, at| !present.contains(id) && recent(at));
        let kept = before
            .into_iter()
            .filter(|(id, _)| self.departed.contains_key(id));
        inventory.namespaces.extend(kept);
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that was given again names the new one, and the old one is still told.
    #[test]
    fn whose_number_another_has_is_kept_apart() {
        let id = NetnsId(7);
        let called = |name: &str| Namespace {
            name: Some(name.to_owned()),
            ..Namespace::default()
        };
        let only = |name| BTreeMap::from([(id, called(name))]);
        let mut inventory = Inventory {
            namespaces: only("new"),
            ..Inventory::default()
        };
        let (present, mut memory) = (BTreeSet::from([id]), Memory::default());
        let mut keep = |fresh: &BTreeSet<NetnsId>| {
            let before = only("old");
            memory.keep(before, &Delta::default(), fresh, &present, &mut inventory);
        };
        keep(&present);
        keep(&BTreeSet::new());
        assert_eq!(inventory.namespaces, only("new"));
        assert_eq!(inventory.replaced[&id].namespace, called("old"));
        assert_eq!(inventory.replaced[&id].gone_ns, None);
    }

    /// One that was seen to be gone before another got its number: flows of before are its own.
    #[test]
    fn when_it_went_is_known_where_it_was_seen() {
        let id = NetnsId(7);
        let only = || BTreeMap::from([(id, Namespace::default())]);
        let (mut inventory, mut memory) = (Inventory::default(), Memory::default());
        let gone = Delta {
            removed: BTreeSet::from([id]),
            ..Delta::default()
        };
        let nobody = BTreeSet::new();
        let before = host::monotonic_ns();
        memory.keep(only(), &gone, &nobody, &nobody, &mut inventory);
        let between = host::monotonic_ns();
        let here = BTreeSet::from([id]);
        memory.keep(only(), &Delta::default(), &here, &here, &mut inventory);
        let gone_ns = inventory.replaced[&id].gone_ns.unwrap();
        assert!((before..=between + 1_000_000).contains(&gone_ns));
    }
}
