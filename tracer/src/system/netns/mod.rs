//! Network namespaces: finding, naming, opening and visiting them.

mod discover;
mod mountinfo;
mod processes;
mod resolve;
mod visit;

pub use discover::{Discovery, Found, discover, foreign_init, has_other_mounts};
pub use processes::{Process, cgroup, pids, process};
pub use resolve::{near, resolve, resolve_all};
pub use visit::{enter, on_visitor, visit};

use super::{Roots, SystemError};
use rustix::fs::{Mode, OFlags};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tracer_core::event::NetnsId;

/// File system magic of the kernel's namespace files.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// A namespace that was found and can be opened again. Holding this keeps nothing alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netns {
    /// Its inode number.
    pub id: NetnsId,
    /// Files that led to it; any may be gone or lead elsewhere by now.
    paths: Vec<PathBuf>,
}

impl Netns {
    /// A namespace by the files that lead to it.
    pub fn new(id: NetnsId, paths: Vec<PathBuf>) -> Self {
        Self { id, paths }
    }

    /// The namespace this process runs in.
    ///
    /// # Errors
    /// When /proc is not readable.
    pub fn own(roots: &Roots) -> Result<Self, SystemError> {
        let path = roots.proc().join("self/ns/net");
        match path.symlink_metadata() {
            Ok(_) => Self::at(&path),
            Err(error) => Err(SystemError::Proc(error)),
        }
    }

    /// The namespace a file leads to.
    ///
    /// # Errors
    /// When the file cannot be opened or is not a network namespace.
    pub fn at(path: &Path) -> Result<Self, SystemError> {
        let unknown = |why: String| SystemError::Unknown {
            kind: "network namespace",
            given: path.display().to_string(),
            why,
        };
        let fd = open(path).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => SystemError::os("open", path.display(), e),
            _ => unknown(format!("cannot be opened: {e}")),
        })?;
        let id = identify(&fd).ok_or_else(|| {
            unknown(
                "is not a network namespace; accepted: NAME, PID or the path of one, \
                 such as /run/netns/NAME or /proc/PID/ns/net"
                    .into(),
            )
        })?;
        Ok(Self::new(id, vec![path.into()]))
    }

    /// Opens it. Close it soon: an open descriptor keeps the namespace's devices alive.
    ///
    /// # Errors
    /// When it is gone.
    pub fn open(&self) -> Result<OwnedFd, SystemError> {
        self.paths
            .iter()
            .filter_map(|path| open(path).ok())
            .find(|fd| identify(fd) == Some(self.id))
            .ok_or_else(|| SystemError::Vanished(self.to_string()))
    }
}

impl std::fmt::Display for Netns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.paths.first() {
            Some(path) => write!(f, "{}", path.display()),
            None => write!(f, "net:[{}]", self.id.0),
        }
    }
}

fn open(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The inode number, if this is a network namespace at all.
fn identify(fd: &OwnedFd) -> Option<NetnsId> {
    let on = rustix::fs::fstatfs(fd).ok()?;
    let is_net = on.f_type == NSFS_MAGIC && visit::is_network(fd);
    let stat = rustix::fs::fstat(fd).ok()?;
    is_net.then(|| u32::try_from(stat.st_ino).ok().map(NetnsId))?
}

/// The network namespace of a process; `None` once it is gone, or where that may not be seen.
pub fn id_of(roots: &Roots, pid: u32) -> Option<NetnsId> {
    let link = std::fs::read_link(roots.of(pid, "ns/net")).ok()?;
    parse_link(link.to_str()?)
}

/// Reads `net:[4026531840]`, as /proc and mountinfo write a namespace.
/// The number in `net:[4026531840]`.
pub(super) fn parse_link(text: &str) -> Option<NetnsId> {
    let number = text.strip_prefix("net:[")?.strip_suffix(']')?;
    number.parse().ok().map(NetnsId)
}
