//! Entering namespaces, and always coming back out.

use crate::system::SystemError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::resume_unwind;

/// `NS_GET_NSTYPE` of linux/nsfs.h.
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

/// Runs `work` on a thread of its own that may move between namespaces and ends afterwards, so
/// the calling thread never leaves its place, not even on a panic.
///
/// # Errors
/// When there can be no more threads.
pub fn on_visitor<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, SystemError> {
    std::thread::scope(|scope| {
        let visitor = std::thread::Builder::new()
            .name("srctrace".into())
            .spawn_scoped(scope, work)
            .map_err(|e| SystemError::os("start", "a thread", e))?;
        Ok(visitor.join().unwrap_or_else(|p| resume_unwind(p)))
    })
}

/// Moves the calling thread into a namespace. Only for threads of [`on_visitor`].
///
/// # Errors
/// When the kernel refuses: without CAP_SYS_ADMIN, or over a foreign user namespace.
pub fn enter(
    fd: impl AsFd,
    kind: LinkNameSpaceType,
    object: &dyn std::fmt::Display,
) -> Result<(), SystemError> {
    move_into_link_name_space(fd.as_fd(), Some(kind))
        .map_err(|e| SystemError::os("enter the namespace of", object, e))
}

/// Runs `work` inside a namespace and closes everything again.
///
/// # Errors
/// When the namespace is gone or may not be entered, or what `work` returns.
pub fn visit<T: Send>(
    netns: &super::Netns,
    work: impl FnOnce() -> Result<T, SystemError> + Send,
) -> Result<T, SystemError> {
    let fd = netns.open()?;
    on_visitor(|| {
        enter(&fd, LinkNameSpaceType::Network, netns)?;
        work()
    })?
}

/// Whether a descriptor of the namespace file system is of a *network* namespace.
pub(super) fn is_network(fd: &OwnedFd) -> bool {
    // SAFETY: NS_GET_NSTYPE takes no argument and returns the type; the descriptor is open.
    let kind = unsafe { libc::ioctl(fd.as_raw_fd(), NS_GET_NSTYPE) };
    kind == libc::CLONE_NEWNET
}
