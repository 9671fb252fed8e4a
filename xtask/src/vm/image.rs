//! The initial file system as a list of entries, written as a cpio archive that the kernel unpacks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cpio::newc;

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

/// What stands at one path.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    /// The content of a file of this machine, with its permissions.
    Copy(PathBuf),
    Text {
        text: String,
        mode: u32,
    },
    Link(String),
}

/// Paths relative to the image's root, and what stands there. The layout is the merged one of today's Debian: `/bin`,
/// `/sbin`, `/lib` and `/lib64` are links into `/usr`.
#[derive(Debug)]
pub(crate) struct Image {
    entries: BTreeMap<String, Entry>,
}

impl Image {
    /// An image with only the links that merge `/usr`.
    pub(crate) fn new() -> Self {
        let mut image = Self {
            entries: BTreeMap::new(),
        };
        for name in ["bin", "sbin", "lib", "lib64"] {
            image.directory(&format!("/usr/{name}"));
            image
                .entries
                .insert(name.to_owned(), Entry::Link(format!("usr/{name}")));
        }
        image
    }

    /// An empty directory, with those above it.
    pub(crate) fn directory(&mut self, path: &str) {
        let path = merged(path);
        self.parents(&path);
        self.entries.entry(path).or_insert(Entry::Directory);
    }

    /// A copy of this machine's file `source`. What stands at `path` already stays.
    pub(crate) fn copy(&mut self, path: &str, source: &Path) {
        self.put(path, Entry::Copy(source.to_path_buf()));
    }

    /// A file with this text. What stands at `path` already stays.
    pub(crate) fn text(&mut self, path: &str, text: impl Into<String>, mode: u32) {
        self.put(
            path,
            Entry::Text {
                text: text.into(),
                mode,
            },
        );
    }

    /// A symbolic link. What stands at `path` already stays.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// True if something stands at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.entries.contains_key(&merged(path))
    }

    /// Copies of all files and links below `source`.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub(crate) fn copy_tree(&mut self, path: &str, source: &Path) -> Result<()> {
        self.directory(path);
        for entry in
            fs::read_dir(source).with_context(|| format!("reading {}", source.display()))?
        {
            let entry = entry?;
            let name = entry.file_name();
            let below = format!(
                "{path}/{}",
                name.to_str().context("a file name is not UTF-8")?
            );
            // Links are followed: the image needs what they lead to.
            if entry.path().is_dir() {
                self.copy_tree(&below, &entry.path())?;
            } else if entry.path().is_file() {
                self.copy(&below, &entry.path());
            }
        }
        Ok(())
    }

    /// Writes the archive to `path`.
    ///
    /// # Errors
    /// When a source cannot be read or the archive not be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
        let mut out = BufWriter::new(file);
        for (inode, (name, entry)) in (1..).zip(&self.entries) {
            out = append(out, name, entry, inode)
                .with_context(|| format!("adding /{name} to the image"))?;
        }
        newc::trailer(out)?
            .flush()
            .with_context(|| format!("writing {}", path.display()))
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = merged(path);
        self.parents(&path);
        self.entries.entry(path).or_insert(entry);
    }

    fn parents(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            self.entries
                .entry(path[..end].to_owned())
                .or_insert(Entry::Directory);
        }
    }
}

/// `path` without the leading slash and as it is after following the links that merge `/usr`.
fn merged(path: &str) -> String {
    let path = path.trim_start_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    let moved = matches!(first, "bin" | "sbin" | "lib" | "lib64");
    if moved {
        format!("usr/{path}")
    } else {
        path.to_owned()
    }
}

fn append<W: Write>(out: W, name: &str, entry: &Entry, inode: u32) -> Result<W> {
    let (mode, content): (u32, Vec<u8>) = match entry {
        Entry::Directory => (DIRECTORY, Vec::new()),
        Entry::Link(target) => (LINK, target.clone().into_bytes()),
        Entry::Text { text, mode } => (REGULAR | mode, text.clone().into_bytes()),
        Entry::Copy(source) => return append_file(out, name, source, inode),
    };
    let size = u32::try_from(content.len())?;
    let mut writer = newc::Builder::new(name)
        .ino(inode)
        .nlink(1)
        .mode(mode)
        .write(out, size);
    writer.write_all(&content)?;
    Ok(writer.finish()?)
}

fn append_file<W: Write>(out: W, name: &str, source: &Path, inode: u32) -> Result<W> {
    let mut file = File::open(source).with_context(|| format!("reading {}", source.display()))?;
    let meta = file.metadata()?;
    let size = u32::try_from(meta.len()).context("more than 4 GiB")?;
    let mode = REGULAR | (meta.permissions().mode() & 0o777);
    let mut writer = newc::Builder::new(name)
        .ino(inode)
        .nlink(1)
        .mode(mode)
        .write(out, size);
    io::copy(&mut file, &mut writer).with_context(|| format!("copying {}", source.display()))?;
    Ok(writer.finish()?)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_archive_holds_parents_first_and_first_comers_stay() {
        let path = std::env::temp_dir().join(format!("srctrace-image-{}", std::process::id()));
        let mut image = Image::new();
        image.text("/bin/sh", "one", 0o755);
        image.link("/usr/bin/sh", "two");
        image.copy("/etc/os-release", Path::new("/etc/os-release"));
        image.write(&path).unwrap();
        let mut seen = Vec::new();
        let mut file = File::open(&path).unwrap();
        loop {
            let mut reader = newc::Reader::new(file).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            seen.push((name, mode, content));
            file = reader.finish().unwrap();
        }
        fs::remove_file(&path).unwrap();
        let names = seen
            .iter()
            .map(|(name, ..)| name.as_str())
            .collect::<Vec<_>>();
        let expected = [
            "bin",
            "etc",
            "etc/os-release",
            "lib",
            "lib64",
            "sbin",
            "usr",
            "usr/bin",
            "usr/bin/sh",
        ];
        assert_eq!(names[..9], expected);
        assert_eq!(
            seen[8],
            ("usr/bin/sh".to_owned(), 0o100_755, b"one".to_vec())
        );
        assert_eq!(seen[0], ("bin".to_owned(), LINK, b"usr/bin".to_vec()));
        assert_eq!(seen[2].2, fs::read("/etc/os-release").unwrap());
    }
}
