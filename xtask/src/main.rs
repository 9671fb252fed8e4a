//! Throw-away entry for the `vm` module until the real xtask is merged.
#![expect(dead_code, reason = "throw-away")]
mod process;
mod stop;
mod vm;
mod workspace;

/// Stand-in for the real module.
mod setup {
    /// Whether to install.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Mode {
        /// Install what is missing.
        Install,
        /// Only report.
        Report,
    }
}

use clap::Parser;

#[derive(Parser)]
enum Cli {
    /// Boot other kernels and run the labs there
    VmTest(vm::VmArgs),
}

fn main() -> std::process::ExitCode {
    let Cli::VmTest(args) = Cli::parse();
    let done = workspace::Workspace::locate()
        .and_then(|space| vm::command(&space, &args, setup::Mode::Install));
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            std::process::ExitCode::from(stop::status(&error))
        }
    }
}
