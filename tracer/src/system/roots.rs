//! Where the machine's trees are mounted.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where /proc is, and where the host's file system may be seen from here: a debug container has
/// it under /host, or through the first process.
#[derive(Clone, Debug)]
pub struct Roots {
    proc: PathBuf,
    hosts: Vec<PathBuf>,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            hosts: vec!["/".into(), "/host".into(), "/proc/1/root".into()],
        }
    }
}

impl Roots {
    /// Trees elsewhere, as tests make them.
    #[cfg(test)]
    pub fn at(proc: &Path, host: &Path) -> Self {
        Self {
            proc: proc.into(),
            hosts: vec![host.into()],
        }
    }

    /// The process tree.
    pub fn proc(&self) -> &Path {
        &self.proc
    }

    /// A file of one process.
    pub fn of(&self, pid: u32, file: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(file)
    }

    /// A path of the host, at each place where the host may be seen.
    pub fn on_host<'a>(&'a self, path: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        self.hosts.iter().map(move |root| root.join(path))
    }

    /// Opens a folder of the host, at each place where the host may be seen. Links are followed
    /// as the host would: an absolute one leads to the host's root, not to ours.
    pub fn folders(&self, path: &str) -> impl Iterator<Item = OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.hosts.iter().filter_map(move |root| {
            let top = rustix::fs::open(root, flags, Mode::empty()).ok()?;
            let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(top, path, flags, Mode::empty(), inside).ok()
        })
    }
}
