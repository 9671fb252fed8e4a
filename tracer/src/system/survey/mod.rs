//! The inventory of this machine, taken once and kept up to date by short visits.

mod delta;
mod look;
mod memory;
mod names;
mod peers;
mod sight;
#[cfg(test)]
mod tests;

pub use delta::Delta;

use super::netns::{Discovery, Found, Netns, discover, has_other_mounts, on_visitor};
use super::pods::{CgroupPaths, PodNames, parse_cgroup};
use super::tunnels::tunnel;
use super::{Changed, Roots, SystemError};
use memory::Memory;
use sight::Sight;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::time::{Duration, Instant};
use tracer_core::event::NetnsId;
use tracer_core::inventory::{Cgroup, Facts, Inventory, Namespace, Tunnel};

/// Looking for a namespace that an event named reads every process: one that was looked for in
/// vain is not looked for again before this.
const MISS_PAUSE: Duration = Duration::from_secs(2);

/// Cgroups remembered at most.
const CGROUPS: usize = 1 << 14;

/// Which namespaces are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All on this machine.
    #[default]
    All,
    /// Only these, and the node's.
    Only(BTreeSet<NetnsId>),
}

/// The inventory and what is needed to keep it true. Its methods block for milliseconds.
#[derive(Debug)]
pub struct Survey {
    roots: Roots,
    node: Netns,
    scope: Scope,
    /// Every namespace, in scope or not.
    discovery: Discovery,
    /// What each namespace in scope showed at the last visit.
    sights: BTreeMap<NetnsId, Sight>,
    /// What the namespaces call each other.
    nsids: peers::Nsids,
    /// Numbers of the node's that mean no namespace that can be found.
    strangers: BTreeSet<i32>,
    pods: PodNames,
    names: BTreeMap<NetnsId, names::Names>,
    inventory: Inventory,
    missed: BTreeMap<NetnsId, Instant>,
    memory: Memory,
    cgroups: CgroupPaths,
}

impl Survey {
    /// Looks at every namespace in scope once. Namespaces that vanish meanwhile are left out.
    ///
    /// # Errors
    /// When the node's own namespace cannot be entered or read.
    pub fn take(roots: &Roots, node: &Netns, scope: Scope) -> Result<Self, SystemError> {
        let scoped = scope != Scope::All;
        let mut survey = Self {
            roots: roots.clone(),
            node: node.clone(),
            scope,
            discovery: Discovery::default(),
            sights: BTreeMap::new(),
            nsids: peers::Nsids::default(),
            strangers: BTreeSet::new(),
            pods: PodNames::default(),
            names: BTreeMap::new(),
            inventory: Inventory {
                host: super::host::hostname(),
                node: Some(node.id),
                scoped,
                ..Inventory::default()
            },
            missed: BTreeMap::new(),
            memory: Memory::default(),
            cgroups: CgroupPaths::default(),
        };
        survey.search(BTreeSet::new());
        match survey.sights.contains_key(&node.id) {
            true => Ok(survey),
            false => Err(look::why_not(node)),
        }
    }

    /// Calls this machine by another name than its own.
    pub fn name_host(&mut self, name: &str) {
        name.clone_into(&mut self.inventory.host);
    }

    /// The machine as it was at the last look, with namespaces that went away in the last minute.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// What was found, to resolve names with: in scope or not.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// How to open a namespace that is known.
    pub fn netns(&self, id: NetnsId) -> Option<&Netns> {
        Some(&self.discovery.found.get(&id)?.netns)
    }

    /// Brings the inventory up to date after a change was told.
    pub fn refresh(&mut self, changed: &Changed) -> Delta {
        let mut stale = BTreeSet::new();
        let mut strange = false;
        for nsid in &changed.nsids {
            let meaning = match nsid {
                Some(nsid) => self.nsids.meaning(self.node.id, *nsid),
                None => Some(self.node.id),
            };
            strange |= meaning.is_none() && nsid.is_some_and(|n| self.strangers.insert(n));
            stale.extend(meaning);
        }
        if changed.lost {
            stale.extend(self.discovery.found.keys());
        }
        if changed.numbers {
            self.strangers.clear();
            stale.extend(self.ask_numbers_again());
        }
        let mounts = changed.mounts && has_other_mounts(&self.roots, &self.discovery);
        match mounts || changed.numbers || changed.lost || strange {
            true => self.search(stale),
            false => self.look_again(&stale, &BTreeSet::new()),
        }
    }

    /// Looks for namespaces that an event named and that the inventory does not know, or knows
    /// without that device or a process that could name them. What was looked for a moment ago is
    /// not looked for again.
    pub fn learn(&mut self, ids: &BTreeSet<NetnsId>) -> Delta {
        let due = ids.iter().filter(|id| self.may_look(**id)).copied();
        let due: BTreeSet<NetnsId> = due.collect();
        if due.is_empty() {
            return Delta::default();
        }
        let found = &self.discovery.found;
        let nameable = |id: &NetnsId| found.get(id).is_some_and(|found| !found.pids.is_empty());
        let delta = match due.iter().all(nameable) {
            true => self.look_again(&due, &BTreeSet::new()),
            false => self.search(due.clone()),
        };
        let now = Instant::now();
        self.missed
            .retain(|_, at| now.duration_since(*at) < MISS_PAUSE);
        self.missed.extend(due.into_iter().map(|id| (id, now)));
        delta
    }

