//! Files of a pod, opened below a process's root: links in it lead no further than that root, as they do for the
//! process, so a pod cannot make us read the node's files.

use super::Roots;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// All of it.
    pub(super) bytes: Vec<u8>,
    /// When it changed last, seconds since 1970.
    pub(super) changed: i64,
}

/// The root of a process.
pub(super) fn root_of(roots: &Roots, pid: u32) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        roots.of(pid, "root"),
        flags,
        Mode::empty(),
    )?)
}

/// Opens below a root, as a process whose root it is would; `None`: nothing is there.
pub(super) fn open(root: impl AsFd, path: &str, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), inside) {
        Ok(file) => Ok(Some(file)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads a file below a root; `None`: nothing is there.
pub(super) fn read(root: &OwnedFd, path: &str, largest: u64) -> io::Result<Option<Content>> {
    // A pipe in the place of a file must not hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Some(file) = open(root, path, flags)? else {
        return Ok(None);
    };
    let about = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::from(file).take(largest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Err(io::Error::other(format!(
            "it is larger than {largest} bytes"
        )));
    }
    Ok(Some(Content {
        bytes,
        changed: about.st_mtime,
    }))
}
