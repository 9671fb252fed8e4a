//! What two reports tell of the same paths: whose source changed.
//!
//! A path is a sender and a destination; the sender's port is not part of it. Senders are matched by pod
//! name (without one, by address) first. What is left on both sides is matched by the pods' set
//! (`shop/web-*`: after a roll-out all pods have other names), or by the address's /24 (IPv6: /64).

mod path;
mod seen;

pub use seen::Seen;

use crate::report::{Change, Compared, SourceCode};
use path::Loose;
use seen::Sight;
use std::collections::BTreeMap;

/// Most paths of one side that are listed by name.
const MOST_LISTED: usize = 100;

/// What changed between two reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The paths whose source changed.
    pub changes: Vec<Change>,
    /// What was compared.
    pub compared: Compared,
}

impl Comparison {
    /// Compares what was seen before with what was seen after.
    #[must_use]
    pub fn of(before: Seen, after: Seen) -> Self {
        let mut all = Self::default();
        all.compared.older = [before.older, after.older];
        all.compared.overflow = [before.overflow, after.overflow];
        let (mut before, mut after) = (before.paths, after.paths);
        let both: Vec<_> = before
            .keys()
            .filter(|path| after.contains_key(*path))
            .cloned()
            .collect();
        for path in both {
            if let (Some(old), Some(new)) = (before.remove(&path), after.remove(&path)) {
                all.pair(&old, &new);
            }
        }
        let [mut before, mut after] = [before, after].map(|left| {
            let mut loose: BTreeMap<Loose, Sight> = BTreeMap::new();
            for (path, sight) in left {
                match loose.entry(path.loose()) {
                    std::collections::btree_map::Entry::Vacant(slot) => {
                        slot.insert(sight);
                    }
                    std::collections::btree_map::Entry::Occupied(mut known) => {
                        let key = known.key().clone();
                        known.get_mut().join(sight, &key);
                    }
                }
            }
            loose
        });
        before.retain(|loose, old| match after.remove(loose) {
            Some(mut new) => {
                old.view = loose.view(&old.view);
                new.view = old.view.clone();
                all.pair(old, &new);
                false
            }
            None => true,
        });
        all.compared.only = [before.len() as u64, after.len() as u64];
        let listed = |left: BTreeMap<Loose, Sight>| {
            let views = left.into_values().map(|sight| sight.view);
            views.take(MOST_LISTED).collect()
        };
        all.compared.only_before = listed(before);
        all.compared.only_after = listed(after);
        all
    }

    fn pair(&mut self, old: &Sight, new: &Sight) {
        self.compared.paths += 1;
        if old.is_untold() || new.is_untold() {
            self.compared.untold += 1;
        } else if old.sources() == new.sources() {
            self.compared.unchanged += 1;
        } else {
            self.compared.changed += 1;
            self.changes.push(change(old, new));
        }
    }
}

fn change(old: &Sight, new: &Sight) -> Change {
    let (from, rule_before) = old.told();
    let (to, rule_after) = new.told();
    Change {
        flow: old.view.clone(),
        from,
        to,
        rule_before,
        rule_after,
        delivery_before: old.deliveries.iter().copied().collect(),
        delivery_after: new.deliveries.iter().copied().collect(),
        complete: old.complete && new.complete,
    }
}

/// Whether a source is one that can be compared.
fn is_told(source: SourceCode) -> bool {
    source != SourceCode::SourceUnknown
}

#[cfg(test)]
mod tests;
