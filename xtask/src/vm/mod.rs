//! `cargo xtask vm-test`: the labs, or any command, on other kernels in a virtual machine.

mod console;
mod guest;
mod image;
mod kernels;
mod modules;
mod packages;
mod qemu;
mod store;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

use console::Verdict;
use guest::Job;
use kernels::{Kernel, Unpacked};
use packages::Mirror;
use store::Store;
use tools::Tools;

use crate::setup::Mode;
use crate::stop::Stop;
use crate::workspace::Workspace;

/// Options of `cargo xtask vm-test`.
#[derive(Args, Default)]
pub(crate) struct VmArgs {
    /// Only this kernel (repeatable); default: all
    #[arg(long, value_enum)]
    pub(crate) kernel: Vec<Kernel>,
    /// Run every lab on every kernel it declares, and write the table in docs/kernels.md
    #[arg(long, conflicts_with_all = ["kernel", "filter", "shell"])]
    pub(crate) all: bool,
    /// Only labs whose name contains this
    #[arg(long, value_name = "LAB")]
    pub(crate) filter: Option<String>,
    /// Run this shell command instead of the labs
    #[arg(long, value_name = "CMD", conflicts_with = "filter")]
    pub(crate) shell: Option<String>,
    /// Put this file of the machine into the virtual machine's /bin (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) copy: Vec<PathBuf>,
    /// End a virtual machine that takes longer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub(crate) timeout: u64,
}

impl VmArgs {
    fn kernels(&self) -> Vec<Kernel> {
        if self.kernel.is_empty() {
            Kernel::ALL.to_vec()
        } else {
            self.kernel.clone()
        }
    }
}

/// `cargo xtask vm-test`.
///
/// # Errors
/// When something cannot be had or built, or a run fails.
pub(crate) fn command(space: &Workspace, args: &VmArgs, mode: Mode) -> Result<()> {
    let lab = Laboratory::open(space, args, mode)?;
    let Some(script) = &args.shell else {
        return Err(Stop::failed("labs are not wired yet").into());
    };
    shell(&lab, args, script)
}

/// All that is the same for every boot.
struct Laboratory {
    store: Store,
    tools: Tools,
    mirror: Mirror,
}

impl Laboratory {
    fn open(space: &Workspace, _args: &VmArgs, _mode: Mode) -> Result<Self> {
        let store = Store::open(space)?;
        let codename = codename()?;
        let mirror = Mirror::of_machine(&codename)?;
        let tools = Tools::ensure(&store, &mirror, &codename)?;
        Ok(Self {
            store,
            tools,
            mirror,
        })
    }

    fn kernel(&self, kernel: Kernel) -> Result<Unpacked> {
        kernels::ensure(kernel, &self.store, &self.tools, &self.mirror)
    }

    /// Runs `job` on `kernel`, giving each line that it prints to `see`.
    fn boot(
        &self,
        kernel: Kernel,
        job: &Job,
        deadline: Duration,
        see: impl FnMut(&str),
    ) -> Result<Verdict> {
        let unpacked = self.kernel(kernel)?;
        let dir = self.store.run(kernel.name())?;
        let image = dir.join("initramfs.cpio");
        guest::image(job, &unpacked, &self.tools)?.write(&image)?;
        let log = dir.join("console.log");
        let boot = qemu::Boot {
            vmlinuz: &unpacked.vmlinuz,
            image: &image,
            nonce: &job.nonce,
            log: &log,
            deadline,
        };
        boot.run(&self.tools, see)
    }
}

/// Runs one script on each kernel with its output on the screen.
fn shell(lab: &Laboratory, args: &VmArgs, script: &str) -> Result<()> {
    let mut failed = Vec::new();
    let programs = args
        .copy
        .iter()
        .map(|path| named(path))
        .collect::<Result<Vec<_>>>()?;
    let job = Job {
        script: script.to_owned(),
        programs,
        directories: Vec::new(),
        nonce: nonce(),
    };
    for kernel in args.kernels() {
        println!("== kernel {}", kernel.name());
        let start = Instant::now();
        let verdict = lab.boot(kernel, &job, Duration::from_secs(args.timeout), |line| {
            println!("{line}")
        })?;
        let ok = describe(&verdict);
        println!(
            "== kernel {}: {ok} ({:.1} s)",
            kernel.name(),
            start.elapsed().as_secs_f32()
        );
        if verdict != Verdict::Ended(0) {
            failed.push(kernel.name());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Stop::failed(format!(
        "the command failed on kernel {}",
        failed.join(", ")
    ))
    .into())
}

fn describe(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Ended(status) => format!("exit status {status}"),
        Verdict::Broken { reason, tail } => format!(
            "{reason}; the console's last lines:\n  {}",
            tail.join("\n  ")
        ),
    }
}

fn named(path: &Path) -> Result<(String, PathBuf)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name =
        name.with_context(|| format!("--copy {}: not the name of a file", path.display()))?;
    if !path.is_file() {
        return Err(Stop::usage(format!("--copy {}: no such file", path.display())).into());
    }
    Ok((name.to_owned(), path.to_path_buf()))
}

/// A mark that differs from run to run.
fn nonce() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!("--vm-{:x}-{:x}--", std::process::id(), now.as_nanos())
}

/// The Debian release of this machine.
fn codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("reading /etc/os-release")?;
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let found =
        found.context("/etc/os-release names no release; vm-test needs a Debian machine")?;
    Ok(found.trim_matches('"').to_owned())
}
