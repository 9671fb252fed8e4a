//! Pods without an API server: from a process's cgroup to the pod's uid, from the uid to
//! `namespace/name` by the folders that the kubelet keeps for the pod's logs.

mod cgroup;
mod cgroup_ids;
mod hostname;
mod logs;
mod resolve;
#[cfg(test)]
mod tests;

pub use cgroup::{Container, parse_cgroup};
pub use cgroup_ids::CgroupPaths;
pub use resolve::{resolve_origin, resolve_pod};

use super::Roots;
use super::netns::cgroup;
use std::collections::{BTreeMap, BTreeSet};

/// Names of pods by uid, as far as they were needed.
#[derive(Debug, Default)]
pub struct PodNames {
    by_uid: BTreeMap<String, String>,
    /// Uids without a log folder, not looked for again until [`Self::retry`].
    unknown: BTreeSet<String>,
}

impl PodNames {
    /// The pod of a process: `namespace/name`, or the host name of its container where the node
    /// keeps no log folders that can be seen from here.
    pub fn of_process(&mut self, roots: &Roots, pid: u32) -> Option<String> {
        let uid = parse_cgroup(&cgroup(roots, pid)?).pod_uid?;
        self.of_uid(roots, &uid)
            .or_else(|| hostname::of(roots, pid))
    }

    /// The pod that a cgroup belongs to, as `/kubepods…/pod<uid>…` names it.
    pub fn of_cgroup(&mut self, roots: &Roots, path: &str) -> Option<String> {
        let uid = parse_cgroup(path).pod_uid?;
        self.of_uid(roots, &uid)
    }

    /// Looks again for the pods that had no log folder.
    pub fn retry(&mut self) {
        self.unknown.clear();
    }

    fn of_uid(&mut self, roots: &Roots, uid: &str) -> Option<String> {
        if !self.by_uid.contains_key(uid) && !self.unknown.contains(uid) {
            self.by_uid = logs::pods(roots);
            if !self.by_uid.contains_key(uid) {
                self.unknown.insert(uid.to_owned());
            }
        }
        self.by_uid.get(uid).cloned()
    }
}
