//! `srctrace merge`, and the files that it reads.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::Report;
use super::command::binary;
use crate::lab::Lab;

/// Names a folder into which the files of labs are copied before they go.
const KEEP: &str = "SRCTRACE_KEEP_FILES";
/// User and group "nobody", with no privilege whatever.
const NOBODY: u32 = 65_534;

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

impl Files {
    fn keep(&self, folder: &Path) -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        for file in fs::read_dir(&self.0)? {
            let file = file?;
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(folder) = std::env::var_os(KEEP)
            && let Err(error) = self.keep(Path::new(&folder))
        {
            eprintln!("files of {} are not kept: {error}", self.0.display());
        }
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

/// [`merge`] as a user who owns these files and has no capability.
///
/// # Errors
/// When they cannot be given away, or it cannot be started.
pub fn merge_as_nobody(files: &[&str]) -> Result<Report> {
    for file in files {
        chown(file, Some(NOBODY), Some(NOBODY)).with_context(|| format!("give {file} away"))?;
    }
    // Opened here: the folder that it is in may be closed to others.
    let program = fs::File::open(binary()?).context("open srctrace")?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.uid(NOBODY).gid(NOBODY);
    command.arg("merge").args(files).args(["--output", "json"]);
    run(&mut command)
}

/// Runs srctrace where the tests run, outside of every lab, to its end.
///
/// # Errors
/// When it cannot be started.
pub fn srctrace(args: &[&str]) -> Result<Report> {
    run(Command::new(binary()?).args(args))
}

fn run(command: &mut Command) -> Result<Report> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {command:?}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Report {
        lines: text(output.stdout).lines().map(str::to_owned).collect(),
        stderr: text(output.stderr).trim_end().to_owned(),
        status: output.status.code(),
        signal: None,
    })
}
