//! What is gone stays in the inventory for a while.

use super::Delta;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Inventory, Namespace};

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
                inventory.replaced.insert(*id, namespace);
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
        assert_eq!(inventory.replaced, only("old"));
    }
}
