//! The bytes of a recording in, records out.

use super::cbor;
use super::frame::{HEAD, Head, damaged};
use super::{Kind, MAGIC, ReadError, Record, VERSION};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;

/// Magic, version, and two bytes that are nothing yet.
const START: usize = MAGIC.len() + 4;

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the run's summary.
    Complete,
    /// Between two frames, before the run's end.
    Killed,
    /// In the middle of a frame, which begins at this byte.
    Cut(u64),
}

/// Reads a recording piece by piece. It holds at most one frame and its records.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes that were not taken yet, from `taken` on.
    bytes: Vec<u8>,
    taken: usize,
    /// Where `bytes` begin in the file.
    base: u64,
    started: bool,
    headed: bool,
    /// Which version wrote it, in words.
    writer: String,
    complete: bool,
    records: VecDeque<Record>,
    unknown: u64,
}

impl Decoder {
    /// At a file's beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the bytes that come next.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.base += self.taken as u64;
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next record; `None`: it takes more bytes.
    ///
    /// # Errors
    /// When the bytes are not a recording's.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        if !self.started && !self.start()? {
            return Ok(None);
        }
        loop {
            if let Some(record) = self.records.pop_front() {
                return self.checked(record).map(Some);
            }
            if !self.frame()? {
                return Ok(None);
            }
        }
    }

    /// How it ends, if nothing comes any more.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if self.taken < self.bytes.len() || !self.started {
            return Ending::Cut(self.at());
        }
        match self.complete {
            true => Ending::Complete,
            false => Ending::Killed,
        }
    }

    /// Frames passed over so far because this version does not know their kind.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    fn at(&self) -> u64 {
        self.base + self.taken as u64
    }

    fn start(&mut self) -> Result<bool, ReadError> {
        let seen = self.bytes.len().min(MAGIC.len());
        if self.bytes[..seen] != MAGIC[..seen] {
            return Err(ReadError::Magic);
        }
        let Some(start) = self.bytes.first_chunk::<START>() else {
            return Ok(false);
        };
        let version = u16::from_le_bytes([start[8], start[9]]);
        if version != VERSION {
            return Err(ReadError::Version(version));
        }
        self.taken = START;
        self.started = true;
        Ok(true)
    }

    /// The header comes first, and only then; the summary ends it.
    fn checked(&mut self, record: Record) -> Result<Record, ReadError> {
        let is_header = matches!(record, Record::Header(_));
        if is_header == self.headed {
            return Err(ReadError::Headless { at: self.at() });
        }
        if let Record::Header(header) = &record {
            self.writer = format!(" (written by srctrace {})", header.version);
        }
        self.headed = true;
        self.complete = matches!(record, Record::Summary(_));
        Ok(record)
    }

    /// Takes one frame; gives whether there was a whole one.
    fn frame(&mut self) -> Result<bool, ReadError> {
        let at = self.at();
        let rest = &self.bytes[self.taken..];
        let Some(head) = Head::read(rest, at)? else {
            return Ok(false);
        };
        let Some(stored) = rest.get(HEAD..HEAD + head.len) else {
            return Ok(false);
        };
        let raw = head.open(stored, at)?;
        match Kind::of(head.kind) {
            Some(kind) => {
                let mut raw = &*raw;
                while !raw.is_empty() {
                    let record = read(kind, &mut raw);
                    let record = record.map_err(|what| damaged(at, what + &self.writer))?;
                    self.records.push_back(record);
                }
            }
            None => self.unknown += 1,
        }
        self.taken += HEAD + head.len;
        Ok(true)
    }
}

impl Kind {
    /// The kind of that number, if this version knows it.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        const ALL: [Kind; 17] = [
            Kind::Header,
            Kind::Clock,
            Kind::Inventory,
            Kind::Event,
            Kind::Entry,
            Kind::Drop,
            Kind::Hit,
            Kind::Lost,
            Kind::Unavailable,
            Kind::Rules,
            Kind::Recount,
            Kind::Advance,
            Kind::Finish,
            Kind::Summary,
            Kind::Judge,
            Kind::Socket,
            Kind::Opening,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

fn read(kind: Kind, raw: &mut &[u8]) -> Result<Record, String> {
    Ok(match kind {
        Kind::Header => Record::Header(value(raw)?),
        Kind::Clock => Record::Clock(value(raw)?),
        Kind::Inventory => Record::Inventory(value(raw)?),
        Kind::Event => Record::Event(value(raw)?),
        Kind::Entry => Record::Entry(value(raw)?),
        Kind::Drop => Record::Drop(value(raw)?),
        Kind::Hit => Record::Hit(value(raw)?),
        Kind::Lost => Record::Lost(value(raw)?),
        Kind::Unavailable => Record::Unavailable(value(raw)?),
        Kind::Rules => Record::Rules(value(raw)?),
        Kind::Recount => Record::Recount(value(raw)?),
        Kind::Advance => Record::Advance(value(raw)?),
        Kind::Finish => Record::Finish(value(raw)?),
        Kind::Summary => Record::Summary(value(raw)?),
        Kind::Judge => Record::Judge(value(raw)?),
        Kind::Socket => Record::Socket(value(raw)?),
        Kind::Opening => Record::Opening(value(raw)?),
    })
}

fn value<T: DeserializeOwned>(raw: &mut &[u8]) -> Result<T, String> {
    cbor::value(raw).map_err(|error| format!("a record that cannot be read: {error}"))
}
