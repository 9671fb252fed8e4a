//! The machine's programs as the virtual machine needs them: to run here, or as files to copy.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;
use crate::tools::{self, TABLE, Tools};
use crate::workspace::Workspace;

/// Debian's folder for libraries of this architecture.
pub(crate) const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// Looks up programs: setup's private copies first, then the machine's.
pub(crate) struct Programs {
    tools: Tools,
}

impl Programs {
    /// The programs of this machine and checkout.
    pub(crate) fn of(space: &Workspace) -> Self {
        Self {
            tools: Tools::of(space),
        }
    }

    /// The file of the program `name`.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        self.tools
            .private_file(name)
            .or_else(|| tools::on_path(name))
    }

    /// What to execute for `name`: its wrapper if it is a private copy of setup's.
    ///
    /// # Errors
    /// When there is no such program.
    pub(crate) fn executable(&self, name: &str) -> Result<PathBuf> {
        let listed = TABLE.iter().find(|tool| tool.program == name);
        let program = match listed {
            Some(tool) => self.tools.locate(tool),
            None => tools::on_path(name),
        };
        program.with_context(|| format!("there is no program {name} here"))
    }

    /// A command that runs `name`.
    ///
    /// # Errors
    /// As [`Programs::executable`].
    pub(crate) fn command(&self, name: &str) -> Result<Command> {
        Ok(process::command(self.executable(name)?))
    }

    /// A command that runs the file `name` as if it were called `called`, for programs that are several in one.
    ///
    /// # Errors
    /// When there is no such program.
    pub(crate) fn command_as(&self, name: &str, called: &str) -> Result<Command> {
        let file = self
            .file(name)
            .with_context(|| format!("there is no program {name} here"))?;
        let mut command = process::command(file);
        command
            .arg0(called)
            .env("LD_LIBRARY_PATH", self.tools.library_path());
        Ok(command)
    }

    /// `ldd`, which also finds the libraries of private copies.
    pub(crate) fn ldd(&self) -> Command {
        let mut ldd = process::command("ldd");
        ldd.env("LD_LIBRARY_PATH", self.tools.library_path());
        ldd
    }

    /// Every folder `name` with plug-ins, private ones first.
    pub(crate) fn plugins(&self, name: &str) -> Vec<PathBuf> {
        let private = self.tools.library_folders();
        let folders = private.iter().map(PathBuf::as_path);
        folders
            .chain([Path::new(LIBRARIES)])
            .map(|folder| folder.join(name))
            .filter(|folder| folder.is_dir())
            .collect()
    }
}
