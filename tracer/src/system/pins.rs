//! BPF objects that another program has pinned in a file system.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// A pin that was found, and stays the same object while this is held.
#[derive(Debug)]
pub struct Pin(OwnedFd);

impl Pin {
    /// The pin at a path below a root. Links in it lead no further than that root. `None`: nothing is there.
    ///
    /// # Errors
    /// When the way to it may not be gone.
    pub fn open(root: &Path, path: &str) -> io::Result<Option<Self>> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let found = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())
            .and_then(|top| rustix::fs::openat2(top, path, flags, Mode::empty(), inside));
        match found.map_err(io::Error::from) {
            Ok(file) => Ok(Some(Self(file))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Where bpf(2) finds it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}
