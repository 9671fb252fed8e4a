//! Building: the eBPF object first, then the program that carries it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process;
use crate::setup::toolchain::{TARGET, Toolchain};
use crate::stop::Stop;
use crate::strip::strip;
use crate::workspace::Workspace;

/// How the program is compiled.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// `target/release/srctrace`.
    Release,
    /// `target/debug/srctrace`.
    Debug,
}

/// Builds everything and returns the path of the binary.
///
/// # Errors
/// When setup was not done or a compiler fails.
pub(crate) fn all(space: &Workspace, profile: Profile) -> Result<PathBuf> {
    ebpf(space)?;
    let mut cargo = process::cargo(space);
    cargo.args(["build", "--package", "srctrace"]);
    let folder = match profile {
        Profile::Release => {
            cargo.arg("--release");
            "release"
        }
        Profile::Debug => "debug",
    };
    process::run(&mut cargo, "building srctrace")?;
    Ok(space.target().join(folder).join("srctrace"))
}

/// Builds the eBPF object and puts it where `tracer/build.rs` looks for it.
///
/// # Errors
/// When setup was not done or the compiler fails.
pub(crate) fn ebpf(space: &Workspace) -> Result<()> {
    let toolchain = Toolchain::find(space)
        .ok_or_else(|| Stop::failed("no usable eBPF toolchain here; run `cargo xtask setup`"))?;
    let folder = space.target().join("ebpf");
    let mut cargo = toolchain.cargo_build(space);
    cargo
        .args([
            "--release",
            "--package",
            "tracer-ebpf",
            "--bin",
            "tracer-ebpf",
            "--target-dir",
        ])
        .arg(&folder)
        .envs(EBPF_PROFILE)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", rust_flags(std::env::var_os("CI").is_some()));
    process::run(&mut cargo, "building the eBPF programs")?;
    let built = folder.join(TARGET).join("release/tracer-ebpf");
    let object = fs::read(&built).with_context(|| format!("reading {}", built.display()))?;
    write_if_changed(&strip(&object)?, &space.ebpf_object())
}

/// Cargo's release profile for eBPF: bpf-linker does the link-time optimisation, and its BTF comes from full debug
/// information.
const EBPF_PROFILE: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "2"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
];

fn rust_flags(strict: bool) -> String {
    let warnings = if strict { " -D warnings" } else { "" };
    format!("-C debuginfo=2 -C link-arg=--btf{warnings}")
}

/// Writes a file unless it holds just that, so that an unchanged object does not rebuild what embeds it.
fn write_if_changed(new: &[u8], to: &Path) -> Result<()> {
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    // A reader sees the old object or the new one, never half of it.
    let partial = to.with_extension("partial");
    fs::write(&partial, new).with_context(|| format!("writing {}", partial.display()))?;
    fs::rename(&partial, to).with_context(|| format!("writing {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_object_keeps_its_file() {
        let folder =
            std::env::temp_dir().join(format!("srctrace-xtask-copy-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let to = folder.join("to.o");
        let modified = || fs::metadata(&to).unwrap().modified().unwrap();
        write_if_changed(b"one", &to).unwrap();
        let first = modified();
        write_if_changed(b"one", &to).unwrap();
        assert_eq!(modified(), first);
        write_if_changed(b"two", &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn warnings_are_errors_in_ci() {
        assert_eq!(rust_flags(false), "-C debuginfo=2 -C link-arg=--btf");
        assert_eq!(
            rust_flags(true),
            "-C debuginfo=2 -C link-arg=--btf -D warnings"
        );
    }
}
