//! Recordings: what a run was told, kept so that it can be told again.
//!
//! [`Trace`](crate::trace::Trace) is pure, so a recording is a recording of its inputs: events, drops,
//! rules, the inventory's changes, what the taps counted when they were asked, and the moments at which
//! flows were judged. [`Replay`] hands them to a trace of its own and gets the very report of the live run.
//! `docs/recording.md` describes the bytes.
//!
//! Records are also what any other source of packets yields: see [`Source`].

mod cbor;
mod change;
mod decoder;
mod encoder;
mod error;
mod frame;
mod journal;
mod record;
mod redact;
mod replay;

pub use change::Change;
pub use decoder::{Decoder, Ending};
pub use encoder::Encoder;
pub use error::ReadError;
pub use journal::Journal;
pub(crate) use journal::noting;
pub use record::{
    Answered, Asked, Captured, Clock, Count, Entry, Header, Kind, Lost, Reading, Record, Requested,
    Settings, Settled,
};
pub use redact::Redactor;
pub use replay::{Part, Replay};

use std::fmt::Display;

/// What a file begins with: not ASCII, and with both kinds of line ends, so that one that was mangled
/// as text is found out at once.
pub const MAGIC: [u8; 8] = *b"\x89SRCT\r\n\x1a";

/// The number of this format. A reader takes its own number only.
pub const VERSION: u16 = 1;

/// Most bytes of one frame, as stored and unpacked: what a reader must be ready to hold.
pub const MAX_FRAME: usize = 32 << 20;

/// Whatever yields records: a recording, or a capture, which is a host with one namespace and named
/// devices. The first record is the header, the last ones are `Finish` and `Summary`; a source that ends
/// without them was cut off. Times are the source's own CLOCK_MONOTONIC, or anything that grows with it.
pub trait Source {
    /// Why it cannot be read: one line.
    type Error: Display;

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// When what comes next cannot be read. There is nothing after an error.
    fn next_record(&mut self) -> Result<Option<Record>, Self::Error>;
}
