//! How an inventory changed: only what did is written.

use crate::event::NetnsId;
use crate::inventory::{Cgroup, Facts, Former, Inventory, Namespace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most entries of each kind that a reader keeps.
const MOST: usize = 1 << 16;

/// From one inventory to the next. In the maps, `None` means that it is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The host's name.
    pub host: String,
    /// The namespace that is "the node".
    pub node: Option<NetnsId>,
    /// Whether only some namespaces are looked at.
    pub scoped: bool,
    /// Namespaces.
    pub namespaces: BTreeMap<NetnsId, Option<Namespace>>,
    /// Those whose number another has now.
    pub replaced: BTreeMap<NetnsId, Option<Former>>,
    /// cgroups.
    pub cgroups: BTreeMap<u64, Option<Cgroup>>,
    /// What was asked of namespaces in which packets died.
    pub facts: BTreeMap<NetnsId, Option<Facts>>,
}

impl Change {
    /// What makes `new` of `old`; `None` where nothing does.
    #[must_use]
    pub fn between(old: &Inventory, new: &Inventory) -> Option<Self> {
        if old == new {
            return None;
        }
        Some(Self {
            host: new.host.clone(),
            node: new.node,
            scoped: new.scoped,
            namespaces: changed(&old.namespaces, &new.namespaces),
            replaced: changed(&old.replaced, &new.replaced),
            cgroups: changed(&old.cgroups, &new.cgroups),
            facts: changed(&old.facts, &new.facts),
        })
    }

    /// Makes it so.
    pub fn apply(self, inventory: &mut Inventory) {
        inventory.host = self.host;
        inventory.node = self.node;
        inventory.scoped = self.scoped;
        apply(self.namespaces, &mut inventory.namespaces);
        apply(self.replaced, &mut inventory.replaced);
        apply(self.cgroups, &mut inventory.cgroups);
        apply(self.facts, &mut inventory.facts);
    }
}

fn changed<K: Ord + Copy, V: PartialEq + Clone>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let gone = old.keys().filter(|key| !new.contains_key(key));
    let fresh = new
        .iter()
        .filter(|(key, value)| old.get(key) != Some(value));
    gone.map(|key| (*key, None))
        .chain(fresh.map(|(key, value)| (*key, Some(value.clone()))))
        .collect()
}

fn apply<K: Ord, V>(changes: BTreeMap<K, Option<V>>, to: &mut BTreeMap<K, V>) {
    for (key, value) in changes {
        match value {
            Some(value) if to.len() < MOST || to.contains_key(&key) => {
                to.insert(key, value);
            }
            Some(_) => {}
            None => {
                to.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(names: &[(u32, &str)]) -> Inventory {
        let namespace = |name: &str| Namespace {
            name: Some(name.to_owned()),
            ..Namespace::default()
        };
        Inventory {
            host: "node-a".to_owned(),
            namespaces: names
                .iter()
                .map(|(id, name)| (NetnsId(*id), namespace(name)))
                .collect(),
            ..Inventory::default()
        }
    }

    #[test]
    fn only_what_changed_is_written_and_it_leads_there() {
        let old = inventory(&[(1, "node"), (2, "pod"), (3, "gone")]);
        let new = inventory(&[(1, "node"), (2, "renamed"), (4, "born")]);
        let change = Change::between(&old, &new).expect("they differ");
        let touched: Vec<u32> = change.namespaces.keys().map(|id| id.0).collect();
        assert_eq!(touched, [2, 3, 4]);
        let mut becomes = old.clone();
        change.apply(&mut becomes);
        assert_eq!(becomes, new);
        assert_eq!(Change::between(&new, &new), None);
    }
}
