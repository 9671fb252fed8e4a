//! A recording on disk, read piece by piece.

use super::{FileSource, SourceError};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use tracer_core::event::Counter;
use tracer_core::recording::{Decoder, Ending, Record, Source};

/// Read at a time, bytes.
const PIECE: usize = 256 << 10;

/// A recording that is being read.
#[derive(Debug)]
pub struct RecordingFile {
    path: PathBuf,
    file: File,
    decoder: Decoder,
    piece: Vec<u8>,
    started: bool,
    over: bool,
    read: u64,
}

impl RecordingFile {
    /// `first` was read of it already.
    pub(super) fn new(path: PathBuf, file: File, first: Vec<u8>) -> Self {
        let mut decoder = Decoder::new();
        decoder.feed(&first);
        Self {
            path,
            file,
            decoder,
            piece: vec![0; PIECE],
            started: false,
            over: false,
            read: first.len() as u64,
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// What is to be said of how it ended.
    fn ending(&self) -> Option<String> {
        let unknown = self.decoder.unknown();
        Some(match self.decoder.ending() {
            Ending::Cut(at) => format!(
                "ends in the middle of a frame (byte {at}): the run was killed, or the file was cut; what came before is used"
            ),
            Ending::Killed => {
                "ends before the run's summary: the run was killed; what it had recorded is used"
                    .to_owned()
            }
            Ending::Complete if unknown > 0 => {
                format!("{unknown} frames of kinds that this version does not know were left out")
            }
            Ending::Complete => return None,
        })
    }
}

impl Source for RecordingFile {
    type Error = SourceError;

    fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        loop {
            let next = self.decoder.next_record();
            let next = next.map_err(|error| SourceError::Malformed(self.name(), error))?;
            if let Some(record) = next {
                self.started = true;
                return Ok(Some(record));
            }
            let got = self.file.read(&mut self.piece);
            let got = got.map_err(|error| SourceError::Unreadable(self.name(), error))?;
            self.read += got as u64;
            if got == 0 {
                self.over = true;
                return match self.started {
                    true => Ok(None),
                    false => Err(SourceError::Empty(self.name())),
                };
            }
            self.decoder.feed(&self.piece[..got]);
        }
    }
}

impl FileSource for RecordingFile {
    fn remarks(&self) -> Vec<String> {
        let how = self.ending().filter(|_| self.over);
        how.map(|how| format!("{}: {how}", self.name()))
            .into_iter()
            .collect()
    }

    fn counted(&self, _: &Counter) -> Option<(u64, u64)> {
        None
    }

    fn read(&self) -> u64 {
        self.read
    }
}
