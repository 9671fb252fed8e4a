//! A file whose run happens again.

use crate::render::escape;
use crate::run::failure::Failure;
use crate::run::pcap::Pcap;
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
    pcap: Option<Pcap>,
}

impl Player {
    pub(in crate::run) fn open(path: &Path) -> Result<Self, Failure> {
        let mut source = source::open(path)?;
        let header = match source.next_record()? {
            Some(Record::Header(header)) => header,
            _ => return Err(SourceError::Empty(path.display().to_string()).into()),
        };
        Ok(Self {
            source,
            replay: Replay::new(*header),
            over: false,
            pcap: None,
        })
    }

    /// Writes the packets of its flows from now on.
    pub(super) fn write_packets(&mut self, path: &Path) -> Result<(), Failure> {
        let header = self.replay.header();
        let (offset_ns, points) = (header.clock.offset_ns(), &header.settings.points);
        let pcap = Pcap::create(path, &header.kernel, offset_ns, points)?;
        self.pcap = Some(pcap);
        Ok(())
    }

    /// The flows that are told next; `None`: it is over.
    pub(in crate::run) fn step(&mut self) -> Result<Option<Vec<Part>>, Failure> {
        while !self.over {
            let parts = match self.source.next_record()? {
                Some(record) => {
                    if let (Some(pcap), Record::Event(event)) = (&mut self.pcap, &record) {
                        pcap.sighted(event);
                    }
                    self.replay.take(record)
                }
                None => {
                    self.over = true;
                    self.replay.finish()
                }
            };
            if !parts.is_empty() {
                if let Some(pcap) = &mut self.pcap {
                    pcap.told(&parts, self.replay.inventory())?;
                }
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
        let left = self.pcap.as_ref().and_then(Pcap::remark);
        for line in self.source.remark().into_iter().chain(left) {
            sink::note(&format!("srctrace: {}\n", escape(&line)));
        }
    }
}
