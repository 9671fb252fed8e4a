//! The `srctrace` binary: a thin wrapper around its rooms.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(srctrace::run::run(std::env::args_os()).code())
}
