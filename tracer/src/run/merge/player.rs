//! A file whose run happens again.

use crate::render::escape;
use crate::run::failure::Failure;
use crate::run::pcap::Pcap;
use crate::sink;
use crate::source::{self, FileSource, SourceError};
use std::path::Path;
use tracer_core::event::Counter;
use tracer_core::join::{Host, Shown};
use tracer_core::journey::Closed;
use tracer_core::recording::{Part, Record, Replay};

/// Records that are read before others get their turn.
const STRIDE: usize = 256;

/// A file whose run happens again.
pub(in crate::run) struct Player {
    source: Box<dyn FileSource>,
    pub(in crate::run) replay: Replay,
    over: bool,
    pcap: Option<Pcap>,
    /// Of a capture: what it shows.
    shown: Option<Shown>,
}

impl Player {
    /// One of so many that are played side by side.
    pub(in crate::run) fn open(path: &Path, sources: usize) -> Result<Self, Failure> {
        Self::of(path, source::open(path)?, sources)
    }

    /// Of a file that is open, one of so many.
    pub(in crate::run) fn of(
        path: &Path,
        mut source: Box<dyn FileSource>,
        sources: usize,
    ) -> Result<Self, Failure> {
        let header = match source.next_record()? {
            Some(Record::Header(header)) => header,
            _ => return Err(SourceError::Empty(path.display().to_string()).into()),
        };
        Ok(Self {
            source,
            replay: Replay::one_of(*header, sources),
            over: false,
            pcap: None,
            shown: None,
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

    /// With what was found out about the file before.
    pub(super) fn showing(self, shown: Shown) -> Self {
        Self {
            shown: Some(shown),
            ..self
        }
    }

    /// From when to when a capture has packets, nanoseconds since 1970, once it was read.
    pub(super) fn span(&self) -> Option<(i64, i64)> {
        let header = self.replay.header();
        let began = header.clock.realtime_ns;
        let ended = i64::try_from(self.replay.now_ns()).unwrap_or(i64::MAX);
        let has_packets = header.captured.is_some() && began > 0;
        has_packets.then_some((began, ended))
    }

    /// The flows that are told next, if any are told soon; `None`: it is over.
    pub(in crate::run) fn step(&mut self) -> Result<Option<Vec<Part>>, Failure> {
        let Some(over) = self.sighted()? else {
            return Ok(None);
        };
        let parts = self.replay.judge(over);
        if let Some(pcap) = &mut self.pcap {
            pcap.told(&parts, self.replay.inventory())?;
        }
        Ok(Some(parts))
    }

    /// As [`Player::step`], without judging them.
    pub(super) fn sighted(&mut self) -> Result<Option<Vec<Closed>>, Failure> {
        for _ in 0..STRIDE {
            if self.over {
                return Ok(None);
            }
            let record = self.source.next_record()?;
            let mut counted = |counter: &Counter| self.source.counted(counter);
            let over = match record {
                Some(record) => {
                    if let (Some(pcap), Record::Event(event)) = (&mut self.pcap, &record) {
                        pcap.sighted(event);
                    }
                    self.replay.take_unjudged(record, &mut counted)
                }
                None => {
                    self.over = true;
                    self.replay.finish_unjudged()
                }
            };
            if !over.is_empty() {
                return Ok(Some(over));
            }
        }
        Ok(Some(Vec::new()))
    }

    /// As the joiner sees it.
    pub(super) fn host(&self) -> Host<'_> {
        Host {
            header: self.replay.header(),
            inventory: self.replay.inventory(),
            now_ns: self.replay.now_ns(),
            over: self.over,
            shown: self.shown.as_ref(),
        }
    }

    /// Says what there is to say of the file and of how it ended.
    pub(in crate::run) fn remark(&self) {
        let left = self.pcap.as_ref().and_then(Pcap::remark);
        for line in self.source.remarks().into_iter().chain(left) {
            sink::note(&format!("srctrace: {}\n", escape(&line)));
        }
    }

    /// How much of the file was read, bytes.
    pub(super) fn read(&self) -> u64 {
        self.source.read()
    }
}
