//! Two files, read and joined as `srctrace merge` does it. For the tests beside it and for `fuzz/`.

use srctrace::source::{self, FileSource, SourceError};
use std::path::Path;
use tracer_core::event::Counter;
use tracer_core::join::{Census, Clocks, Estimate, Host, Joiner, Witness};
use tracer_core::recording::{Part, Record, Replay};

/// The frame of a recording: length, kind, flags, checksum.
const FRAME: usize = 10;
/// Before the first frame.
const START: usize = 12;

/// A recording's checksums are made right again: else a wound would be found out at once, and nothing behind them
/// be tried.
pub fn seal(bytes: &mut [u8]) {
    let mut at = START;
    while let Some(frame) = bytes.get_mut(at..) {
        let Some((head, rest)) = frame.split_at_mut_checked(FRAME) else {
            return;
        };
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(stored) = rest.get(..len) else {
            return;
        };
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head[4..6]);
        sum.update(stored);
        head[6..10].copy_from_slice(&sum.finalize().to_le_bytes());
        at += FRAME + len;
    }
}

/// A file that is played, as `merge` does it.
struct Played {
    source: Box<dyn FileSource>,
    replay: Replay,
    over: bool,
}

impl Played {
    fn open(path: &Path) -> Result<Option<Self>, SourceError> {
        let mut source = source::open(path)?;
        let Some(Record::Header(header)) = source.next_record()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            source,
            replay: Replay::one_of(*header, 2),
            over: false,
        }))
    }

    fn step(&mut self) -> Result<Vec<Part>, SourceError> {
        let record = self.source.next_record()?;
        let mut counted = |counter: &Counter| self.source.counted(counter);
        Ok(match record {
            Some(record) => self.replay.take_counting(record, &mut counted),
            None => {
                self.over = true;
                self.replay.finish()
            }
        })
    }

    fn host(&self) -> Host<'_> {
        Host {
            header: self.replay.header(),
            inventory: self.replay.inventory(),
            now_ns: self.replay.now_ns(),
            over: self.over,
            shown: None,
        }
    }
}

/// Both files once for the clocks, and once to be joined; how many flows came of it.
///
/// # Errors
/// When one of them cannot be read to its end.
pub fn merge(paths: [&Path; 2]) -> Result<usize, SourceError> {
    let mut estimate = Estimate::new(2);
    let mut census = Census::default();
    let mut flows = 0;
    for (number, path) in paths.into_iter().enumerate() {
        let Some(mut played) = Played::open(path)? else {
            return Ok(0);
        };
        while !played.over {
            for (closed, _) in played.step()? {
                let witness = Witness::of(&closed, played.replay.header());
                estimate.note(number, &witness);
                census.note(&witness);
            }
        }
        let _ = played.source.remarks();
    }
    let clocks: Clocks = estimate.clocks();
    let mut joiner = Joiner::new(clocks).knowing(census);
    let [Some(mut a), Some(mut b)] = [Played::open(paths[0])?, Played::open(paths[1])?] else {
        return Ok(0);
    };
    while !(a.over && b.over) {
        for (number, played) in [&mut a, &mut b].into_iter().enumerate() {
            if played.over {
                continue;
            }
            let parts = played.step()?;
            let host = played.host();
            for part in parts {
                joiner.push(number, part, &host);
            }
        }
        flows += joiner.ready(&[a.host(), b.host()]).len();
    }
    Ok(flows)
}