    /// Learns the paths and pods of cgroups that events named.
    pub fn learn_cgroups(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            let known = &mut self.inventory.cgroups;
            if known.contains_key(&id) || known.len() >= CGROUPS {
                continue;
            }
            if let Some(path) = self.cgroups.get(&self.roots, id) {
                let path = path.to_owned();
                let cgroup = Cgroup {
                    pod: self.pods.of_cgroup(&self.roots, &path),
                    container: parse_cgroup(&path).id,
                    path,
                };
                known.insert(id, cgroup);
            }
        }
    }

    /// The folder of a cgroup, opened; `None` where it cannot be seen from here, or is gone.
    pub fn cgroup_folder(&mut self, id: u64) -> Option<File> {
        self.cgroups.open(&self.roots, id)
    }

    /// Who has a tun device open, and who its peers are as far as its namespace and the node know; `None` where the
    /// namespace is gone.
    pub fn tunnel(&self, id: NetnsId, ifindex: u32) -> Option<Tunnel> {
        let device = &self.inventory.link(id, ifindex)?.name;
        let links = self.inventory.namespaces.get(&id)?.links.values();
        let own: Vec<_> = links
            .filter(|link| !link.loopback)
            .flat_map(|link| link.addrs.iter().map(|net| net.addr()))
            .collect();
        let around = Some(&self.node).filter(|node| node.id != id);
        let around: Vec<&Netns> = around.into_iter().collect();
        Some(tunnel(&self.roots, self.netns(id)?, device, &own, &around))
    }

    /// Keeps what a namespace said about packets that died in it.
    pub fn note_facts(&mut self, netns: NetnsId, facts: Facts) {
        let known = self.inventory.facts.entry(netns).or_default();
        known.absorb(facts);
    }

    fn may_look(&self, id: NetnsId) -> bool {
        let recent = self
            .missed
            .get(&id)
            .is_some_and(|at| at.elapsed() < MISS_PAUSE);
        self.in_scope(id) && !recent
    }

    fn in_scope(&self, id: NetnsId) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Only(ids) => id == self.node.id || ids.contains(&id),
        }
    }

    /// Finds the namespaces anew, then looks at those that are new and those that are stale.
    fn search(&mut self, mut stale: BTreeSet<NetnsId>) -> Delta {
        let mut now = discover(&self.roots);
        let bare = || Found::bare(&self.node);
        now.found.entry(self.node.id).or_insert_with(bare);
        let before = std::mem::replace(&mut self.discovery, now);
        let (gone, fresh) = delta::turnover(&before, &self.discovery);
        for id in gone.iter().chain(&fresh) {
            self.sights.remove(id);
            self.nsids.forget(*id);
            self.names.remove(id);
        }
        self.name_all(&before);
        stale.extend(&fresh);
        self.look_again(&stale, &fresh)
    }

    /// Names what is new, and what other processes live in now.
    fn name_all(&mut self, before: &Discovery) {
        self.pods.retry();
        for (id, found) in &self.discovery.found {
            let old = before.found.get(id);
            let settled = old.is_some_and(|old| old.pids == found.pids);
            if self.in_scope(*id) && !(settled && self.names.contains_key(id)) {
                let is_node = *id == self.node.id;
                let names = names::name(&self.roots, &mut self.pods, found, is_node);
                self.names.insert(*id, names);
            }
        }
    }

    /// Visits namespaces and makes the inventory from what is seen.
    fn look_again(&mut self, stale: &BTreeSet<NetnsId>, fresh: &BTreeSet<NetnsId>) -> Delta {
        let targets: Vec<&Netns> = stale
            .iter()
            .filter(|id| self.in_scope(**id))
            .filter_map(|id| self.netns(*id))
            .collect();
        let seen = on_visitor(|| look::look_at(&targets));
        for (id, sight) in seen.unwrap_or_default() {
            match sight {
                Some(sight) => self.sights.insert(id, sight),
                None => self.sights.remove(&id),
            };
        }
        let found = &self.discovery.found;
        let ask = |at: NetnsId, about: &BTreeSet<NetnsId>| ask(found, at, about);
        self.nsids.learn(self.node.id, fresh, &ask);
        self.nsids.learn_peers(&self.sights, &ask);
        self.publish(fresh)
    }

    /// Learns the node's numbers anew; the namespaces whose number is another now are others, or
    /// may be.
    fn ask_numbers_again(&mut self) -> BTreeSet<NetnsId> {
        let everyone = self.discovery.found.keys().copied().collect();
        let found = &self.discovery.found;
        self.nsids
            .relearn(self.node.id, &everyone, &|at, about| ask(found, at, about))
    }

    /// Replaces the inventory's namespaces, telling the differences.
    fn publish(&mut self, fresh: &BTreeSet<NetnsId>) -> Delta {
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
        let delta = Delta::between(&before, &self.inventory.namespaces, self.memory.departed());
        let present = self.sights.keys().copied().collect();
        self.memory
            .keep(before, &delta, fresh, &present, &mut self.inventory);
        delta
    }
}

/// Asks a namespace for its numbers of others.
fn ask(
    found: &BTreeMap<NetnsId, Found>,
    at: NetnsId,
    about: &BTreeSet<NetnsId>,
) -> BTreeMap<i32, NetnsId> {
    let others = about.iter().filter_map(|id| found.get(id));
    let others: Vec<&Netns> = others.map(|found| &found.netns).collect();
    let at = found.get(&at).map(|found| &found.netns);
    let numbers = on_visitor(|| look::numbers(at?, &others));
    numbers.ok().flatten().unwrap_or_default()
}
