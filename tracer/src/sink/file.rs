//! Files that tell who talks to whom.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a file that only its owner may read; one that is there is replaced.
///
/// # Errors
/// When it cannot be made, or is a symbolic link.
pub fn private(path: &Path) -> io::Result<File> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(no_link)
        .open(path)
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => io::Error::other(
                "it is a symbolic link, and none is followed; give the file itself",
            ),
            _ => error,
        })?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}
