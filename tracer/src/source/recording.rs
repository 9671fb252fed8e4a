//! A recording on disk, read piece by piece.

use super::{FileSource, SourceError};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
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
        }
    }

    fn name(&self) -> String {
        self.path.display().to_string()
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
    fn remark(&self) -> Option<String> {
        let unknown = self.decoder.unknown();
        let how = match self.decoder.ending() {
            _ if !self.over => return None,
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
        };
        Some(format!("{}: {how}", self.name()))
    }
}
