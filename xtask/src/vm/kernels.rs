//! The kernels of the matrix: which package each one is, and its unpacked copy.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use super::modules;
use super::packages::{self, Mirror, Package, Pool};
use super::programs::Programs;
use super::store::Store;
use crate::setup::Mode;
use crate::stop::Stop;

/// Debian's package that always depends on the suite's newest kernel for cloud machines: few drivers, all of netfilter.
const META: &str = "linux-image-cloud-amd64";

/// A kernel of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kernel {
    /// The oldest that srctrace promises.
    #[value(name = "5.10")]
    V5_10,
    /// bookworm's own.
    #[value(name = "6.1")]
    V6_1,
    /// tcx and netkit are there.
    #[value(name = "6.12")]
    V6_12,
    /// The newest that Debian packages for a stable release.
    #[value(name = "7")]
    V7,
}

impl Kernel {
    /// All of them, oldest first.
    pub(crate) const ALL: [Self; 4] = [Self::V5_10, Self::V6_1, Self::V6_12, Self::V7];

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7 => "7",
        }
    }

    /// As in the labs' declarations.
    pub(crate) fn lab_name(self) -> &'static str {
        if self == Self::V7 { "7.x" } else { self.name() }
    }

    fn suites(self) -> &'static [&'static str] {
        match self {
            Self::V5_10 => &["bullseye", "bullseye-security"],
            Self::V6_1 => &["bookworm", "bookworm-updates", "bookworm-security"],
            Self::V6_12 => &["bookworm-backports"],
            Self::V7 => &["trixie-backports"],
        }
    }

    /// True if `version`, of a package or as `uname -r` says it, is one of this kernel's.
    pub(crate) fn is_version(self, version: &str) -> bool {
        version
            .strip_prefix(self.name())
            .is_some_and(|rest| rest.starts_with('.'))
    }
}

/// A kernel ready to boot.
pub(crate) struct Unpacked {
    /// What `uname -r` will say.
    pub(crate) release: String,
    /// The compressed kernel.
    pub(crate) vmlinuz: PathBuf,
    /// The directory that holds `modules.dep`.
    pub(crate) modules: PathBuf,
}

/// The unpacked kernel, downloaded first if it is not in the store.
///
/// # Errors
/// When its suite has vanished, has no such kernel any more, or cannot be reached; in [`Mode::Report`] when it would
/// have to be downloaded.
pub(crate) fn ensure(
    kernel: Kernel,
    store: &Store,
    programs: &Programs,
    mode: Mode,
) -> Result<Unpacked> {
    let entry = format!("kernel-{}", kernel.name());
    if mode == Mode::Report && !store.has(&entry, modules::SELECTION) {
        let name = kernel.name();
        let say = format!("missing: the {name} kernel; run without --no-install to download it");
        return Err(Stop::failed(say).into());
    }
    let dir = store.entry(&entry, modules::SELECTION, |dir| {
        fetch(kernel, dir, store, programs)
    });
    let dir = dir.with_context(|| format!("kernel {}", kernel.name()))?;
    let release =
        fs::read_to_string(dir.join("release")).context("reading the kernel's release")?;
    let modules = dir.join("lib/modules").join(&release);
    Ok(Unpacked {
        release,
        vmlinuz: dir.join("vmlinuz"),
        modules,
    })
}

fn fetch(kernel: Kernel, dir: &Path, store: &Store, programs: &Programs) -> Result<()> {
    println!("vm-test: downloading the {} kernel", kernel.name());
    let mirror = Mirror::of_machine()?;
    let pool = Pool::open(&store.apt(kernel.name()), &mirror, kernel.suites())?;
    let packages = resolve(kernel, &pool)?;
    let first = &packages[0];
    println!("vm-test: unpacking {} {}", first.name, first.version);
    pool.unpack(&packages, &dir.join("root"))?;
    arrange(dir, programs)
}

/// The packages that hold image and modules. One up to 6.x; from 7 on image, modules and their
/// index are three.
fn resolve(kernel: Kernel, pool: &Pool) -> Result<Vec<Package>> {
    let mut best: Option<packages::Stanza> = None;
    for stanza in pool.show(META)? {
        let candidate = kernel.is_version(&stanza.package.version);
        let newer =
            |b: &packages::Stanza| packages::is_newer(&stanza.package.version, &b.package.version);
        if candidate && best.as_ref().map_or(Ok(true), newer)? {
            best = Some(stanza);
        }
    }
    let suites = kernel.suites().join(", ");
    let meta =
        best.with_context(|| format!("no {META} {}.x in {suites} any more", kernel.name()))?;
    let version = &meta.package.version;
    let image = depends_on(&meta, "linux-image-")?;
    let shown = pool.show(&image)?;
    let image = shown.into_iter().find(|s| s.package.version == *version);
    let image = image
        .with_context(|| format!("{META} {version} depends on an image that is not in {suites}"))?;
    let part = |prefix| {
        anyhow::Ok(Package {
            name: depends_on(&image, prefix)?,
            version: version.clone(),
        })
    };
    match depends_on(&image, "linux-binary-") {
        Err(_) => Ok(vec![image.package]),
        Ok(_) => Ok(vec![
            part("linux-binary-")?,
            part("linux-modules-")?,
            part("linux-base-")?,
        ]),
    }
}

fn depends_on(stanza: &packages::Stanza, prefix: &str) -> Result<String> {
    let found = stanza.depends.iter().find(|name| name.starts_with(prefix));
    found
        .cloned()
        .with_context(|| format!("{} depends on no {prefix}* package", stanza.package.name))
}

/// Turns the unpacked packages below `dir/root` into what [`Unpacked`] promises and removes the rest.
fn arrange(dir: &Path, programs: &Programs) -> Result<()> {
    let root = dir.join("root");
    let base = ["usr/lib/modules", "lib/modules"]
        .iter()
        .map(|p| root.join(p))
        .find(|p| p.is_dir());
    let base = base.context("the packages hold no lib/modules")?;
    let release = fs::read_dir(&base)?
        .next()
        .context("lib/modules is empty")??
        .file_name();
    let release = release
        .into_string()
        .ok()
        .context("the kernel's release is not UTF-8")?;
    let images = [
        base.join(&release).join("vmlinuz"),
        root.join(format!("boot/vmlinuz-{release}")),
    ];
    let image = images
        .iter()
        .find(|p| p.is_file())
        .context("the packages hold no vmlinuz")?;
    fs::rename(image, dir.join("vmlinuz"))?;
    modules::select(
        &base.join(&release),
        &dir.join("lib/modules").join(&release),
        &release,
        programs,
    )?;
    fs::write(dir.join("release"), &release)?;
    fs::remove_dir_all(&root).context("removing what the virtual machine does not need")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_belong_to_one_kernel() {
        let of = |version: &str| {
            Kernel::ALL
                .into_iter()
                .filter(|k| k.is_version(version))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("5.10.262-1"), [Kernel::V5_10]);
        assert_eq!(of("6.1.192-3"), [Kernel::V6_1]);
        assert_eq!(of("6.12.95-1~bpo12+1"), [Kernel::V6_12]);
        assert_eq!(of("7.3.4-1~bpo13+1"), [Kernel::V7]);
        assert!(of("6.16.3-1").is_empty());
        assert!(of("70.1").is_empty());
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for kernel in Kernel::ALL {
            assert_eq!(Kernel::from_str(kernel.name(), false), Ok(kernel));
        }
    }
}
