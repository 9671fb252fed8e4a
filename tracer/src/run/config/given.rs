//! `--config`: a file or standard input.

use crate::render::escape;
use crate::run::failure::Failure;
use crate::system::agent::LARGEST;
use jiff::Timestamp;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tracer_core::masqconfig::{self, Agent, Flags, Held};

/// What was given.
pub(super) struct Given {
    what: masqconfig::Given,
    name: String,
}

impl Given {
    /// Reads it. What the agent would refuse is an answer; only what cannot be read is an error.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let fail = |why: String| {
            let line = format!("--config {name}: {why}");
            Failure::Usage(escape(&line).into_owned())
        };
        let bytes = if path == Path::new("-") {
            bytes(io::stdin().lock())
        } else {
            open(path).and_then(bytes)
        };
        let bytes = bytes.map_err(|error| {
            fail(format!(
                "cannot be read: {error}; give a file, or - for standard input"
            ))
        })?;
        if bytes.len() as u64 > LARGEST {
            return Err(fail(format!(
                "larger than {} MiB, and no ConfigMap is",
                LARGEST >> 20
            )));
        }
        Ok(Self {
            what: masqconfig::recognise(&bytes),
            name: if name == "-" {
                "standard input".to_owned()
            } else {
                name
            },
        })
    }

    /// Whose configuration it is, as far as names tell.
    pub(super) fn agent(&self) -> Option<Agent> {
        self.what.agent()
    }

    /// What the agent makes of it.
    pub(super) fn held(&self, agent: Agent, flags: &Flags) -> Held {
        let (files, mut traps) = self.what.files(agent);
        let mut reading = masqconfig::read(agent, &files, flags);
        traps.append(&mut reading.traps);
        reading.traps = traps;
        let is_map = matches!(self.what, masqconfig::Given::ConfigMaps(_));
        let changed = self
            .what
            .changed()
            .and_then(|text| text.parse::<Timestamp>().ok());
        Held {
            from: match is_map {
                true => format!("the ConfigMap in {}", self.name),
                false => self.name.clone(),
            },
            reading,
            changed: changed.map(Timestamp::as_second),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::Error::other("it is a folder")),
        false => Ok(file),
    }
}

fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
