//! `cargo xtask test`: every check in one go, a table at the end, and a last line with the counts.

mod count;
mod summary;

use std::time::Instant;

use anyhow::Result;
use clap::Args;

pub(crate) use count::Counts;
use summary::{Outcome, Row, Summary};

use crate::build::{self, Profile};
use crate::host;
use crate::process;
use crate::setup::{self, Mode, Need};
use crate::stop::Stop;
use crate::tidy;
use crate::tools::{Group, Tools};
use crate::vm;
use crate::workspace::Workspace;

/// Options of `cargo xtask test`.
#[derive(Args, Default)]
pub(crate) struct TestArgs {
    /// Leave out the labs on other kernels
    #[arg(long)]
    no_vm: bool,
    /// Leave out all labs: format, tidy, lints, unit and property tests only
    #[arg(long)]
    quick: bool,
}

/// How skipped tests count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// They are shown.
    Local,
    /// They are failures.
    Ci,
}

impl Strictness {
    /// [`Self::Ci`] where the environment has a `CI` that is neither empty nor `false`.
    pub(crate) fn from_environment() -> Self {
        let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
        if ci { Self::Ci } else { Self::Local }
    }
}

/// How many lab tests run at a time: each drives several processes, and two cores are the machine to plan for.
const LAB_THREADS: &str = "--test-threads=2";

/// The steps, in the order in which they run: cheap ones first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Format,
    Tidy,
    Build,
    Lints,
    Units,
    Labs,
    Vms,
}

const STEPS: [Step; 7] = [
    Step::Format,
    Step::Tidy,
    Step::Build,
    Step::Lints,
    Step::Units,
    Step::Labs,
    Step::Vms,
];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Tidy => "tidy",
            Self::Build => "build",
            Self::Lints => "lints",
            Self::Units => "unit and property tests",
            Self::Labs => "labs on this kernel",
            Self::Vms => "labs on other kernels",
        }
    }

    fn wanted(self, args: &TestArgs) -> bool {
        match self {
            Self::Labs => !args.quick,
            Self::Vms => !args.quick && !args.no_vm,
            _ => true,
        }
    }

    /// Steps that are pointless without the binary and its eBPF object.
    fn needs_build(self) -> bool {
        matches!(self, Self::Lints | Self::Units | Self::Labs | Self::Vms)
    }

    fn run(self, space: &Workspace, mode: Mode) -> Result<Counts> {
        match self {
            Self::Format => check(space, &["fmt", "--all", "--check"]),
            Self::Tidy => tidy::run(space).map(|()| Counts::default()),
            Self::Build => build::all(space, Profile::Release).map(|_| Counts::default()),
            Self::Lints => check(
                space,
                &[
                    "clippy",
                    "--quiet",
                    "--workspace",
                    "--all-targets",
                    "--",
                    "-D",
                    "warnings",
                ],
            ),
            Self::Units => tests(space, &["--workspace", "--exclude", "srctrace-tests"], &[]),
            Self::Labs => tests(
                space,
                &["--package", "srctrace-tests"],
                &["--", LAB_THREADS],
            ),
            Self::Vms => vm::run(space, &vm::VmArgs::default(), mode),
        }
    }
}

/// Runs the whole check.
///
/// # Errors
/// Status 1 when anything failed, 3 where labs cannot run, 2 when CI is asked to leave something out.
pub(crate) fn run(
    space: &Workspace,
    args: &TestArgs,
    mode: Mode,
    strictness: Strictness,
) -> Result<()> {
    if strictness == Strictness::Ci && (args.quick || args.no_vm) {
        return Err(Stop::usage(
            "nothing may be left out in CI: drop --quick and --no-vm, or unset CI",
        )
        .into());
    }
    if Step::Labs.wanted(args) {
        host::require_root("test", "making the labs' network namespaces")?;
    }
    setup::ensure(space, &needs(args), mode)?;
    let mut summary = Summary::new(strictness);
    let mut built = true;
    for step in STEPS {
        let row = if !step.wanted(args) {
            Row::without_run(step.name(), Outcome::LeftOut)
        } else if step.needs_build() && !built {
            Row::without_run(step.name(), Outcome::Impossible)
        } else {
            timed(step, space, mode)
        };
        built &= step != Step::Build || row.succeeded();
        summary.push(row);
    }
    print!("{summary}");
    if summary.failed() > 0 {
        // The counts stay the last line for who reads stdout and stderr together.
        return Err(Stop::silently().into());
    }
    Ok(())
}

fn needs(args: &TestArgs) -> Vec<Need> {
    let labs = Step::Labs.wanted(args).then_some(Need::Tools(Group::Lab));
    let vms = Step::Vms.wanted(args).then_some(Need::Tools(Group::Vm));
    [Need::Toolchain]
        .into_iter()
        .chain(labs)
        .chain(vms)
        .collect()
}

fn timed(step: Step, space: &Workspace, mode: Mode) -> Row {
    println!("\n== {}", step.name());
    let start = Instant::now();
    let result = step.run(space, mode);
    if let Err(error) = &result {
        eprintln!("{}: {error:#}", step.name());
    }
    let outcome = result.map_or(Outcome::Broken, Outcome::Ran);
    Row::new(step.name(), outcome, start.elapsed())
}

fn check(space: &Workspace, arguments: &[&str]) -> Result<Counts> {
    process::run(process::cargo(space).args(arguments), "checking")?;
    Ok(Counts::default())
}

/// Runs `cargo test` and adds up what its runners say.
fn tests(space: &Workspace, selection: &[&str], runner: &[&str]) -> Result<Counts> {
    let mut cargo = process::cargo(space);
    cargo
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(selection)
        .args(runner)
        .env("SRCTRACE_BIN", space.target().join("release/srctrace"))
        .env("PATH", Tools::of(space).path_variable());
    let mut counts = Counts::default();
    let succeeded = process::tee(&mut cargo, "testing", |line| counts.add_line(line))?;
    counts.settle(succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &TestArgs) -> Vec<&'static str> {
        STEPS
            .iter()
            .filter(|step| step.wanted(args))
            .map(|step| step.name())
            .collect()
    }

    #[test]
    fn options_leave_out_labs_only() {
        let all = names(&TestArgs::default());
        assert_eq!(all.len(), STEPS.len());
        assert_eq!(
            names(&TestArgs {
                no_vm: true,
                quick: false
            }),
            all[..6]
        );
        assert_eq!(
            names(&TestArgs {
                no_vm: false,
                quick: true
            }),
            all[..5]
        );
    }

    #[test]
    fn ci_refuses_to_leave_something_out() {
        let space = Workspace::locate().unwrap();
        let args = TestArgs {
            no_vm: true,
            quick: false,
        };
        let error = run(&space, &args, Mode::Report, Strictness::Ci).unwrap_err();
        assert_eq!(crate::stop::status(&error), 2);
    }

    #[test]
    fn only_what_will_run_has_to_be_installed() {
        assert!(
            needs(&TestArgs {
                no_vm: false,
                quick: true
            }) == [Need::Toolchain]
        );
        assert_eq!(needs(&TestArgs::default()).len(), 3);
    }
}
