//! `srctrace merge`, and the files that it reads.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::Report;
use super::command::binary;
use crate::lab::Lab;

/// A folder for one lab's files; gone when dropped.
#[derive(Debug)]
pub struct Files(PathBuf);

impl Files {
    /// An empty one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(lab: &Lab) -> Result<Self> {
        let path = std::env::temp_dir().join(lab.prefix());
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }

    /// A file's path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file and gives its path.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<String> {
        let path = self.path(name);
        fs::write(&path, bytes).with_context(|| format!("write {path}"))?;
        Ok(path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What is left is in the way of nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `srctrace merge` on these files to its end; its report as JSON. It needs none of the lab's namespaces.
///
/// # Errors
/// When it cannot be started.
pub fn merge(files: &[&str]) -> Result<Report> {
    merge_as("json", files)
}

/// [`merge`] as text for people, or as JSON.
///
/// # Errors
/// When it cannot be started.
pub fn merge_as(format: &str, files: &[&str]) -> Result<Report> {
    srctrace(&[&["merge"], files, &["--output", format]].concat())
}

/// Runs srctrace where the tests run, outside of every lab, to its end.
///
/// # Errors
/// When it cannot be started.
pub fn srctrace(args: &[&str]) -> Result<Report> {
    let output = Command::new(binary()?)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run srctrace {args:?}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Report {
        lines: text(output.stdout).lines().map(str::to_owned).collect(),
        stderr: text(output.stderr).trim_end().to_owned(),
        status: output.status.code(),
        signal: None,
    })
}
