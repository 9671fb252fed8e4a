//! Private copies of Debian packages below `target/tools/root`: nothing on the machine changes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::apt;
use crate::workspace::Workspace;

/// Downloads and unpacks `packages` into the private root.
///
/// # Errors
/// When one cannot be fetched or unpacked.
pub(crate) fn unpack(space: &Workspace, packages: &[String]) -> Result<()> {
    let root = space.tools().join("root");
    let folder = space.tools().join("incoming");
    drop(fs::remove_dir_all(&folder));
    for path in [&root, &folder] {
        fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
    }
    apt::download(packages, &folder)?;
    for file in package_files(&folder)? {
        apt::extract(&file, &root)?;
    }
    fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

fn package_files(folder: &PathBuf) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "deb"))
        .collect())
}
