//! The compiler and linker for eBPF: a full rustup where there is one, else a private copy of Debian's rustc with
//! its prebuilt core library, and a bpf-linker built against the same LLVM.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{apt, unpack};
use crate::process;
use crate::tools::{self, Tools};
use crate::workspace::Workspace;

/// The target that eBPF objects are built for.
pub(crate) const TARGET: &str = "bpfel-unknown-none";
/// The bpf-linker that setup builds.
pub(crate) const LINKER_VERSION: &str = "0.13.0";

/// Debian's names for a rustc and its core library for eBPF: stable releases carry the newer compiler that browsers
/// need beside their own, later suites have one only.
const FAMILIES: [[&str; 2]; 2] = [
    ["rustc-web", "libstd-rust-web-dev-bpf"],
    ["rustc", "libstd-rust-dev-bpf"],
];

/// A way to compile eBPF programs on this machine.
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// rustup's nightly with rust-src, and a bpf-linker on the path.
    Rustup,
    /// The copy below `target/tools`.
    Private {
        /// The compiler; needs `libraries`.
        rustc: PathBuf,
        /// bpf-linker; needs `libraries`.
        linker: PathBuf,
        /// The library path for both.
        libraries: OsString,
    },
}

impl Toolchain {
    /// The usable toolchain, by trying what is there.
    pub(crate) fn find(space: &Workspace) -> Option<Self> {
        if rustup_is_complete() {
            return Some(Self::Rustup);
        }
        private(space)
    }

    /// `cargo build` for [`TARGET`], to be completed with what to build.
    pub(crate) fn cargo_build(&self, space: &Workspace) -> Command {
        let mut cargo = match self {
            Self::Rustup => {
                let mut rustup = nightly();
                rustup.args(["cargo", "build", "-Z", "build-std=core"]);
                rustup
            }
            Self::Private {
                rustc,
                linker,
                libraries,
            } => {
                let mut cargo = process::cargo(space);
                // aya-ebpf uses a feature that stable compilers refuse without RUSTC_BOOTSTRAP.
                cargo
                    .arg("build")
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("RUSTC", rustc)
                    .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", linker)
                    .env("LD_LIBRARY_PATH", libraries);
                cargo
            }
        };
        cargo.current_dir(space.root()).args(["--target", TARGET]);
        cargo
    }
}

fn nightly() -> Command {
    let mut rustup = process::command("rustup");
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        rustup.env_remove(variable);
    }
    rustup.args(["run", "nightly"]);
    rustup
}

fn rustup_is_complete() -> bool {
    let linker =
        tools::on_path("bpf-linker").is_some_and(|path| runs(&path, "--version", &OsString::new()));
    linker
        && process::output(
            nightly().args(["rustc", "--print", "sysroot"]),
            "asking for nightly",
        )
        .is_ok_and(|sysroot| {
            Path::new(sysroot.trim())
                .join("lib/rustlib/src/rust/library/core/Cargo.toml")
                .exists()
        })
}

fn runs(program: &Path, argument: &str, libraries: &OsString) -> bool {
    let mut command = process::command(program);
    command.arg(argument).env("LD_LIBRARY_PATH", libraries);
    process::output(&mut command, "trying a tool").is_ok()
}

fn private(space: &Workspace) -> Option<Toolchain> {
    let rustc = space.tools().join("root/usr/bin/rustc");
    let linker = space.tools().join("cargo/bin/bpf-linker");
    if unfinished(space).exists() || !rustc.exists() || !linker.exists() {
        return None;
    }
    let libraries = Tools::of(space).library_path();
    let usable = has_core(&rustc, &libraries) && is_wanted_linker(&linker, &libraries);
    usable.then_some(Toolchain::Private {
        rustc,
        linker,
        libraries,
    })
}

/// True when `rustc` runs and has a core library for [`TARGET`].
fn has_core(rustc: &Path, libraries: &OsString) -> bool {
    let mut ask = process::command(rustc);
    ask.env("LD_LIBRARY_PATH", libraries)
        .args(["--print", "target-libdir", "--target", TARGET]);
    let Ok(folder) = process::output(&mut ask, "asking rustc") else {
        return false;
    };
    let Ok(entries) = fs::read_dir(folder.trim()) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
}

fn is_wanted_linker(linker: &Path, libraries: &OsString) -> bool {
    let mut ask = process::command(linker);
    ask.env("LD_LIBRARY_PATH", libraries).arg("--version");
    process::output(&mut ask, "asking bpf-linker")
        .is_ok_and(|text| text.split_whitespace().any(|word| word == LINKER_VERSION))
}

/// Exists while an installation is under way, so that an interrupted one is not taken for a whole one.
fn unfinished(space: &Workspace) -> PathBuf {
    space.tools().join("toolchain.unfinished")
}

