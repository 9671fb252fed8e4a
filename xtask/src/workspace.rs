//! Where things are in the checkout.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The checkout and the places below its `target/` that the tasks agree on.
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The checkout this xtask was built in.
    pub(crate) fn locate() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask has no parent directory")?;
        Ok(Self {
            root: root.to_path_buf(),
        })
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
        }
    }

    /// The top of the checkout.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's output directory; fixed, so that the documented paths hold whatever the environment says.
    pub(crate) fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Everything that setup keeps to itself.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target().join("tools")
    }

    /// The built eBPF object, as `tracer/build.rs` looks for it.
    pub(crate) fn ebpf_object(&self) -> PathBuf {
        self.target().join("ebpf/srctrace.bpf.o")
    }

    /// `path` as a reader of messages wants it: relative to the checkout where it lies inside.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }

    /// The directories of the workspace's member crates, as the root manifest lists them.
    pub(crate) fn members(&self) -> Result<Vec<String>> {
        let manifest = self.root.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .with_context(|| format!("reading {}", manifest.display()))?;
        Ok(parse_members(&text))
    }
}

fn parse_members(manifest: &str) -> Vec<String> {
    let Some((_, rest)) = manifest.split_once("members") else {
        return Vec::new();
    };
    let list = rest.split(']').next().unwrap_or_default();
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_one_line_or_several() {
        assert_eq!(
            parse_members("[workspace]\nmembers = [\"a\", \"b-c\"]\nx = [\"z\"]"),
            ["a", "b-c"]
        );
        assert_eq!(
            parse_members("members = [\n  \"a\",\n  \"b\",\n]\n"),
            ["a", "b"]
        );
        assert!(parse_members("[package]").is_empty());
    }

    #[test]
    fn relative_keeps_foreign_paths_whole() {
        let space = Workspace::at(Path::new("/x/y"));
        assert_eq!(space.relative(Path::new("/x/y/target/a")), "target/a");
        assert_eq!(
            space.relative(Path::new("/etc/os-release")),
            "/etc/os-release"
        );
    }
}
