//! Programs for the virtual machine: those of this machine, and those it lacks, unpacked privately. Debian's emulator
//! packages conflict with others that may be installed; nothing is installed or removed here.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::packages::{Mirror, Pool};
use super::store::Store;
use crate::process;

/// What running the labs in a virtual machine needs, beyond what building and the native labs need anyway.
const PACKAGES: [&str; 17] = [
    "bridge-utils",
    "busybox-static",
    "conntrack",
    "ethtool",
    "iperf3",
    "ipset",
    "iproute2",
    "iptables",
    "iputils-ping",
    "ipvsadm",
    "kmod",
    "nftables",
    "qemu-system-x86",
    "socat",
    "tcpdump",
    "wireguard-tools",
    "xz-utils",
];

const ENTRY: &str = "tools";

/// Where programs are, below a root.
const PLACES: [&str; 4] = ["usr/sbin", "sbin", "usr/bin", "bin"];

/// Where to look for programs.
pub(crate) struct Tools {
    root: PathBuf,
}

impl Tools {
    /// The tools, downloading what the machine lacks if that was not done before.
    ///
    /// # Errors
    /// When apt finds no way, or the mirror cannot be reached.
    pub(crate) fn ensure(store: &Store, mirror: &Mirror, codename: &str) -> Result<Self> {
        let dir = store.entry(ENTRY, &PACKAGES.join(" "), |dir| {
            println!("vm-test: looking for the emulator and tools");
            let suites = ["", "-updates", "-security"].map(|kind| format!("{codename}{kind}"));
            let pool = Pool::open(
                &store.apt(ENTRY),
                mirror,
                &suites,
                Path::new("/var/lib/dpkg/status"),
            )?;
            let missing = pool.missing_for(&PACKAGES)?;
            let names = missing
                .iter()
                .map(|p| p.name.as_str())
                .collect::<Vec<_>>()
                .join(" ");
            println!("vm-test: unpacking privately (not installing): {names}");
            pool.unpack(&missing, &dir.join("root"))
        });
        Ok(Self {
            root: dir.context("tools for the virtual machine")?.join("root"),
        })
    }

    /// True if [`Tools::ensure`] has nothing to download.
    pub(crate) fn are_there(store: &Store) -> bool {
        store.has(ENTRY, &PACKAGES.join(" "))
    }

    /// The program `name`: the private one first, since it may be there because the machine's is too old.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let roots = [self.root.as_path(), Path::new("/")];
        let places = roots
            .iter()
            .flat_map(|root| PLACES.map(|place| (root, root.join(place).join(name))));
        places
            .map(|(root, path)| inside(root, path))
            .find(|path| path.is_file())
    }

    /// A command for the program `name` that finds its libraries.
    ///
    /// # Errors
    /// When there is no such program.
    pub(crate) fn command(&self, name: &str) -> Result<Command> {
        let program = self
            .find(name)
            .with_context(|| format!("{name} is neither installed nor unpacked"))?;
        let mut command = self.with_libraries(program);
        // Some programs are one file that looks at the name it is called by.
        command.arg0(name);
        Ok(command)
    }

    /// `program` with the private libraries in reach.
    pub(crate) fn with_libraries(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = process::command(program);
        let mut path = OsString::new();
        for dir in self.directories(&["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"]) {
            path.push(if path.is_empty() { "" } else { ":" });
            path.push(dir);
        }
        if !path.is_empty() {
            command.env("LD_LIBRARY_PATH", path);
        }
        command
    }

    /// Those of `places` that exist in the private tree.
    pub(crate) fn directories(&self, places: &[&str]) -> Vec<PathBuf> {
        places
            .iter()
            .map(|place| self.root.join(place))
            .filter(|dir| dir.is_dir())
            .collect()
    }

    /// Every directory of programs, private ones first, with the names that `wanted` accepts.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub(crate) fn matching(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for dir in PLACES
            .iter()
            .flat_map(|place| [self.root.join(place), Path::new("/").join(place)])
        {
            if !dir.is_dir() {
                continue;
            }
            for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
                names.extend(
                    entry?
                        .file_name()
                        .into_string()
                        .ok()
                        .filter(|name| wanted(name)),
                );
            }
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// `path`, or where it leads if it is a link to an absolute path, which is meant below `root`.
fn inside(root: &Path, path: PathBuf) -> PathBuf {
    match fs::read_link(&path) {
        Ok(target) if target.is_absolute() => {
            root.join(target.strip_prefix("/").unwrap_or(&target))
        }
        _ => path,
    }
}
