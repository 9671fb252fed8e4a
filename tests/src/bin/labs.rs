//! The labs as a program: `labs [--list] [--json] [--filter TEXT]`; see `srctrace_tests::runner`.

use std::process::ExitCode;

fn main() -> ExitCode {
    srctrace_tests::runner::main()
}
