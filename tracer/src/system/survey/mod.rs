//! The inventory of this machine, taken once and kept up to date by short visits.

mod look;
mod names;
mod peers;
#[cfg(test)]
mod tests;

use super::netns::{Discovery, Found, Netns, discover, on_visitor};
use super::pods::PodNames;
use super::{Changed, Roots, SystemError};
use look::Sight;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Inventory, Namespace};

pub(super) use look::ip;

/// Looking for unknown namespaces reads every process: not more often than this.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// Which namespaces are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All on this machine.
    #[default]
    All,
    /// Only these, and the node's.
    Only(BTreeSet<NetnsId>),
}

/// What a refresh found changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    /// Namespaces that are new, or new under an old inode number.
    pub(crate) added: BTreeSet<NetnsId>,
    /// Namespaces whose devices, addresses, routes or names changed.
    pub(crate) updated: BTreeSet<NetnsId>,
    /// Namespaces that are gone.
    pub(crate) removed: BTreeSet<NetnsId>,
}

impl Delta {
    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.updated.is_empty() && self.removed.is_empty()
    }
}

/// The inventory and what is needed to keep it true.
#[derive(Debug)]
pub(crate) struct Survey {
    roots: Roots,
    node: Netns,
    scope: Scope,
    discovery: Discovery,
    /// What each namespace showed at the last visit.
    sights: BTreeMap<NetnsId, Sight>,
    /// Which namespace an id means: by the namespace that uses it, then by id.
    nsids: peers::Nsids,
    pods: PodNames,
    names: BTreeMap<NetnsId, names::Names>,
    inventory: Inventory,
    searched: Option<Instant>,
}

impl Survey {
    /// Looks at every namespace in scope once. Namespaces that vanish meanwhile are left out.
    ///
    /// # Errors
    /// When the node's own namespace cannot be entered.
    pub(crate) fn take(roots: &Roots, node: &Netns, scope: Scope) -> Result<Self, SystemError> {
        let mut survey = Self {
            roots: roots.clone(),
            node: node.clone(),
            scope,
            discovery: Discovery::default(),
            sights: BTreeMap::new(),
            nsids: peers::Nsids::default(),
            pods: PodNames::default(),
            names: BTreeMap::new(),
            inventory: Inventory {
                host: super::host::hostname(),
                node: Some(node.id),
                ..Inventory::default()
            },
            searched: None,
        };
        survey.search(&BTreeSet::from([node.id]))?;
        Ok(survey)
    }

    /// The machine as it was at the last look.
    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// What was found, to resolve names with.
    pub(crate) fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// How to open a namespace that is known.
    pub(crate) fn netns(&self, id: NetnsId) -> Option<&Netns> {
        Some(&self.discovery.found.get(&id)?.netns)
    }

    /// Brings the inventory up to date after a change was told.
    ///
    /// # Errors
    /// When a namespace that exists cannot be entered.
    pub(crate) fn refresh(&mut self, changed: &Changed) -> Result<Delta, SystemError> {
        let mut stale: BTreeSet<NetnsId> = changed
            .nsids
            .iter()
            .filter_map(|nsid| match nsid {
                Some(nsid) => self.nsids.meaning(self.node.id, *nsid),
                None => Some(self.node.id),
            })
            .collect();
        if changed.lost {
            stale.extend(self.discovery.found.keys());
        }
        let unknown_id = changed
            .nsids
            .iter()
            .flatten()
            .any(|nsid| self.nsids.meaning(self.node.id, *nsid).is_none());
        if changed.namespaces || changed.lost || unknown_id {
            return self.search(&stale);
        }
        self.look_again(&stale)
    }

