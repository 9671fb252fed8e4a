//! `cargo xtask vm-test`: the labs, or any command, on other kernels in a virtual machine.
//!
//! Kernels are Debian's, fetched by a private apt ([`packages`], [`kernels`]) and kept below `target/vm` ([`store`]).
//! A machine's whole file system is one archive in its memory ([`guest`], [`image`]); it boots in seconds, runs one
//! script and switches itself off ([`qemu`], [`console`]).

mod console;
mod guest;
mod image;
mod kernels;
mod labs;
mod libraries;
mod modules;
mod packages;
mod plan;
mod programs;
mod qemu;
mod report;
mod store;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::Args;

use console::Verdict;
use guest::Job;
use kernels::Kernel;
use labs::{Lab, Results};
use plan::Plan;
use programs::Programs;
use report::KernelRun;
use store::Store;

use crate::build::{self, Profile};
use crate::process;
use crate::setup::{self, Mode, Need};
use crate::stop::Stop;
use crate::test::Counts;
use crate::tools::Group;
use crate::workspace::Workspace;

/// Options of `cargo xtask vm-test`. Without any, it runs what CI runs.
#[derive(Args, Default)]
pub(crate) struct VmArgs {
    /// Only this kernel (repeatable), with every lab that is for it
    #[arg(long, value_enum)]
    kernel: Vec<Kernel>,
    /// Run every lab on every kernel it is for, and write the table in docs/kernels.md
    #[arg(long, conflicts_with_all = ["kernel", "filter", "shell"])]
    all: bool,
    /// Only labs whose name contains this, on every kernel they are for
    #[arg(long, value_name = "LAB")]
    filter: Option<String>,
    /// Run this shell command instead of the labs
    #[arg(long, value_name = "CMD", conflicts_with = "filter")]
    shell: Option<String>,
    /// Put this file into the virtual machine's /bin (repeatable)
    #[arg(long, value_name = "PATH")]
    copy: Vec<PathBuf>,
    /// End a virtual machine that takes longer, in seconds [default: 900]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

impl VmArgs {
    fn kernels(&self) -> &[Kernel] {
        if self.kernel.is_empty() {
            &Kernel::ALL
        } else {
            &self.kernel
        }
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(900))
    }

    /// The files of `--copy` with their names in the virtual machine.
    fn copies(&self) -> Result<Vec<(String, PathBuf)>> {
        self.copy.iter().map(|path| named(path)).collect()
    }

    fn plan<'a>(&self, labs: &'a [Lab]) -> Result<Plan<'a>> {
        let ci = !self.all && self.kernel.is_empty() && self.filter.is_none();
        let mut plan = if ci {
            plan::for_ci(labs)
        } else {
            plan::everything(labs, self.kernels())
        };
        if let Some(filter) = &self.filter {
            plan.values_mut()
                .for_each(|labs| labs.retain(|lab| lab.name.contains(filter)));
        }
        plan.retain(|_, labs| !labs.is_empty());
        if plan.is_empty() {
            return Err(Stop::usage("no lab is for these kernels and has such a name").into());
        }
        Ok(plan)
    }
}

/// `cargo xtask vm-test`.
///
/// # Errors
/// When something cannot be had or built, or anything that ran has failed.
pub(crate) fn command(space: &Workspace, args: &VmArgs, mode: Mode) -> Result<()> {
    if let Some(script) = &args.shell {
        return shell(space, args, mode, script);
    }
    let counts = run(space, args, mode)?;
    println!(
        "\n{} passed, {} failed, {} skipped",
        counts.passed, counts.failed, counts.ignored
    );
    if counts.failed > 0 {
        return Err(Stop::failed("labs failed on other kernels").into());
    }
    Ok(())
}

