//! All network namespaces of this machine, by mounts and by processes.

use super::mountinfo::{self, NsMount};
use super::{Netns, processes};
use crate::system::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tracer_core::event::NetnsId;

/// A namespace and what leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// How to open it.
    pub netns: Netns,
    /// The name of its mount: of `ip netns`, a CNI or a container engine.
    pub name: Option<String>,
    /// Some processes in it, lowest id first.
    pub pids: Vec<u32>,
    /// Numbers of its mounts. Inode numbers are used again: other mounts, other namespace.
    pub mounts: Vec<u64>,
}

impl Found {
    /// A namespace that neither a mount nor a readable process shows.
    pub fn bare(netns: &Netns) -> Self {
        Self {
            netns: netns.clone(),
            name: None,
            pids: Vec::new(),
            mounts: Vec::new(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Every namespace.
    pub found: BTreeMap<NetnsId, Found>,
    /// The mounts that lead to them.
    mounts: Vec<NsMount>,
    /// Processes that could not be read, whose namespaces may be missing here.
    pub unreadable: usize,
}

/// Finds all network namespaces: mounted ones, and those that only processes hold.
pub fn discover(roots: &Roots) -> Discovery {
    let all = all_mounts(roots);
    let mut mounts: BTreeMap<NetnsId, Vec<NsMount>> = BTreeMap::new();
    for mount in &all {
        mounts.entry(mount.id).or_default().push(mount.clone());
    }
    let mut inhabited = processes::scan(roots);
    let ids: BTreeSet<NetnsId> = mounts
        .keys()
        .chain(inhabited.pids.keys())
        .copied()
        .collect();
    let found = ids
        .into_iter()
        .map(|id| {
            let mounts = mounts.remove(&id).unwrap_or_default();
            let pids = inhabited.pids.remove(&id).unwrap_or_default();
            (id, found(roots, id, mounts, pids))
        })
        .collect();
    Discovery {
        found,
        mounts: all,
        unreadable: inhabited.unreadable,
    }
}

/// Whether other namespaces are mounted than at a discovery: far cheaper than another one.
pub fn has_other_mounts(roots: &Roots, than: &Discovery) -> bool {
    all_mounts(roots) != than.mounts
}

fn found(roots: &Roots, id: NetnsId, mut mounts: Vec<NsMount>, pids: Vec<u32>) -> Found {
    mounts.sort_by_key(|m| (!mountinfo::is_ip_netns(&m.path), m.mount));
    let by_process = pids.iter().map(|pid| roots.of(*pid, "ns/net"));
    let paths = mounts.iter().map(|m| m.path.clone()).chain(by_process);
    Found {
        netns: Netns::new(id, paths.collect()),
        name: mounts.first().and_then(|m| mountinfo::name_of(&m.path)),
        mounts: mounts.iter().map(|m| m.mount).collect(),
        pids,
    }
}

/// The mounts that this process sees, then those of the first process where they are others.
fn all_mounts(roots: &Roots) -> Vec<NsMount> {
    let mut mounts = read_mounts(&roots.proc().join("self/mountinfo"));
    if let Some(first) = foreign_init(roots) {
        let seen_from_here = |mut m: NsMount| {
            m.path = first
                .join("root")
                .join(m.path.strip_prefix("/").unwrap_or(&m.path));
            m
        };
        let theirs = read_mounts(&first.join("mountinfo"));
        mounts.extend(theirs.into_iter().map(seen_from_here));
    }
    mounts
}

fn read_mounts(path: &Path) -> Vec<NsMount> {
    std::fs::read(path)
        .map(|text| mountinfo::parse(&text))
        .unwrap_or_default()
}

/// The first process's folder, when its mounts are not the ones we see: a container that shares
/// the host's process ids.
pub fn foreign_init(roots: &Roots) -> Option<PathBuf> {
    let theirs = std::fs::read_link(roots.of(1, "ns/mnt")).ok()?;
    let ours = std::fs::read_link(roots.proc().join("self/ns/mnt")).ok()?;
    (theirs != ours).then(|| roots.proc().join("1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::{Folder, TestNetns};
    use std::os::unix::fs::symlink;

    /// A process tree as a debug container sees it that shares the host's process ids.
    struct Tree(Folder);

    impl Tree {
        fn link(&self, at: &str, to: &str) {
            let path = self.0.path().join(at);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(to, path).unwrap();
        }

        fn roots(&self) -> Roots {
            Roots::at(self.0.path(), self.0.path())
        }
    }

    #[test]
    fn a_container_finds_the_hosts_namespaces_through_the_first_process() {
        let tree = Tree(Folder::new("discover"));
        let made = TestNetns::new("discover");
        let id = made.id();
        tree.link("self/ns/mnt", "mnt:[1]");
        tree.link("1/ns/mnt", "mnt:[2]");
        tree.link("1/ns/net", "net:[4026531840]");
        tree.link("1/root/run/netns", "/run/netns");
        tree.link("700/ns/net", "net:[4026539999]");
        tree.link("70/ns/net", "net:[4026539999]");
        tree.link("71/ns/net", "gone");
        tree.0
            .write("self/mountinfo", "1 0 0:1 / / rw - overlay overlay rw\n");
        let line = format!(
            "9 1 0:4 net:[{}] /run/netns/{} rw - nsfs nsfs rw\n",
            id.0, made.0
        );
        tree.0.write("1/mountinfo", &line);
        let roots = tree.roots();
        let found = discover(&roots);
        let seen: Vec<_> = found
            .found
            .values()
            .map(|f| (f.netns.id, f.name.clone(), f.pids.clone()))
            .collect();
        assert_eq!(
            seen.iter().filter(|(id, ..)| id.0 > 4026531840).count(),
            2,
            "{seen:?}"
        );
        assert_eq!(found.found[&id].name.as_deref(), Some(made.0.as_str()));
        assert_eq!(found.found[&NetnsId(4026539999)].pids, [70, 700]);
        assert_eq!(found.found[&NetnsId(4026531840)].pids, [1]);
        found.found[&id]
            .netns
            .open()
            .expect("opened through the first process's root");
        assert!(!has_other_mounts(&roots, &found));
        tree.0.write("1/mountinfo", "");
        assert!(has_other_mounts(&roots, &found));
    }

    #[test]
    fn a_tree_that_cannot_be_read_finds_nothing_and_says_so() {
        let nowhere = Path::new("/nonexistent");
        let found = discover(&Roots::at(nowhere, nowhere));
        assert_eq!((found.found.len(), found.unreadable), (0, 1));
    }
}