    /// Looks for namespaces that an event named but the inventory does not know, or knows without
    /// a pod's or a process's name. Costs nothing when asked again too soon.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub(crate) fn learn(&mut self, ids: &BTreeSet<NetnsId>) -> Result<Delta, SystemError> {
        let lacking = ids.iter().any(|id| self.lacks(*id));
        let recent = self.searched.is_some_and(|at| at.elapsed() < SEARCH_PAUSE);
        if !lacking || recent {
            return Ok(Delta::default());
        }
        self.search(&BTreeSet::new())
    }

    fn lacks(&self, id: NetnsId) -> bool {
        let in_scope = self.in_scope(id);
        in_scope
            && self
                .discovery
                .found
                .get(&id)
                .is_none_or(|found| found.pids.is_empty())
    }

    fn in_scope(&self, id: NetnsId) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Only(ids) => id == self.node.id || ids.contains(&id),
        }
    }

    /// Finds the namespaces anew, then looks at those that are new and those that are `stale`.
    fn search(&mut self, stale: &BTreeSet<NetnsId>) -> Result<Delta, SystemError> {
        let mut now = discover(&self.roots);
        now.found.retain(|id, _| self.in_scope(*id));
        now.found
            .entry(self.node.id)
            .or_insert_with(|| bare(&self.node));
        self.searched = Some(Instant::now());
        let before = std::mem::replace(&mut self.discovery, now);
        let (gone, fresh) = compare(&before, &self.discovery);
        for id in gone.iter().chain(&fresh) {
            self.sights.remove(id);
            self.nsids.forget(*id);
            self.names.remove(id);
        }
        self.name_all(&before);
        let visit: BTreeSet<NetnsId> = fresh.union(stale).copied().collect();
        self.look_again(&visit)
    }

    /// Names what is new, and what other processes live in now.
    fn name_all(&mut self, before: &Discovery) {
        for (id, found) in &self.discovery.found {
            let settled = before
                .found
                .get(id)
                .is_some_and(|old| old.pids == found.pids);
            if !settled || !self.names.contains_key(id) {
                let is_node = *id == self.node.id;
                let names = names::name(&self.roots, &mut self.pods, found, is_node);
                self.names.insert(*id, names);
            }
        }
    }

    /// Visits namespaces and makes the inventory from what is seen.
    fn look_again(&mut self, stale: &BTreeSet<NetnsId>) -> Result<Delta, SystemError> {
        let targets: Vec<&Found> = stale
            .iter()
            .filter_map(|id| self.discovery.found.get(id))
            .collect();
        let seen = on_visitor(|| look::look_at(&targets, &self.node))?;
        for (id, sight) in seen {
            match sight {
                Some(sight) => self.sights.insert(id, sight),
                None => self.sights.remove(&id),
            };
        }
        self.find_peers();
        Ok(self.publish())
    }

    fn find_peers(&mut self) {
        let found = &self.discovery.found;
        let ask = |at: NetnsId, about: &BTreeSet<NetnsId>| {
            on_visitor(|| look::nsids(found.get(&at)?, about, found))
        };
        peers::resolve(
            &self.sights,
            &mut self.nsids,
            self.node.id,
            found.keys(),
            ask,
        );
    }

    /// Replaces the inventory's namespaces, telling the differences.
    fn publish(&mut self) -> Delta {
        let now: BTreeMap<NetnsId, Namespace> = self
            .sights
            .iter()
            .filter_map(|(id, sight)| {
                let names = self.names.get(id)?.clone();
                let links = peers::with_peers(*id, sight, &self.sights, &self.nsids);
                Some((*id, sight.namespace(names, links)))
            })
            .collect();
        let before = std::mem::replace(&mut self.inventory.namespaces, now);
        delta(&before, &self.inventory.namespaces)
    }
}

/// The node's namespace when neither a mount nor a readable process shows it.
fn bare(node: &Netns) -> Found {
    Found {
        netns: node.clone(),
        name: None,
        pids: Vec::new(),
        mounts: Vec::new(),
    }
}

/// Namespaces that are gone, and those that are new or replaced under the same number.
fn compare(before: &Discovery, now: &Discovery) -> (BTreeSet<NetnsId>, BTreeSet<NetnsId>) {
    let gone = before
        .found
        .keys()
        .filter(|id| !now.found.contains_key(id))
        .copied()
        .collect();
    let same =
        |id: &NetnsId, found: &Found| before.found.get(id).is_some_and(|old| is_same(old, found));
    let fresh = now
        .found
        .iter()
        .filter(|(id, found)| !same(id, found))
        .map(|(id, _)| *id)
        .collect();
    (gone, fresh)
}

/// Whether two findings under one inode number are one namespace: a mount or a process went on.
fn is_same(old: &Found, new: &Found) -> bool {
    old.mounts.iter().any(|m| new.mounts.contains(m))
        || old.pids.iter().any(|p| new.pids.contains(p))
        || (old.mounts.is_empty() && old.pids.is_empty())
}

fn delta(before: &BTreeMap<NetnsId, Namespace>, now: &BTreeMap<NetnsId, Namespace>) -> Delta {
    let mut delta = Delta::default();
    for (id, namespace) in now {
        match before.get(id) {
            None => delta.added.insert(*id),
            Some(old) if old != namespace => delta.updated.insert(*id),
            Some(_) => false,
        };
    }
    let gone = before.keys().filter(|id| !now.contains_key(id));
    delta.removed.extend(gone);
    delta
}