/// Boots the kernels, runs the labs there, and returns how many held; failures are in the counts.
///
/// # Errors
/// When a kernel, a tool or the programs cannot be had or built.
pub(crate) fn run(space: &Workspace, args: &VmArgs, mode: Mode) -> Result<Counts> {
    let copies = args.copies()?;
    let host = Host::prepare(space, args, mode)?;
    setup::ensure(space, &[Need::Toolchain], mode)?;
    let srctrace = build::all(space, Profile::Release)?;
    let lab_program = build_labs(space)?;
    let table = process::output(
        process::command(&lab_program).arg("--json"),
        "asking for the table of labs",
    )?;
    let labs = labs::parse_table(&table)?;
    let mut programs = vec![
        ("srctrace".to_owned(), srctrace),
        ("labs".to_owned(), lab_program),
    ];
    programs.extend(copies);
    let mut runs = Vec::new();
    for (kernel, chosen) in args.plan(&labs)? {
        let script = labs::script(kernel, &labs, &chosen);
        runs.push(host.labs(
            kernel,
            &chosen,
            &Job {
                script,
                programs: programs.clone(),
                nonce: nonce(),
            },
        )?);
    }
    print!("{}", report::summary(&runs));
    if args.all {
        let document = space.root().join("docs/kernels.md");
        report::write(&document, &report::table(&labs, &runs))?;
        println!("wrote {}", space.relative(&document));
    }
    let mut counts = Counts::default();
    runs.iter().for_each(|run| counts.add(run.counts));
    Ok(counts)
}

fn build_labs(space: &Workspace) -> Result<PathBuf> {
    let mut cargo = process::cargo(space);
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "srctrace-tests",
        "--bin",
        "labs",
    ]);
    process::run(&mut cargo, "building the labs")?;
    Ok(space.target().join("debug/labs"))
}

/// Runs one script on each kernel with its output on the screen.
fn shell(space: &Workspace, args: &VmArgs, mode: Mode, script: &str) -> Result<()> {
    let programs = args.copies()?;
    let host = Host::prepare(space, args, mode)?;
    let job = Job {
        script: script.to_owned(),
        programs,
        nonce: nonce(),
    };
    let mut failed = Vec::new();
    for &kernel in args.kernels() {
        let ended = host.boot(kernel, &job, |line| println!("{line}"))?;
        println!(
            "== {}: {} ({:.1} s)\n",
            ended.release,
            describe(&ended.verdict),
            ended.took.as_secs_f64()
        );
        if ended.verdict != Verdict::Ended(0) {
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

/// What is the same for every boot.
struct Host {
    store: Store,
    programs: Programs,
    deadline: Duration,
    mode: Mode,
}

/// A boot that is over.
struct Ended {
    release: String,
    verdict: Verdict,
    took: Duration,
}

impl Host {
    fn prepare(space: &Workspace, args: &VmArgs, mode: Mode) -> Result<Self> {
        setup::ensure(
            space,
            &[Need::Tools(Group::Lab), Need::Tools(Group::Vm)],
            mode,
        )?;
        Ok(Self {
            store: Store::open(space)?,
            programs: Programs::of(space),
            deadline: args.deadline(),
            mode,
        })
    }

    /// Runs `job` on `kernel`, giving each line that it prints to `see`.
    fn boot(&self, kernel: Kernel, job: &Job, see: impl FnMut(&str)) -> Result<Ended> {
        let unpacked = kernels::ensure(kernel, &self.store, &self.programs, self.mode)?;
        println!("== kernel {} ({})", kernel.name(), unpacked.release);
        let start = Instant::now();
        let dir = self.store.run(kernel.name())?;
        let (image, log) = (dir.join("initramfs.cpio"), dir.join("console.log"));
        guest::image(job, &unpacked, &self.programs)?.write(&image)?;
        let boot = qemu::Boot {
            vmlinuz: &unpacked.vmlinuz,
            image: &image,
            nonce: &job.nonce,
            log: &log,
            deadline: self.deadline,
        };
        let verdict = boot.run(&self.programs, see)?;
        Ok(Ended {
            release: unpacked.release,
            verdict,
            took: start.elapsed(),
        })
    }

    fn labs(&self, kernel: Kernel, chosen: &[&Lab], job: &Job) -> Result<KernelRun> {
        let mut results = Results::expecting(chosen);
        let ended = self.boot(kernel, job, |line| {
            println!("{line}");
            results.line(line);
        })?;
        let succeeded = ended.verdict == Verdict::Ended(0);
        if !succeeded {
            println!("== {}: {}", ended.release, describe(&ended.verdict));
        }
        let counts = results.counts(succeeded);
        Ok(KernelRun {
            release: ended.release,
            results,
            counts,
            took: ended.took,
        })
    }
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
    if !path.is_file() {
        return Err(Stop::usage(format!("--copy {}: no such file", path.display())).into());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("--copy {}: the name is not UTF-8", path.display()))?;
    Ok((name.to_owned(), path.to_path_buf()))
}

/// A mark that differs from run to run.
fn nonce() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("--vm-{:x}-{:x}--", std::process::id(), now.as_nanos())
}
