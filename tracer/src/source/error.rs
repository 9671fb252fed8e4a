//! Why a file cannot be read, in one line.

use std::io;
use tracer_core::recording::ReadError;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system does not give it.
    #[error("{0}: cannot be read: {1}")]
    Unreadable(String, io::Error),
    /// A pipe, a folder, a device.
    #[error("{0}: not a regular file; it is read twice, so give it as one")]
    NotAFile(String),
    /// Not read yet.
    #[error("{0}: a packet capture; this version joins recordings (.srct) only")]
    Capture(String),
    /// It is not what it should be.
    #[error("{0}: {1}")]
    Malformed(String, ReadError),
    /// Too much to hold.
    #[error("{0}: larger than {1} MiB; give it in parts")]
    TooLarge(String, u64),
    /// Nothing in it.
    #[error("{0}: it ends before its header: nothing was recorded")]
    Empty(String),
}
