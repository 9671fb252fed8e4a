//! The record of what a run adds, written before it adds it: /run/srctrace/PID-START.json.

use crate::run::failure::Failure;
use crate::system::Lifetime;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tracer_core::event::Dir;

const FOLDER: &str = "/run/srctrace";
/// Far above what a run of at most 64 devices writes.
const MOST_BYTES: u64 = 1 << 20;

/// One filter, and perhaps the qdisc under it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Added {
    /// Inode number of the network namespace.
    pub(super) netns: u32,
    /// A file that led to it, for people.
    pub(super) place: String,
    pub(super) ifindex: u32,
    /// The device's name, for people.
    pub(super) device: String,
    pub(super) side: Dir,
    pub(super) priority: u16,
    pub(super) handle: u32,
    /// Whether the run adds the clsact qdisc.
    pub(super) qdisc: bool,
    /// Whether the filter is there. Until then the qdisc may stand alone, without our name on it.
    pub(super) done: bool,
}

/// What one run added.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) run: Lifetime,
    pub(super) added: Vec<Added>,
}

impl Record {
    /// Makes sure that there can be records; writes none before something is added.
    ///
    /// # Errors
    /// When the folder cannot be made, or is not the superuser's own.
    pub(super) fn new(run: Lifetime) -> Result<Self, Failure> {
        make_folder().map_err(|why| {
            Failure::CannotTrace(format!(
                "--tap clsact: cannot keep a record in {FOLDER}: {why}; it is what \
                 `srctrace cleanup` reads"
            ))
        })?;
        Ok(Self {
            run,
            added: Vec::new(),
        })
    }

    fn path(run: Lifetime) -> PathBuf {
        Path::new(FOLDER).join(format!("{run}.json"))
    }

    /// Writes it anew, whole or not at all.
    pub(super) fn save(&self) -> io::Result<()> {
        // The last run to end removes it.
        make_folder()?;
        let path = Self::path(self.run);
        let draft = path.with_extension("new");
        let bytes = serde_json::to_vec(&self.added)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(&bytes)?;
        fs::rename(draft, path)
    }

    /// Changes the last entry and writes it anew.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut Added)) -> io::Result<()> {
        self.added.last_mut().map(change);
        self.save()
    }

    /// Reads the record of a run; `None` when there is none.
    pub(super) fn load(run: Lifetime) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        match File::open(Self::path(run)) {
            Ok(file) => file.take(MOST_BYTES).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            run,
            added: serde_json::from_slice(&bytes)?,
        }))
    }

    /// Removes the record of a run, if there is one.
    pub(super) fn delete(run: Lifetime) {
        let path = Self::path(run);
        // Gone already is as good.
        let _ = fs::remove_file(path.with_extension("new"));
        let _ = fs::remove_file(path);
        Self::leave_folder();
    }

    /// Removes the folder, unless others have records there.
    pub(super) fn leave_folder() {
        let _ = fs::remove_dir(FOLDER);
    }

    /// The runs that have records.
    pub(super) fn runs() -> io::Result<Vec<Lifetime>> {
        let entries = match fs::read_dir(FOLDER) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut runs: Vec<Lifetime> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let stem = name
                    .strip_suffix(".json")
                    .or_else(|| name.strip_suffix(".new"))?;
                stem.parse().ok()
            })
            .collect();
        runs.sort();
        runs.dedup();
        Ok(runs)
    }
}

fn make_folder() -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(FOLDER) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let meta = fs::symlink_metadata(FOLDER)?;
    if !meta.is_dir() || meta.uid() != 0 || meta.mode() & 0o022 != 0 {
        return Err(io::Error::other("others may write there"));
    }
    Ok(())
}
