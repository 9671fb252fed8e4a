//! BPF objects that another program has pinned in a file system.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// A pin that was found, and stays the same object while this is held.
#[derive(Debug)]
pub struct Pin(OwnedFd);

impl Pin {
    /// The pin at a path below a root. Links in it lead no further than that root. `None`: nothing is there, or the
    /// root may not be entered.
    ///
    /// # Errors
    /// When the way to it may not be gone.
    pub fn open(root: &Path, path: &str) -> io::Result<Option<Self>> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(top) = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()) else {
            return Ok(None);
        };
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(top, path, flags, Mode::empty(), inside) {
            Ok(file) => Ok(Some(Self(file))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Where bpf(2) finds it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}
