//! Runs the labs, natively and in a virtual machine, with the words of cargo's own test harness.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use libtest_mimic::{Arguments, Trial};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use serde_json::json;

use crate::labs::{self, Case, Kernel, all};

/// Labs of all processes on this machine share this lock; a lab that must run alone takes it exclusively.
const LOCK: &str = "/run/lock/srctrace-labs.lock";

/// No lab takes this long, even in a virtual machine without hardware help.
const LONGEST: Duration = Duration::from_secs(240);

/// The labs' command line:
///
/// - `--json` prints the table of all labs with rows, kernels and needs, one JSON object a line;
/// - `--list`, `--filter TEXT` (or `TEXT`), `--exact`, `--test-threads N` and so on are cargo's.
///
/// `SRCTRACE_LAB_KERNEL` (`native`, `5.10`, `6.1`, `6.12`, `7.x`) names the kernel that this runs on; labs that are not
/// for it are not in the list. `SRCTRACE_LAB_ALL=1` runs every lab there whatever it declares.
#[must_use]
pub fn main() -> ExitCode {
    let args: Vec<String> = env::args().filter(|arg| arg != "--filter").collect();
    if args.iter().any(|arg| arg == "--json") {
        for case in all() {
            println!("{}", describe(case));
        }
        return ExitCode::SUCCESS;
    }
    match selected() {
        Ok(cases) => {
            let trials = cases
                .into_iter()
                .map(|case| Trial::test(case.name, move || run(case)))
                .collect();
            let ended = libtest_mimic::run(&Arguments::from_iter(args), trials);
            if let Some(line) = labs::told() {
                println!("{line}");
            }
            ended.exit_code()
        }
        Err(error) => {
            eprintln!("labs: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The labs for the kernel that this runs on.
fn selected() -> Result<Vec<&'static Case>> {
    let kernel = match env::var("SRCTRACE_LAB_KERNEL") {
        Ok(name) => Kernel::parse(&name)
            .with_context(|| format!("SRCTRACE_LAB_KERNEL={name}: no such kernel"))?,
        Err(_) => Kernel::Native,
    };
    let every = env::var_os("SRCTRACE_LAB_ALL").is_some_and(|value| value == "1");
    raise_file_limit()?;
    lift_memlock()?;
    Ok(all()
        .filter(|case| every || case.kernels.contains(&kernel))
        .collect())
}

fn describe(case: &Case) -> serde_json::Value {
    let kernels: Vec<&str> = case.kernels.iter().map(|kernel| kernel.name()).collect();
    json!({"name": case.name, "rows": case.rows, "kernels": kernels, "needs": case.needs, "boot": case.boot, "alone": case.alone,
        "covers": labs::covers(case.name)})
}

fn run(case: &'static Case) -> Result<(), libtest_mimic::Failed> {
    let outcome = locked(case);
    outcome.map_err(|error| libtest_mimic::Failed::from(format!("{error:#}")))
}

/// Runs a lab while no lab that must be alone runs, or while no other lab runs at all.
fn locked(case: &'static Case) -> Result<()> {
    fs::create_dir_all("/run/lock").context("create /run/lock")?;
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(LOCK)
        .context(LOCK)?;
    let how = if case.alone {
        FlockArg::LockExclusive
    } else {
        FlockArg::LockShared
    };
    match Flock::lock(file, how) {
        Ok(_held) => in_time(case),
        Err((_, errno)) => bail!("lock {LOCK}: {errno}"),
    }
}

/// Runs a lab on a thread of its own, so that one that hangs fails and the others still run.
fn in_time(case: &'static Case) -> Result<()> {
    let (done, result) = channel();
    let running = thread::Builder::new()
        .spawn(move || done.send(case.run()))
        .context("start the lab's thread")?;
    match result.recv_timeout(LONGEST) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => {
            bail!("did not end within {LONGEST:?}; it is left hanging")
        }
        // Its panic ends it before it sends anything.
        Err(RecvTimeoutError::Disconnected) => match running.join() {
            Ok(_) => bail!("ended without an outcome"),
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// A thousand flows have two thousand sockets in this one process.
fn raise_file_limit() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("read the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("raise the limit of open files")
}

/// Kernels before 5.11 count the programs that labs load against the memory that may be locked. On those the labs may lift
/// that limit; where they may not (a container), it is raised as far as it goes.
fn lift_memlock() -> Result<()> {
    let (_, hard) =
        getrlimit(Resource::RLIMIT_MEMLOCK).context("read the limit of locked memory")?;
    [RLIM_INFINITY, hard]
        .into_iter()
        .find(|&limit| setrlimit(Resource::RLIMIT_MEMLOCK, limit, limit.max(hard)).is_ok())
        .map(drop)
        .context("raise the limit of locked memory")
}
