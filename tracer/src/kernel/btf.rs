//! The kernel's own BTF files.

use std::io;
use std::path::{Path, PathBuf};
use tracer_core::btf::{Btf, BtfError};

/// Where the kernel shows its BTF and that of its modules.
const FOLDER: &str = "/sys/kernel/btf";

/// Why the kernel's BTF could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; {}", remedy(source))]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file's content cannot be understood.
    #[error("cannot understand {path}: {source}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: BtfError,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound {
        "srctrace needs a kernel built with CONFIG_DEBUG_INFO_BTF=y, and /sys mounted"
    } else {
        "run srctrace as root"
    }
}

/// One BTF file's bytes: several megabytes for vmlinux, so not to be kept.
pub struct BtfFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl BtfFile {
    /// vmlinux's BTF.
    ///
    /// # Errors
    /// If this kernel has none or it may not be read.
    pub fn vmlinux() -> Result<Self, ReadError> {
        Self::read(Path::new(FOLDER).join("vmlinux"))
    }

    /// A loaded module's BTF; `None` where the kernel shows none: the module is built in or not
    /// loaded, or the kernel is older than 5.11.
    ///
    /// # Errors
    /// If it is there and may not be read.
    pub fn module(name: &str) -> Result<Option<Self>, ReadError> {
        match Self::read(Path::new(FOLDER).join(name)) {
            Err(ReadError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn read(path: PathBuf) -> Result<Self, ReadError> {
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Self { path, bytes }),
            Err(source) => Err(ReadError::File { path, source }),
        }
    }

    /// The file as BTF of its own.
    ///
    /// # Errors
    /// If its content is malformed.
    pub fn parse(&self) -> Result<Btf<'_>, ReadError> {
        Btf::parse(&self.bytes).map_err(|source| self.content(source))
    }

    /// The file as BTF that continues `base`.
    ///
    /// # Errors
    /// If its content is malformed.
    pub fn parse_split<'a>(&'a self, base: &'a Btf<'a>) -> Result<Btf<'a>, ReadError> {
        Btf::parse_split(base, &self.bytes).map_err(|source| self.content(source))
    }

    fn content(&self, source: BtfError) -> ReadError {
        ReadError::Content {
            path: self.path.clone(),
            source,
        }
    }
}
