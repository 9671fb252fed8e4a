//! A packet capture on disk: pcap and pcapng, as tcpdump, dumpcap and tshark write them.

mod blocks;
mod legacy;
mod next_generation;

use super::{FileSource, SourceError};
use legacy::Legacy;
use next_generation::NextGeneration;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tracer_core::capture::{Interface, Packet, Records};
use tracer_core::event::Counter;
use tracer_core::recording::{Record, Source};

/// Most bytes of one block: what a reader must be ready to hold. The largest packet of all link layers that
/// are read is a 64th of it.
const MAX_BLOCK: usize = 16 << 20;

/// What comes next in a capture.
enum Item<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// A packet that cannot be used: of an unknown link layer, or without a time.
    Unreadable,
    /// Interfaces were described.
    Interfaces,
    /// Anything else.
    Other,
}

/// Why a capture cannot be read on.
#[derive(Debug)]
enum Trouble {
    /// The system does not give it.
    Unreadable(io::Error),
    /// It is not what it should be.
    Damaged {
        /// Where the block or packet begins.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The link type of all its packets is none that is read.
    Link(u32),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// A file of either kind.
#[derive(Debug)]
enum Format {
    Legacy(Legacy<File>),
    NextGeneration(NextGeneration<File>),
}

impl Format {
    /// What comes next; `None`: the end, which may be in the middle of something.
    fn next(&mut self) -> Result<Option<Item<'_>>, Trouble> {
        match self {
            Self::Legacy(file) => file.next(),
            Self::NextGeneration(file) => file.next(),
        }
    }

    fn interfaces(&self) -> Vec<Interface> {
        match self {
            Self::Legacy(file) => file.interfaces(),
            Self::NextGeneration(file) => file.interfaces(),
        }
    }

    /// Where it was cut, if its last packet is not whole.
    fn cut(&self) -> Option<u64> {
        match self {
            Self::Legacy(file) => file.cut(),
            Self::NextGeneration(file) => file.cut(),
        }
    }

    fn read(&self) -> u64 {
        match self {
            Self::Legacy(file) => file.read(),
            Self::NextGeneration(file) => file.read(),
        }
    }

    /// Packets that the capturing system says it lost.
    fn lost(&self) -> u64 {
        match self {
            Self::Legacy(_) => 0,
            Self::NextGeneration(file) => file.lost(),
        }
    }
}

/// A capture that is being read.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    format: Format,
    /// Once the first packet has come.
    records: Option<Records>,
    unreadable: u64,
    over: bool,
}

impl CaptureFile {
    /// `first` was read of it already.
    pub(super) fn new(path: PathBuf, file: File, first: &[u8]) -> Result<Self, SourceError> {
        let is_next = first.starts_with(&next_generation::MAGIC);
        let format = match is_next {
            true => Format::NextGeneration(NextGeneration::new(file, first)),
            false => match Legacy::new(file, first) {
                Ok(legacy) => Format::Legacy(legacy),
                Err(trouble) => return Err(error(&path, trouble)),
            },
        };
        Ok(Self {
            path,
            format,
            records: None,
            unreadable: 0,
            over: false,
        })
    }

    /// Reads on until there is something to tell.
    fn read_on(&mut self) -> Result<(), Trouble> {
        let path = &self.path;
        let began = |at, interfaces: &[Interface]| {
            Records::new(&host(path), env!("CARGO_PKG_VERSION"), at, interfaces)
        };
        // Described before the first packet.
        let interfaces = match self.records {
            None => self.format.interfaces(),
            Some(_) => Vec::new(),
        };
        match self.format.next()? {
            Some(Item::Packet(packet)) => {
                let records = &mut self.records;
                let records = records.get_or_insert_with(|| began(packet.time_ns, &interfaces));
                records.packet(&packet);
            }
            Some(Item::Interfaces) => {
                if let Some(records) = &mut self.records {
                    records.interfaces(&self.format.interfaces());
                }
            }
            Some(Item::Unreadable) => self.unreadable += 1,
            Some(Item::Other) => {}
            None => {
                self.over = true;
                let records = &mut self.records;
                records
                    .get_or_insert_with(|| began(0, &interfaces))
                    .finish();
            }
        }
        Ok(())
    }

    /// What was odd about it, each in words.
    fn oddities(&self) -> Vec<String> {
        let stats = self.records.as_ref().map(|r| r.capture().stats());
        let stats = stats.unwrap_or_default();
        let mut odd = Vec::new();
        if let Some(at) = self.format.cut() {
            odd.push(format!(
                "ends in the middle of a packet (byte {at}): the capture was killed, or the file was cut; what came before is used"
            ));
        }
        let counts = [
            (
                stats.cut,
                "cut before the end of their headers (snap length) and left out",
            ),
            (
                self.unreadable,
                "of link types that are not read, or without a time, and left out",
            ),
            (
                self.format.lost(),
                "lost by the capturing system, as it says itself",
            ),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0);
        odd.extend(counts.map(|(n, what)| match n {
            1 => format!("1 packet was {what}"),
            n => format!("{n} packets were {what}"),
        }));
        if stats.packets == 0 {
            odd.push("no packet in it that can be read".to_owned());
        }
        odd
    }
}

/// What a capture is called in reports.
fn host(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn error(path: &Path, trouble: Trouble) -> SourceError {
    let name = path.display().to_string();
    match trouble {
        Trouble::Unreadable(error) => SourceError::Unreadable(name, error),
        Trouble::Damaged { at, what } => SourceError::Damaged { name, at, what },
        Trouble::Link(link) => SourceError::Link(name, link),
    }
}

impl Source for CaptureFile {
    type Error = SourceError;

    fn next_record(&mut self) -> Result<Option<Record>, SourceError> {
        loop {
            if let Some(record) = self.records.as_mut().and_then(Records::pop) {
                return Ok(Some(record));
            }
            if self.over {
                return Ok(None);
            }
            self.read_on()
                .map_err(|trouble| error(&self.path, trouble))?;
        }
    }
}

impl FileSource for CaptureFile {
    fn remarks(&self) -> Vec<String> {
        let odd = if self.over {
            self.oddities()
        } else {
            Vec::new()
        };
        let name = self.path.display();
        odd.into_iter()
            .map(|how| format!("{name}: {how}"))
            .collect()
    }

    fn counted(&self, counter: &Counter) -> Option<(u64, u64)> {
        self.records.as_ref()?.capture().counted(counter)
    }

    fn read(&self) -> u64 {
        self.format.read()
    }
}

#[cfg(test)]
mod tests;
