//! Files that packets come from: recordings and packet captures. Each yields the same records, whatever it is.

mod capture;
mod error;
mod recording;
mod report;

pub use capture::CaptureFile;
pub use error::SourceError;
pub use recording::RecordingFile;
pub use report::{Given, open_any};

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tracer_core::event::Counter;
use tracer_core::recording::{MAGIC, Source};

/// What a capture begins with: pcap in both byte orders and both resolutions, pcap with longer packet headers,
/// and pcapng.
const CAPTURES: [[u8; 4]; 6] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x34, 0xcd, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];

/// What compressed files begin with, and what unpacks them.
const PACKED: [(&[u8], &str); 3] = [
    (&[0x1f, 0x8b], "gunzip"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -d"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "unxz"),
];

/// A file that is being read.
pub trait FileSource: Source<Error = SourceError> {
    /// What to say of the file and of how it ended, once it has: it was cut, or its run was killed.
    fn remarks(&self) -> Vec<String>;

    /// What was counted of one tuple so far, where the file does not hold the answers that a run was given.
    fn counted(&self, counter: &Counter) -> Option<(u64, u64)>;

    /// How much of it was read, bytes.
    fn read(&self) -> u64;
}

/// Whether a file is a recording.
///
/// # Errors
/// When it cannot be read.
pub fn is_recording(path: &Path) -> Result<bool, SourceError> {
    let name = path.display().to_string();
    let unreadable = |error| SourceError::Unreadable(name.clone(), error);
    let mut first = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    let size = MAGIC.len() as u64;
    file.take(size)
        .read_to_end(&mut first)
        .map_err(unreadable)?;
    Ok(first == MAGIC)
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
    let path = PathBuf::from(path);
    if CAPTURES.iter().any(|magic| first.starts_with(magic)) {
        return Ok(Box::new(CaptureFile::new(path, file, &first)?));
    }
    let packed = PACKED.iter().find(|(magic, _)| first.starts_with(magic));
    if let Some((_, unpack)) = packed {
        return Err(SourceError::Packed(name, unpack));
    }
    if !first.is_empty() && !MAGIC.starts_with(&first) {
        return Err(SourceError::Unknown(name));
    }
    Ok(Box::new(RecordingFile::new(path, file, first)))
}
