//! What stays below `target/vm` between runs, each part made once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// The directory `target/vm`, held by one run at a time.
pub(crate) struct Store {
    root: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens it, waiting for another `vm-test` in this checkout to end.
    ///
    /// # Errors
    /// When the directory cannot be made or locked.
    pub(crate) fn open(space: &Workspace) -> Result<Self> {
        let root = space.target().join("vm");
        fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
        let path = root.join("lock");
        let lock = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        if lock.try_lock().is_err() {
            println!("vm-test: waiting for another vm-test in this checkout to end");
            lock.lock()
                .with_context(|| format!("locking {}", path.display()))?;
        }
        Ok(Self { root, _lock: lock })
    }

    /// Where the private apt of this name keeps its indexes.
    pub(crate) fn apt(&self, name: &str) -> PathBuf {
        self.root.join("apt").join(name)
    }

    /// Where one boot's image and console output go; they stay for looking at afterwards.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn run(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join("run").join(name);
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        Ok(dir)
    }

    /// True if [`Store::entry`] would find `name` made for `key`.
    pub(crate) fn has(&self, name: &str, key: &str) -> bool {
        is_complete(&self.root.join("cache").join(name), key)
    }

    /// The directory `name`, filled by `fill` unless that was done for the same `key` before. An interrupted or failed
    /// `fill` leaves nothing that counts as done.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(crate) fn entry(
        &self,
        name: &str,
        key: &str,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let dir = self.root.join("cache").join(name);
        if is_complete(&dir, key) {
            return Ok(dir);
        }
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        fill(&dir)?;
        fs::write(dir.join("complete"), key)
            .with_context(|| format!("writing to {}", dir.display()))?;
        Ok(dir)
    }
}

fn is_complete(dir: &Path, key: &str) -> bool {
    fs::read_to_string(dir.join("complete")).is_ok_and(|made_for| made_for == key)
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn an_entry_is_made_once_per_key_and_never_half() {
        let root = std::env::temp_dir().join(format!("srctrace-store-{}", std::process::id()));
        let store = Store::open(&Workspace::at(&root)).unwrap();
        assert!(store.entry("x", "1", |_| bail!("cut off")).is_err());
        assert!(!store.has("x", "1"));
        let dir = store
            .entry("x", "1", |dir| Ok(fs::write(dir.join("a"), "")?))
            .unwrap();
        assert_eq!(store.entry("x", "1", |_| bail!("made again")).unwrap(), dir);
        assert!(dir.join("a").exists() && store.has("x", "1") && !store.has("x", "2"));
        store.entry("x", "2", |_| Ok(())).unwrap();
        assert!(!dir.join("a").exists());
        fs::remove_dir_all(&root).unwrap();
    }
}
