//! Setup: what building and testing need beyond a stable Rust and a C linker, found or installed.
//!
//! Everything is probed, nothing remembered: a tool that was removed by hand is noticed. Nothing that is installed on
//! the machine is removed, replaced or upgraded; what would do so is unpacked below `target/tools` instead.

mod apt;
pub(crate) mod toolchain;
mod unpack;

use std::fs::{self, File};

use anyhow::{Context as _, Result, bail};

use crate::host;
use crate::stop::Stop;
use crate::tools::{Group, Place, Tool, Tools};
use crate::workspace::Workspace;
use toolchain::Toolchain;

/// What setup does about missing things.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Install them.
    Install,
    /// Name them and stop with status 1.
    Report,
}

/// A set of things that a task needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The compiler and linker for eBPF.
    Toolchain,
    /// Programs of a group of the tool table.
    Tools(Group),
}

/// `cargo xtask setup`: every need, with a closing word.
///
/// # Errors
/// As [`ensure`].
pub(crate) fn everything(space: &Workspace, mode: Mode) -> Result<()> {
    ensure(
        space,
        &[
            Need::Toolchain,
            Need::Tools(Group::Lab),
            Need::Tools(Group::Vm),
        ],
        mode,
    )?;
    println!("setup: everything is there");
    Ok(())
}

/// Makes sure that `needs` are met. Says nothing and takes well under a second when they are.
///
/// # Errors
/// Status 1 in [`Mode::Report`] with something missing; status 3 on a machine where it cannot be installed.
pub(crate) fn ensure(space: &Workspace, needs: &[Need], mode: Mode) -> Result<()> {
    let missing = Missing::probe(space, needs);
    if missing.is_empty() {
        return Ok(());
    }
    println!("setup: missing here:");
    missing.lines().iter().for_each(|line| println!("  {line}"));
    if mode == Mode::Report {
        let names = missing.names();
        return Err(
            Stop::failed(format!("missing: {names}; `cargo xtask setup` installs it")).into(),
        );
    }
    host::require_debian(&missing.names())?;
    install(space, needs)
}

fn install(space: &Workspace, needs: &[Need]) -> Result<()> {
    fs::create_dir_all(space.tools()).context("creating target/tools")?;
    let lock = File::create(space.tools().join("lock")).context("creating target/tools/lock")?;
    lock.lock().context("waiting for another setup to finish")?;
    // Another setup may have done it while this one waited.
    let missing = Missing::probe(space, needs);
    if missing.toolchain {
        toolchain::install(space)?;
    }
    if !missing.tools.is_empty() {
        install_tools(space, &missing.tools)?;
    }
    let left = Missing::probe(space, needs);
    if left.is_empty() {
        return Ok(());
    }
    bail!(
        "setup went through, but these are still not usable: {}",
        left.names()
    )
}

/// What of a set of needs is not met.
struct Missing {
    toolchain: bool,
    tools: Vec<&'static Tool>,
}

impl Missing {
    fn probe(space: &Workspace, needs: &[Need]) -> Self {
        let tools = Tools::of(space);
        let groups = needs.iter().filter_map(|need| match need {
            Need::Tools(group) => Some(*group),
            Need::Toolchain => None,
        });
        Self {
            toolchain: needs.contains(&Need::Toolchain) && Toolchain::find(space).is_none(),
            tools: groups.flat_map(|group| tools.missing(group)).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        !self.toolchain && self.tools.is_empty()
    }

    fn lines(&self) -> Vec<String> {
        let toolchain = self.toolchain.then(|| {
            format!(
                "eBPF toolchain: rustc with a core library for {} and bpf-linker {} (private, below target/tools)",
                toolchain::TARGET,
                toolchain::LINKER_VERSION
            )
        });
        let tools = self
            .tools
            .iter()
            .map(|t| format!("{} (package {}): {}", t.program, t.package, t.why));
        toolchain.into_iter().chain(tools).collect()
    }

    fn names(&self) -> String {
        let toolchain = self
            .toolchain
            .then_some("eBPF toolchain (rustup nightly with rust-src, and bpf-linker)");
        let tools = self.tools.iter().map(|tool| tool.program);
        toolchain
            .into_iter()
            .chain(tools)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

fn install_tools(space: &Workspace, missing: &[&'static Tool]) -> Result<()> {
    let (private, open): (Vec<_>, Vec<_>) = missing
        .iter()
        .partition(|tool| tool.place == Place::Private);
    let mut unpacked: Vec<&Tool> = private;
    if !open.is_empty() {
        unpacked.extend(install_openly(&open)?);
    }
    for tool in unpacked {
        unpack_privately(space, tool)?;
    }
    Ok(())
}

/// Installs on the machine what only adds packages there; returns the tools for which that is not so.
fn install_openly<'a>(tools: &[&'a Tool]) -> Result<Vec<&'a Tool>> {
    let (clean, conflicting) = split_by_effect(tools);
    if !clean.is_empty() {
        host::require_root("setup", "installing Debian packages")?;
        apt::install(&packages(&clean))?;
    }
    Ok(conflicting)
}

/// The tools that can be installed together by only adding packages, and the others.
fn split_by_effect<'a>(tools: &[&'a Tool]) -> (Vec<&'a Tool>, Vec<&'a Tool>) {
    if only_adds(tools) {
        return (tools.to_vec(), Vec::new());
    }
    let (clean, conflicting): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| only_adds(&[tool]));
    // Each may be harmless alone and not together.
    if only_adds(&clean) {
        (clean, conflicting)
    } else {
        (Vec::new(), tools.to_vec())
    }
}

fn only_adds(tools: &[&Tool]) -> bool {
    let plan = apt::simulate(apt::Against::Machine, &packages(tools));
    plan.is_ok_and(|plan| plan.only_adds())
}

fn packages(tools: &[&Tool]) -> Vec<String> {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package.to_owned()).collect();
    packages.sort();
    packages.dedup();
    packages
}

fn unpack_privately(space: &Workspace, tool: &Tool) -> Result<()> {
    let packages = apt::missing_for(tool.package)?;
    println!(
        "setup: unpacking {} and {} packages it needs below target/tools ({})",
        tool.package,
        packages.len().saturating_sub(1),
        tool.private_reason()
    );
    unpack::unpack(space, &packages)?;
    Tools::of(space).write_wrapper(tool)
}
