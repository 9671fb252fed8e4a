//! `cargo xtask`: everything one does with this repository besides editing it.
//!
//! Exit status: 0 done, 1 something failed or is missing, 2 wrong usage, 3 cannot be done on this machine.

mod bench;
mod build;
mod demo;
mod host;
mod process;
mod setup;
mod stop;
mod strip;
mod test;
mod tidy;
mod tools;
mod vm;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use setup::{Mode, Need};
use stop::Stop;
use workspace::Workspace;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Builds, tests and demonstrates srctrace"
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
    /// Install nothing: only say what is missing (exit status 1 if something is)
    #[arg(long, global = true)]
    no_install: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and testing need (other tasks do this by themselves)
    Setup,
    /// Build the eBPF object and target/release/srctrace
    Build(BuildArgs),
    /// Show the main job on a small lab
    Demo,
    /// Format, lints, unit, property, native lab and VM lab tests, tidy
    Test(test::TestArgs),
    /// Check sizes, imports and documents against the design
    Tidy,
    /// `test` with the strictness of CI: nothing may be skipped
    Ci,
    /// Boot other kernels and run the labs there
    VmTest(vm::VmArgs),
    /// Measure cost and capacity
    Bench(bench::BenchArgs),
    /// Build a static release archive
    Dist,
}

#[derive(Args)]
struct BuildArgs {
    /// Build target/debug/srctrace instead (the eBPF object is always optimised)
    #[arg(long)]
    debug: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let message = format!("{error:#}");
            if !message.is_empty() {
                eprintln!("xtask: {message}");
            }
            ExitCode::from(stop::status(&error))
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let space = Workspace::locate()?;
    let mode = if cli.no_install {
        Mode::Report
    } else {
        Mode::Install
    };
    match &cli.task {
        Task::Setup => setup::everything(&space, mode),
        Task::Build(args) => {
            setup::ensure(&space, &[Need::Toolchain], mode)?;
            let profile = if args.debug { build::Profile::Debug } else { build::Profile::Release };
            let binary = build::all(&space, profile)?;
            println!("built {}", space.relative(&binary));
            Ok(())
        }
        Task::Demo => demo::run(&space, mode),
        Task::Test(args) => test::run(&space, args, mode, test::Strictness::from_environment()),
        Task::Ci => test::run(&space, &test::TestArgs::default(), mode, test::Strictness::Ci),
        Task::Tidy => tidy::run(&space),
        Task::VmTest(args) => vm::command(&space, args, mode),
        Task::Bench(args) => bench::run(&space, args, mode),
        Task::Dist => Err(Stop::failed(
            "`dist` is not part of this checkout yet; `cargo xtask build` gives a dynamically linked target/release/srctrace",
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
