//! The files of the checkout, as tidy sees them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::source::Source;

/// Hidden folders that belong to the project.
const HIDDEN_BUT_OURS: [&str; 3] = [".cargo", ".ci", ".github"];

/// A text file of the checkout.
pub(super) struct TextFile {
    /// Relative to the checkout, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// All text files of the checkout, and the Rust ones prepared for scanning.
pub(super) struct Tree {
    files: Vec<TextFile>,
    sources: Vec<Source>,
}

impl Tree {
    /// Reads everything below `root` except build output and hidden folders that are not ours.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        walk(root, &mut paths)?;
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            // What is not UTF-8 is a capture or another binary fixture.
            let Ok(text) = String::from_utf8(bytes) else {
                continue;
            };
            let path = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            files.push(TextFile { path, text });
        }
        Ok(Self::of(files))
    }

    pub(super) fn of(files: Vec<TextFile>) -> Self {
        let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
        let sources = rust
            .map(|file| Source::new(&file.path, &file.text))
            .collect();
        Self { files, sources }
    }

    #[cfg(test)]
    pub(super) fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Self::of(pairs.iter().map(file).collect())
    }

    pub(super) fn files(&self) -> &[TextFile] {
        &self.files
    }

    pub(super) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The text of the file at `path`.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|file| file.path == path)
            .map(|file| file.text.as_str())
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry
            .file_type()
            .with_context(|| format!("reading {}", entry.path().display()))?;
        if kind.is_dir() && is_ours(&name) {
            walk(&entry.path(), found)?;
        } else if kind.is_file() && name != ".git" {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn is_ours(folder: &str) -> bool {
    HIDDEN_BUT_OURS.contains(&folder)
        || !(folder.starts_with('.') || folder == "target" || folder == "proptest-regressions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_and_foreign_folders_are_left_out() {
        for folder in ["target", ".git", ".idea", "proptest-regressions"] {
            assert!(!is_ours(folder), "{folder}");
        }
        for folder in ["src", ".ci", ".cargo"] {
            assert!(is_ours(folder), "{folder}");
        }
    }

    #[test]
    fn the_tree_of_this_checkout_has_this_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").is_some());
        assert!(
            tree.files()
                .iter()
                .all(|file| !file.path.starts_with("target/"))
        );
    }
}
