//! The command line of `cargo xtask vm-test`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use super::kernels::Kernel;
use super::labs::Lab;
use super::plan::{self, Plan};
use super::qemu::Patience;
use crate::stop::Stop;

/// A lab that hangs is given up after 240 seconds by the labs' own runner, and the others go on: a machine that says
/// nothing for longer is lost.
const SILENCE: Duration = Duration::from_secs(300);

/// Options of `cargo xtask vm-test`. Without any, it runs what CI runs.
#[derive(Args, Default)]
pub(crate) struct VmArgs {
    /// Only this kernel (repeatable), with every lab that is for it
    #[arg(long, value_enum)]
    kernel: Vec<Kernel>,
    /// Run every lab on every kernel it is for, and write the table in docs/kernels.md; with --kernel or --filter only
    /// what those choose, and the rest of the table stays
    #[arg(long, conflicts_with = "shell")]
    pub(super) all: bool,
    /// Only labs whose name contains this (or one of several, divided by commas), on every kernel they are for
    #[arg(long, value_name = "LAB", value_delimiter = ',')]
    filter: Vec<String>,
    /// Run this shell command instead of the labs
    #[arg(long, value_name = "CMD", conflicts_with = "filter")]
    pub(super) shell: Option<String>,
    /// Boot that command's machine with these words at the end of the kernel's command line
    #[arg(long, value_name = "WORDS", requires = "shell")]
    pub(super) boot: Option<String>,
    /// Put this file into the virtual machine's /bin (repeatable)
    #[arg(long, value_name = "PATH")]
    copy: Vec<PathBuf>,
    /// End a virtual machine that takes longer, in seconds [default: 900 for a command, 2700 for labs]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

impl VmArgs {
    /// A command instead of the labs.
    pub(super) fn of_script(script: &str) -> Self {
        Self {
            shell: Some(script.to_owned()),
            ..Self::default()
        }
    }

    /// The kernels that are meant.
    pub(super) fn kernels(&self) -> &[Kernel] {
        if self.kernel.is_empty() {
            &Kernel::ALL
        } else {
            &self.kernel
        }
    }

    /// How long a boot may take. A lab prints a line when it ends, so silence means that one hangs, and the whole may take as
    /// long as eighty labs need on a busy machine; a command of the caller's may say nothing for as long as it likes.
    pub(super) fn patience(&self) -> Patience {
        let usual = if self.shell.is_some() { 900 } else { 2700 };
        let whole = Duration::from_secs(self.timeout.unwrap_or(usual));
        let silence = if self.shell.is_some() { whole } else { SILENCE };
        Patience { whole, silence }
    }

    /// The files of `--copy` with their names in the virtual machine.
    ///
    /// # Errors
    /// When one is no file.
    pub(super) fn copies(&self) -> Result<Vec<(String, PathBuf)>> {
        self.copy.iter().map(|path| named(path)).collect()
    }

    /// Which of `labs` run on which kernel.
    ///
    /// # Errors
    /// When none does.
    pub(super) fn plan<'a>(&self, labs: &'a [Lab]) -> Result<Plan<'a>> {
        let ci = !self.all && self.kernel.is_empty() && self.filter.is_empty();
        let mut plan = if ci {
            plan::for_ci(labs)
        } else {
            plan::everything(labs, self.kernels())
        };
        if !self.filter.is_empty() {
            let chosen = |lab: &&Lab| self.filter.iter().any(|part| lab.name.contains(part));
            plan.values_mut().for_each(|labs| labs.retain(chosen));
        }
        plan.retain(|_, labs| !labs.is_empty());
        if plan.is_empty() {
            return Err(Stop::usage("no lab is for these kernels and has such a name").into());
        }
        Ok(plan)
    }
}

fn named(path: &Path) -> Result<(String, PathBuf)> {
    if !path.is_file() {
        return Err(Stop::usage(format!("--copy {}: no such file", path.display())).into());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("--copy {}: the name is not UTF-8", path.display()))?;
    Ok((name.to_owned(), path.to_path_buf()))
}
