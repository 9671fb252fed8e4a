//! A JSON report on disk.

use super::{FileSource, SourceError};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

/// Largest report that is read, bytes: a hundred thousand flows.
const LARGEST: u64 = 512 << 20;

/// What a file with flows is.
pub enum Given {
    /// A recording, to be told again.
    Recording(Box<dyn FileSource>),
    /// A report's text, for `tracer_core::report::Reader`.
    Report(Vec<u8>),
}

/// Opens a recording, or a report as `--output json` prints it: that one begins with a brace.
///
/// # Errors
/// When it cannot be read, or is neither.
pub fn open_any(path: &Path) -> Result<Given, SourceError> {
    let name = || path.display().to_string();
    let unreadable = |error| SourceError::Unreadable(name(), error);
    let mut file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(SourceError::NotAFile(name()));
    }
    if !begins_with_a_brace(&mut file).map_err(unreadable)? {
        return super::open(path).map(Given::Recording);
    }
    text(&mut file, path).map(Given::Report)
}

/// A text file, whole.
///
/// # Errors
/// When it cannot be read, or is larger than any report.
fn text(file: &mut File, path: &Path) -> Result<Vec<u8>, SourceError> {
    let name = || path.display().to_string();
    let unreadable = |error| SourceError::Unreadable(name(), error);
    let mut text = Vec::new();
    file.rewind().map_err(unreadable)?;
    file.take(LARGEST + 1)
        .read_to_end(&mut text)
        .map_err(unreadable)?;
    match text.len() as u64 > LARGEST {
        true => Err(SourceError::TooLarge(name(), LARGEST >> 20)),
        false => Ok(text),
    }
}

fn begins_with_a_brace(file: &mut File) -> std::io::Result<bool> {
    let mut first = [0; 64];
    let got = file.read(&mut first)?;
    let text = first[..got].trim_ascii_start();
    Ok(text.first() == Some(&b'{'))
}
