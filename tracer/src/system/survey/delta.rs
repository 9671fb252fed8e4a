//! Telling one look from the next.

use crate::system::netns::{Discovery, Found};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use tracer_core::event::NetnsId;
use tracer_core::inventory::Namespace;

/// What a refresh found changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Namespaces that are new.
    pub added: BTreeSet<NetnsId>,
    /// Namespaces whose devices, addresses, routes or names changed.
    pub updated: BTreeSet<NetnsId>,
    /// Namespaces that are gone; the inventory remembers them for a minute. When the node's is among them, [`crate::system::Watch`] must
    /// release it too.
    pub removed: BTreeSet<NetnsId>,
}

impl Delta {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.updated.is_empty() && self.removed.is_empty()
    }

    /// The difference between two inventories, of which the first also holds what had departed
    /// already.
    pub(super) fn between(
        before: &BTreeMap<NetnsId, Namespace>,
        now: &BTreeMap<NetnsId, Namespace>,
        departed: &BTreeMap<NetnsId, Instant>,
    ) -> Self {
        let mut delta = Self::default();
        for (id, namespace) in now {
            match before.get(id).filter(|_| !departed.contains_key(id)) {
                None => delta.added.insert(*id),
                Some(old) if old != namespace => delta.updated.insert(*id),
                Some(_) => false,
            };
        }
        let gone = before
            .keys()
            .filter(|id| !now.contains_key(id) && !departed.contains_key(id));
        delta.removed.extend(gone);
        delta
    }
}

/// Namespaces that are gone, and those that are new or replaced under the same number.
pub(super) fn turnover(
    before: &Discovery,
    now: &Discovery,
) -> (BTreeSet<NetnsId>, BTreeSet<NetnsId>) {
    let gone = before
        .found
        .keys()
        .filter(|id| !now.found.contains_key(id))
        .copied()
        .collect();
    let went_on = |(id, found): &(&NetnsId, &Found)| {
        let old = before.found.get(id);
        old.is_some_and(|old| is_same(old, found))
    };
    let fresh = now
        .found
        .iter()
        .filter(|pair| !went_on(pair))
        .map(|(id, _)| *id)
        .collect();
    (gone, fresh)
}

/// Whether two findings under one inode number are one namespace: a mount or a process went on.
fn is_same(old: &Found, new: &Found) -> bool {
    old.mounts.iter().any(|m| new.mounts.contains(m))
        || old.pids.iter().any(|p| new.pids.contains(p))
        || old == new
}
