//! The other ends of pairs. A device tells the index of its peer and a number for the peer's
//! namespace, which means something only in its own: so the namespace is asked which of the
//! others it calls by that number.

use super::sight::{Sight, Tie};
use std::collections::{BTreeMap, BTreeSet};
use tracer_core::event::NetnsId;
use tracer_core::inventory::Link;

/// What each namespace calls the others.
#[derive(Debug, Default)]
pub(super) struct Nsids(BTreeMap<NetnsId, BTreeMap<i32, NetnsId>>);

impl Nsids {
    /// Which namespace `at` means by a number.
    pub(super) fn meaning(&self, at: NetnsId, nsid: i32) -> Option<NetnsId> {
        self.0.get(&at)?.get(&nsid).copied()
    }

    /// A namespace is gone, or another has its inode number now.
    pub(super) fn forget(&mut self, id: NetnsId) {
        self.0.remove(&id);
        for names in self.0.values_mut() {
            names.retain(|_, other| *other != id);
        }
    }

    /// Asks a namespace for its numbers of some others.
    pub(super) fn learn(&mut self, at: NetnsId, about: &BTreeSet<NetnsId>, ask: &impl Ask) {
        if !about.is_empty() {
            self.0.entry(at).or_default().extend(ask(at, about));
        }
    }

    /// Asks a namespace anew for all its numbers; who is called otherwise than before, or not at
    /// all any more.
    pub(super) fn relearn(
        &mut self,
        at: NetnsId,
        everyone: &BTreeSet<NetnsId>,
        ask: &impl Ask,
    ) -> BTreeSet<NetnsId> {
        let before = self.0.remove(&at).unwrap_or_default();
        self.learn(at, everyone, ask);
        let changed = before
            .iter()
            .filter(|(n, id)| self.meaning(at, **n) != Some(**id));
        changed.map(|(_, id)| *id).collect()
    }

    /// Learns the numbers that are needed to find every peer: a namespace with a pair whose
    /// other end is not settled is asked about those that have a device which could be it.
    pub(super) fn learn_peers(&mut self, sights: &BTreeMap<NetnsId, Sight>, ask: &impl Ask) {
        for (id, sight) in sights {
            let open = sight.ties.iter().filter(|(index, tie)| {
                is_pair(sight, **index) && peer(*id, **index, tie, sights, self).is_none()
            });
            let about = open
                .flat_map(|(index, tie)| candidates(*id, *index, tie, sights))
                .collect();
            self.learn(*id, &about, ask);
        }
    }
}

/// Asks the first namespace for its numbers of the others.
pub(super) trait Ask: Fn(NetnsId, &BTreeSet<NetnsId>) -> BTreeMap<i32, NetnsId> {}

impl<F: Fn(NetnsId, &BTreeSet<NetnsId>) -> BTreeMap<i32, NetnsId>> Ask for F {}

/// The devices of a namespace with their peers filled in.
pub(super) fn with_peers(
    id: NetnsId,
    sight: &Sight,
    sights: &BTreeMap<NetnsId, Sight>,
    nsids: &Nsids,
) -> BTreeMap<u32, Link> {
    let mut links = sight.links.clone();
    for (index, tie) in &sight.ties {
        if let Some(link) = links.get_mut(index) {
            if is_pair(sight, *index) {
                link.peer = peer(id, *index, tie, sights, nsids);
            } else if tie.nsid.is_none() {
                link.lower = Some(tie.ifindex);
            }
        }
    }
    links
}

/// The peer by this namespace's number for it, or by the other's number for us.
fn peer(
    id: NetnsId,
    index: u32,
    tie: &Tie,
    sights: &BTreeMap<NetnsId, Sight>,
    nsids: &Nsids,
) -> Option<(NetnsId, u32)> {
    let Some(nsid) = tie.nsid else {
        return Some((id, tie.ifindex));
    };
    if let Some(other) = nsids.meaning(id, nsid) {
        return Some((other, tie.ifindex));
    }
    candidates(id, index, tie, sights)
        .find(|other| {
            let back = sights[other].ties[&tie.ifindex].nsid;
            back.is_some_and(|nsid| nsids.meaning(*other, nsid) == Some(id))
        })
        .map(|other| (other, tie.ifindex))
}

/// Namespaces that have a device which says the same of ours as ours of it.
fn candidates(
    id: NetnsId,
    index: u32,
    tie: &Tie,
    sights: &BTreeMap<NetnsId, Sight>,
) -> impl Iterator<Item = NetnsId> {
    let wanted = tie.ifindex;
    sights
        .iter()
        .filter(move |(other, sight)| {
            **other != id
                && is_pair(sight, wanted)
                && sight
                    .ties
                    .get(&wanted)
                    .is_some_and(|back| back.ifindex == index && back.nsid.is_some())
        })
        .map(|(other, _)| *other)
}

/// Whether a device is one end of a pair: only there "link" means the other end.
fn is_pair(sight: &Sight, index: u32) -> bool {
    sight
        .links
        .get(&index)
        .is_some_and(|link| matches!(link.kind.as_str(), "veth" | "netkit" | "vxcan"))
}
