//! A file whose run happens again.

use crate::render::escape;
use crate::run::failure::Failure;
use crate::sink;
use crate::source::{self, FileSource, SourceError};
use std::path::Path;
use tracer_core::join::Host;
use tracer_core::recording::{Part, Record, Replay};

/// A file whose run happens again.
pub(in crate::run) struct Player {
    source: Box<dyn FileSource>,
    pub(in crate::run) replay: Replay,
    over: bool,
}

impl Player {
    pub(in crate::run) fn open(path: &Path) -> Result<Self, Failure> {
        Self::of(path, source::open(path)?)
    }

    /// Of a file that is open.
    pub(in crate::run) fn of(
        path: &Path,
        mut source: Box<dyn FileSource>,
    ) -> Result<Self, Failure> {
        let header = match source.next_record()? {
            Some(Record::Header(header)) => header,
            _ => return Err(SourceError::Empty(path.display().to_string()).into()),
        };
        Ok(Self {
            source,
            replay: Replay::new(*header),
            over: false,
        })
    }

    /// The flows that are told next; `None`: it is over.
    pub(in crate::run) fn step(&mut self) -> Result<Option<Vec<Part>>, Failure> {
        while !self.over {
            let parts = match self.source.next_record()? {
                Some(record) => self.replay.take(record),
                None => {
                    self.over = true;
                    self.replay.finish()
                }
            };
            if !parts.is_empty() {
                return Ok(Some(parts));
            }
        }
        Ok(None)
    }

    /// As the joiner sees it.
    pub(super) fn host(&self) -> Host<'_> {
        Host {
            header: self.replay.header(),
            inventory: self.replay.inventory(),
            now_ns: self.replay.now_ns(),
            over: self.over,
        }
    }

    /// Says how the file ended, if there is anything to say.
    pub(in crate::run) fn remark(&self) {
        if let Some(line) = self.source.remark() {
            sink::note(&format!("srctrace: {}\n", escape(&line)));
        }
    }
}
