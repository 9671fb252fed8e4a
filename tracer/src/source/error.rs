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
    /// gzip, zstd, xz.
    #[error("{0}: compressed; unpack it first ({1})")]
    Packed(String, &'static str),
    /// It is not what it should be.
    #[error("{0}: {1}")]
    Malformed(String, ReadError),
    /// A capture that is not what it should be.
    #[error("{name}: it is damaged at byte {at}: {what}")]
    Damaged {
        /// The file.
        name: String,
        /// Where the block or packet begins.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A capture of something else.
    #[error(
        "{0}: its packets are of link type {1}, which is not read: Ethernet, Linux cooked (v1 and v2), raw IP and BSD loopback are"
    )]
    Link(String, u32),
    /// Too much to hold.
    #[error("{0}: larger than {1} MiB; give it in parts")]
    TooLarge(String, u64),
    /// Nothing in it.
    #[error("{0}: it ends before its header: nothing was recorded")]
    Empty(String),
    /// None of them.
    #[error(
        "{0}: neither a recording of srctrace (.srct) nor a packet capture (pcap, pcapng), by its first bytes"
    )]
    Unknown(String),
}
