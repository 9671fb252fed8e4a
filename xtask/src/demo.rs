//! The main job on a lab: `cargo xtask demo`.

use anyhow::Result;

use crate::build::{self, Profile};
use crate::host;
use crate::process;
use crate::setup::{self, Mode, Need};
use crate::tools::{Group, Tools};
use crate::workspace::Workspace;

/// Installs and builds what is missing, then runs the demo lab with the real binary.
///
/// # Errors
/// Status 3 without root; else when building or the demo fails.
pub(crate) fn run(space: &Workspace, mode: Mode) -> Result<()> {
    host::require_root("demo", "making the lab's network namespaces")?;
    setup::ensure(space, &[Need::Toolchain, Need::Tools(Group::Lab)], mode)?;
    let binary = build::all(space, Profile::Release)?;
    let mut cargo = process::cargo(space);
    cargo
        .args([
            "run",
            "--quiet",
            "--package",
            "srctrace-tests",
            "--bin",
            "demo",
        ])
        .env("SRCTRACE_BIN", binary)
        .env("PATH", Tools::of(space).path_variable());
    process::run(&mut cargo, "the demo")
}
