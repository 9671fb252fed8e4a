//! Records in, the bytes of a recording out.

use super::{Kind, MAGIC, MAX_FRAME, Record, VERSION, frame};
use serde::Serialize;

/// A frame is closed when its records have so many bytes.
const FULL: usize = 256 << 10;

/// Makes the bytes of a recording. Whoever calls it writes them out.
#[derive(Debug)]
pub struct Encoder {
    out: Vec<u8>,
    open: Option<Kind>,
    raw: Vec<u8>,
    too_large: u64,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// A file's beginning.
    #[must_use]
    pub fn new() -> Self {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2]);
        Self {
            out,
            open: None,
            raw: Vec::new(),
            too_large: 0,
        }
    }

    /// Adds a record. One that no frame can hold is left out: see [`Encoder::too_large`].
    pub fn put(&mut self, record: &Record) {
        if self.open != Some(record.kind()) || self.raw.len() >= FULL {
            self.close();
        }
        let before = self.raw.len();
        if write(record, &mut self.raw).is_err() || self.raw.len() > MAX_FRAME {
            self.raw.truncate(before);
            self.too_large += 1;
        }
        self.open = Some(record.kind());
    }

    /// Records that were left out so far because they were too large.
    #[must_use]
    pub fn too_large(&self) -> u64 {
        self.too_large
    }

    /// The bytes since this was last asked: whole frames.
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        std::mem::take(&mut self.out)
    }

    fn close(&mut self) {
        if let Some(kind) = self.open.take().filter(|_| !self.raw.is_empty()) {
            frame::write(kind as u8, &self.raw, &mut self.out);
        }
        self.raw.clear();
        self.raw.shrink_to(2 * FULL);
    }
}

type Written = Result<(), ciborium::ser::Error<std::io::Error>>;

fn write(record: &Record, out: &mut Vec<u8>) -> Written {
    match record {
        Record::Header(header) => put(header, out),
        Record::Clock(clock) => put(clock, out),
        Record::Inventory(change) => put(change, out),
        Record::Event(event) => put(event, out),
        Record::Entry(entry) => put(entry, out),
        Record::Drop(drop) => put(drop, out),
        Record::Hit(hit) => put(hit, out),
        Record::Lost(lost) => put(lost, out),
        Record::Unavailable(what) => put(what, out),
        Record::Rules(reading) => put(reading, out),
        Record::Recount(asked) | Record::Advance(asked) | Record::Finish(asked) => put(asked, out),
        Record::Judge(settled) => put(settled, out),
        Record::Socket(socket) => put(socket, out),
        Record::Opening(opening) => put(opening, out),
        Record::Summary(summary) => put(summary, out),
    }
}

fn put(value: &impl Serialize, out: &mut Vec<u8>) -> Written {
    ciborium::into_writer(value, out)
}
