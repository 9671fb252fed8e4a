//! From a cgroup's id, as the kernel's probes see it, to its path.

use crate::system::Roots;
use std::collections::{BTreeMap, BTreeSet};
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

    fn read(&mut self, roots: &Roots) {
        self.by_id.clear();
        for mount in ["sys/fs/cgroup/unified", "sys/fs/cgroup"] {
            for root in roots.on_host(mount) {
                if root.join("cgroup.controllers").exists() {
                    self.walk(&root);
                }
            }
        }
    }

    /// Takes down a tree. What another place showed already is kept.
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
            self.by_id.entry(meta.ino()).or_insert(path);
            if depth < DEPTH {
                let inner = std::fs::read_dir(&folder).into_iter().flatten().flatten();
                let inner = inner.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
                folders.extend(inner.map(|e| (e.path(), depth + 1)));
            }
        }
    }
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
        let mount = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
            .into_iter()
            .find(|m| Path::new(m).join("cgroup.controllers").exists())
            .expect("a cgroup2 mount");
        let id = std::fs::metadata(mount).unwrap().ino();
        assert_eq!(paths.get(&roots, id), Some("/"));
    }
}
