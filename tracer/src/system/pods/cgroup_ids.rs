//! From a cgroup's id, as the kernel's probes see it, to its path.

use crate::system::Roots;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Cgroups of one machine at most, and how deep they nest.
const FOLDERS: usize = 1 << 16;
const DEPTH: usize = 32;

/// Paths by id. The id is the inode number of the cgroup's folder; the tree is read when an id
/// is asked for that was not there at the last reading.
#[derive(Debug, Default)]
pub struct CgroupPaths {
    by_id: BTreeMap<u64, String>,
    missing: BTreeSet<u64>,
}

impl CgroupPaths {
    /// The path of a cgroup below its mount, beginning with `/`; `None` where it cannot be seen
    /// from here, or is gone.
    pub fn get(&mut self, roots: &Roots, id: u64) -> Option<&str> {
        if !self.by_id.contains_key(&id) && !self.missing.contains(&id) {
            self.read(roots);
            if !self.by_id.contains_key(&id) && self.missing.len() < FOLDERS {
                self.missing.insert(id);
            }
        }
        self.by_id.get(&id).map(String::as_str)
    }

    /// The folder of a cgroup, opened.
    pub fn open(&mut self, roots: &Roots, id: u64) -> Option<File> {
        let path = self.get(roots, id)?.trim_start_matches('/').to_owned();
        trees(roots).into_iter().find_map(|tree| {
            let folder = File::open(tree.path.join(&path)).ok()?;
            // A tree that is a part of another has other paths.
            let is_it = folder.metadata().is_ok_and(|meta| meta.ino() == id);
            is_it.then_some(folder)
        })
    }

    /// Reads each tree once: what is seen through several places is one.
    fn read(&mut self, roots: &Roots) {
        self.by_id.clear();
        let mut seen = BTreeSet::new();
        for tree in trees(roots) {
            let top = std::fs::metadata(&tree.path).map(|m| (m.dev(), m.ino()));
            if top.is_ok_and(|top| seen.insert(top)) {
                self.walk(&tree.path);
            }
        }
    }

    /// Takes down a tree. A container sees a part of it as the whole, the host by longer paths:
    /// those are kept.
    fn walk(&mut self, root: &Path) {
        let mut folders: Vec<(PathBuf, usize)> = vec![(root.into(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            if self.by_id.len() >= FOLDERS {
                return;
            }
            let Ok(meta) = std::fs::metadata(&folder) else {
                continue;
            };
            let below = folder.strip_prefix(root).unwrap_or(&folder);
            let path = format!("/{}", below.display());
            let known = self.by_id.entry(meta.ino()).or_default();
            if path.len() > known.len() {
                *known = path;
            }
            if depth < DEPTH {
                let inner = std::fs::read_dir(&folder).into_iter().flatten().flatten();
                let inner = inner.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
                folders.extend(inner.map(|e| (e.path(), depth + 1)));
            }
        }
    }
}

/// A cgroup tree (version 2) that can be read.
pub(super) struct Tree {
    /// Its top.
    pub(super) path: PathBuf,
    /// Keeps a mount of our own, which is nowhere in the file system and ends with this.
    _own: Option<OwnedFd>,
}

/// The trees that are mounted; where none is (`ip netns exec` hides them), one of our own.
pub(super) fn trees(roots: &Roots) -> Vec<Tree> {
    let mounted: Vec<Tree> = ["sys/fs/cgroup/unified", "sys/fs/cgroup"]
        .into_iter()
        .flat_map(|mount| roots.on_host(mount))
        .filter(|root| root.join("cgroup.controllers").exists())
        .map(|path| Tree { path, _own: None })
        .collect();
    match mounted.is_empty() && is_in_use(roots) {
        true => detached().into_iter().collect(),
        false => mounted,
    }
}

/// Whether the system uses version 2 at all: the first mount would switch it on.
fn is_in_use(roots: &Roots) -> bool {
    let own = std::fs::read_to_string(roots.proc().join("self/cgroup"));
    own.is_ok_and(|text| text.lines().any(|line| line.starts_with("0::")))
}

fn detached() -> rustix::io::Result<Tree> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, read_only)?;
    Ok(Tree {
        path: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(),
        _own: Some(mount),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Folder;

    #[test]
    fn ids_are_inode_numbers_and_new_groups_are_found() {
        let host = Folder::new("cgroup-ids");
        host.write("sys/fs/cgroup/cgroup.controllers", "");
        host.make("sys/fs/cgroup/kubepods.slice/a");
        let roots = Roots::at(host.path(), host.path());
        let id = |path: &str| std::fs::metadata(host.path().join(path)).unwrap().ino();
        let mut paths = CgroupPaths::default();
        let a = id("sys/fs/cgroup/kubepods.slice/a");
        assert_eq!(paths.get(&roots, a), Some("/kubepods.slice/a"));
        assert_eq!(paths.get(&roots, 1), None);
        host.make("sys/fs/cgroup/late");
        let late = id("sys/fs/cgroup/late");
        assert_eq!(paths.get(&roots, late), Some("/late"));
        let top = id("sys/fs/cgroup");
        assert_eq!(paths.get(&roots, top), Some("/"));
    }

    #[test]
    fn this_process_is_found_on_the_real_tree() {
        let roots = Roots::default();
        let mut paths = CgroupPaths::default();
        let tree = trees(&roots).remove(0);
        let id = std::fs::metadata(&tree.path).unwrap().ino();
        assert_eq!(paths.get(&roots, id), Some("/"));
    }

    #[test]
    fn a_mount_of_our_own_shows_the_same_tree() {
        let roots = Roots::default();
        assert!(is_in_use(&roots), "this machine uses cgroup version 2");
        let own = detached().unwrap();
        let id = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).unwrap();
        let mounted = trees(&roots).remove(0);
        assert_eq!(id(&own.path), id(&mounted.path));
        let mut paths = CgroupPaths::default();
        paths.walk(&own.path);
        assert_eq!(paths.by_id[&id(&mounted.path)], "/");
        let refused = std::fs::create_dir(own.path.join("sys-test")).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
}
