//! `cargo xtask vm-test`: the labs, or any command, on other kernels in a virtual machine.
//!
//! Kernels are Debian's, fetched by a private apt ([`packages`], [`kernels`]) and kept below `target/vm` ([`store`]).
//! A machine's whole file system is one archive in its memory ([`guest`], [`image`]); it boots in seconds, runs one
//! script and switches itself off ([`qemu`], [`console`]).

mod args;
mod console;
mod fleet;
mod guest;
mod host;
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
mod table;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

pub(crate) use args::VmArgs;
use console::Verdict;
use guest::Job;
use host::Host;
pub(crate) use kernels::Kernel;
use plan::Boot;
use report::KernelRun;

use crate::build::{self, Profile};
use crate::process;
use crate::setup::{self, Mode, Need};
use crate::stop::Stop;
use crate::test::Counts;
use crate::workspace::Workspace;

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
    let plan = args.plan(&labs)?;
    let boots = plan::boots(&plan);
    let job = |boot: &Boot<'_>| Job {
        script: labs::script(boot.kernel, &labs, &boot.labs),
        programs: programs.clone(),
        boot: boot.words.to_owned(),
        nonce: nonce(),
    };
    let document = space.root().join("docs/kernels.md");
    let each = |run: &KernelRun| {
        if args.all {
            // All of it takes more than an hour: what was shown is kept also where it is ended before. At the end it is
            // written once more, and then it is told if that fails.
            let _ = table::write(&document, &labs, std::slice::from_ref(run));
        }
    };
    let runs = fleet::run(&host, &boots, job, each)?;
    print!("{}", report::summary(&runs));
    if args.all {
        table::write(&document, &labs, &runs)?;
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
        boot: args.boot.clone().unwrap_or_default(),
        nonce: nonce(),
    };
    let mut failed = Vec::new();
    for &kernel in args.kernels() {
        let unpacked = host.kernel(kernel)?;
        let ended = host.boot(&unpacked, kernel.name(), &job, |line| println!("{line}"))?;
        println!(
            "== {}: {} ({:.1} s)\n",
            unpacked.release,
            host::describe(&ended.verdict),
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

/// Runs one script with these programs on a kernel, and gives each line that it prints to `see`.
///
/// # Errors
/// When something cannot be had, or the script fails.
pub(crate) fn script(
    space: &Workspace,
    mode: Mode,
    kernel: Kernel,
    (script, programs): (&str, Vec<(String, PathBuf)>),
    see: impl FnMut(&str),
) -> Result<()> {
    let args = VmArgs::of_script(script);
    let job = Job {
        script: script.to_owned(),
        programs,
        boot: String::new(),
        nonce: nonce(),
    };
    let host = Host::prepare(space, &args, mode)?;
    let unpacked = host.kernel(kernel)?;
    let ended = host.boot(&unpacked, kernel.name(), &job, see)?;
    if ended.verdict == Verdict::Ended(0) {
        return Ok(());
    }
    let why = host::describe(&ended.verdict);
    Err(Stop::failed(format!("on kernel {}: {why}", unpacked.release)).into())
}

/// A mark that differs from run to run.
fn nonce() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("--vm-{:x}-{:x}--", std::process::id(), now.as_nanos())
}