/// Installs the private toolchain.
///
/// # Errors
/// When packages cannot be fetched or bpf-linker cannot be built.
pub(crate) fn install(space: &Workspace) -> Result<()> {
    let marker = unfinished(space);
    fs::write(&marker, "").with_context(|| format!("writing {}", marker.display()))?;
    unpack_compiler(space)?;
    let libraries = Tools::of(space).library_path();
    let rustc = space.tools().join("root/usr/bin/rustc");
    let mut ask = process::command(&rustc);
    let version = process::output(
        ask.env("LD_LIBRARY_PATH", &libraries).arg("-vV"),
        "asking the private rustc",
    )?;
    let major = llvm_major(&version)
        .with_context(|| format!("{} names no LLVM version", rustc.display()))?;
    build_linker(space, major, &libraries)?;
    fs::remove_file(&marker).with_context(|| format!("removing {}", marker.display()))
}

fn unpack_compiler(space: &Workspace) -> Result<()> {
    let wanted = family()?.map(str::to_owned);
    // Against an empty machine: a conflict with the machine's own compiler does not matter for a private copy, and a
    // part of the family that happens to be installed is still wanted.
    let closure = apt::simulate(apt::Against::Nothing, &wanted)?.packages();
    let installed = apt::installed()?;
    let packages: Vec<_> = closure
        .into_iter()
        .filter(|name| belongs_to_compiler(name) || !installed.contains(name))
        .collect();
    println!(
        "setup: unpacking below target/tools (about 90 MB to fetch): {}",
        packages.join(" ")
    );
    unpack::unpack(space, &packages)
}

/// Packages of which the private copy must be exactly the one that fits.
fn belongs_to_compiler(package: &str) -> bool {
    ["rustc", "libstd-rust", "libllvm"]
        .iter()
        .any(|prefix| package.starts_with(prefix))
}

fn family() -> Result<[&'static str; 2]> {
    let known = || {
        FAMILIES
            .into_iter()
            .find(|family| family.iter().all(|package| apt::knows(package)))
    };
    if let Some(family) = known() {
        return Ok(family);
    }
    apt::refresh()?;
    known().with_context(|| {
        let names = FAMILIES.map(|[_, core]| core).join(" or ");
        format!(
            "no Debian package {names} here; install rustup's nightly with rust-src, and bpf-linker"
        )
    })
}

fn llvm_major(version: &str) -> Option<&str> {
    let llvm = version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?;
    llvm.split('.')
        .next()
        .filter(|major| !major.is_empty() && major.bytes().all(|b| b.is_ascii_digit()))
}

fn build_linker(space: &Workspace, llvm_major: &str, libraries: &OsString) -> Result<()> {
    println!(
        "setup: building bpf-linker {LINKER_VERSION} against LLVM {llvm_major} (about a minute)"
    );
    let prefix = llvm_prefix(space, llvm_major)?;
    let scratch = space.tools().join("build");
    let mut cargo = process::cargo(space);
    cargo
        .args([
            "install",
            "bpf-linker",
            "--quiet",
            "--locked",
            "--version",
            LINKER_VERSION,
        ])
        .args([
            "--no-default-features",
            "--features",
            &format!("llvm-{llvm_major}"),
            "--root",
        ])
        .arg(space.tools().join("cargo"))
        .env("CARGO_TARGET_DIR", &scratch)
        .env("LLVM_PREFIX", prefix)
        .env("LD_LIBRARY_PATH", libraries)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    process::run(&mut cargo, "building bpf-linker")?;
    fs::remove_dir_all(&scratch).with_context(|| format!("removing {}", scratch.display()))
}

/// A prefix with the one file that linking against LLVM needs. Debian's own is in the development package, which
/// brings half a gigabyte of headers and archives.
fn llvm_prefix(space: &Workspace, major: &str) -> Result<PathBuf> {
    let prefix = space.tools().join("llvm");
    let folder = prefix.join("lib");
    let library = Tools::of(space)
        .library_folders()
        .into_iter()
        .map(|folder| folder.join(format!("libLLVM-{major}.so")))
        .find(|path| path.exists());
    let Some(library) = library else {
        bail!("the packages of rustc brought no libLLVM-{major}.so")
    };
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let link = folder.join("libLLVM.so");
    drop(fs::remove_file(&link));
    symlink(&library, &link).with_context(|| format!("linking {}", link.display()))?;
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_llvm_major_comes_from_the_compiler() {
        let version = "rustc 1.96.0\nbinary: rustc\nhost: x86_64\nLLVM version: 22.1.8\n";
        assert_eq!(llvm_major(version), Some("22"));
        assert_eq!(llvm_major("LLVM version: 7\n"), Some("7"));
        assert_eq!(llvm_major("LLVM version: x.1\n"), None);
        assert_eq!(llvm_major("rustc 1.96.0"), None);
    }

    #[test]
    fn compiler_packages_are_private_even_when_installed() {
        for name in [
            "rustc-web",
            "libstd-rust-web-1.96",
            "libllvm22",
            "libstd-rust-web-dev-bpf",
        ] {
            assert!(belongs_to_compiler(name), "{name}");
        }
        for name in ["libc6", "gcc", "libz3-4"] {
            assert!(!belongs_to_compiler(name), "{name}");
        }
    }
}
