//! `cargo test`: every lab for the machine's own kernel.

use std::process::ExitCode;

fn main() -> ExitCode {
    srctrace_tests::runner::main()
}
