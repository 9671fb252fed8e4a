//! Files that packets come from: recordings. Each yields the same records, whatever it is.

mod error;
mod recording;
mod report;

pub use error::SourceError;
pub use recording::RecordingFile;
pub use report::{Given, open_any};

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tracer_core::recording::{MAGIC, Source};

/// What a capture begins with: pcap in both byte orders and both resolutions, and pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// A file that is being read.
pub trait FileSource: Source<Error = SourceError> {
    /// What to say of how the file ended, once it has: it was cut, or its run was killed.
    fn remark(&self) -> Option<String>;
}

/// Opens a file; its first bytes tell what it is.
///
/// # Errors
/// When it cannot be read, or is nothing that srctrace reads.
pub fn open(path: &Path) -> Result<Box<dyn FileSource>, SourceError> {
    let name = path.display().to_string();
    let unreadable = |error| SourceError::Unreadable(name.clone(), error);
    let mut file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(SourceError::NotAFile(name));
    }
    let mut first = Vec::new();
    let size = MAGIC.len() as u64;
    file.by_ref()
        .take(size)
        .read_to_end(&mut first)
        .map_err(unreadable)?;
    if CAPTURES.iter().any(|magic| first.starts_with(magic)) {
        return Err(SourceError::Capture(name));
    }
    Ok(Box::new(RecordingFile::new(
        PathBuf::from(path),
        file,
        first,
    )))
}
