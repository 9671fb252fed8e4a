//! The program under test and how a lab starts it.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::unistd::pipe2;

use super::process::wait_ready;
use super::{Report, Trace};
use crate::lab::Lab;

/// The program under test: `SRCTRACE_BIN`, else `target/release/srctrace` of this workspace.
///
/// # Errors
/// When there is none; the message says how to build it.
pub fn binary() -> Result<PathBuf> {
    let path = match env::var_os("SRCTRACE_BIN") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/srctrace"),
    };
    if !path.is_file() {
        bail!(
            "no srctrace at {}: run `cargo xtask build`, or set SRCTRACE_BIN",
            path.display()
        );
    }
    Ok(path)
}

/// A run of srctrace to be started.
#[derive(Debug)]
pub struct Srctrace<'lab> {
    lab: &'lab Lab,
    ns: String,
    args: Vec<OsString>,
    envs: Vec<(String, String)>,
    around: Option<String>,
    json: bool,
    output: Output,
    scope: Vec<String>,
}

impl<'lab> Srctrace<'lab> {
    /// A run in the lab's node with these arguments. It looks only at this lab's namespaces that are not the outside
    /// world (`peer…`), so that labs can run side by side, and reports JSON.
    #[must_use]
    pub fn new(lab: &'lab Lab, args: &[&str]) -> Self {
        Self {
            lab,
            ns: "node".to_owned(),
            args: args.iter().map(OsString::from).collect(),
            envs: Vec::new(),
            around: None,
            json: true,
            output: Output::Collected,
            scope: scope_of(lab),
        }
    }

    /// Started in this namespace instead of the node.
    #[must_use]
    pub fn started_in(mut self, ns: &str) -> Self {
        self.ns = ns.to_owned();
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.envs.push((key.to_owned(), value.to_owned()));
        self
    }

    /// In a mount namespace of its own, which this script (of `sh -e`) has prepared. The script may end with its own way of
    /// starting `"$@"`, the program with its arguments; else it is started as it is.
    #[must_use]
    pub fn around(mut self, script: &str) -> Self {
        self.around = Some(format!("{script}\nexec \"$@\""));
        self
    }

    /// Human output instead of JSON.
    #[must_use]
    pub fn text(mut self) -> Self {
        self.json = false;
        self
    }

    /// Output straight to our own terminal, for the demo.
    #[must_use]
    pub fn on_terminal(self) -> Self {
        self.output(Output::Terminal).text()
    }

    /// Where its standard output goes, when not to us.
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// The whole machine, as a user without `--scope` has it. Only for labs that run alone.
    #[must_use]
    pub fn whole_machine(mut self) -> Self {
        self.scope.clear();
        self
    }

    /// Only these namespaces of the lab.
    #[must_use]
    pub fn within(mut self, spaces: &[&str]) -> Self {
        self.scope = spaces.iter().map(|ns| self.lab.netns(ns)).collect();
        self
    }

    /// Another lab's namespaces too.
    #[must_use]
    pub fn and_lab(mut self, other: &Lab) -> Self {
        self.scope.extend(scope_of(other));
        self
    }

    /// Starts it and waits until it says that it is armed.
    ///
    /// # Errors
    /// When it ends before it is ready, or is not ready in time; the message has its standard error.
    pub fn start(&self) -> Result<Trace> {
        let (ready, ready_child) =
            pipe2(OFlag::O_CLOEXEC).context("a pipe for the ready signal")?;
        let trace = self.spawn(Some(ready_child))?;
        match wait_ready(ready) {
            Ok(()) => Ok(trace),
            Err(error) => Err(error.context(trace.last_words())),
        }
    }

    /// Runs it until it ends by itself.
    ///
    /// # Errors
    /// When it cannot be started or does not end.
    pub fn run_to_end(&self) -> Result<Report> {
        self.spawn(None)?.finish()
    }

    fn spawn(&self, ready: Option<OwnedFd>) -> Result<Trace> {
        let mut command = behind(self.around.as_deref(), &binary()?);
        command
            .args(&self.args)
            .envs(self.envs.iter().cloned())
            .stdin(Stdio::null());
        if !self.scope.is_empty() {
            command.arg("--scope").arg(self.scope.join(","));
        }
        let traces = self
            .args
            .first()
            .is_none_or(|arg| arg.as_encoded_bytes().starts_with(b"-"));
        if traces && !self.args.iter().any(|arg| arg == "--duration") {
            // Should this process be killed, the trace outlives it no longer than this.
            command.args(["--duration", "3m"]);
        }
        if self.json {
            command.args(["--output", "json"]);
        }
        self.output.apply(&mut command)?;
        if let Some(ready) = &ready {
            hand_over(&mut command, ready);
        }
        let child = self.lab.in_ns(&self.ns, || command.spawn())?;
        Trace::of(child.context("start srctrace in the lab's node")?)
    }
}

/// The program, behind the script that goes before it.
fn behind(script: Option<&str>, binary: &Path) -> Command {
    let Some(script) = script else {
        return Command::new(binary);
    };
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-ec", script, "sh"])
        .arg(binary);
    command
}

/// Where standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To us, line by line; standard error too.
    Collected,
    /// Where ours goes; standard error too.
    Terminal,
    /// Into a pipe that nobody reads any more, as with `srctrace | head -1`.
    ClosedPipe,
    /// To a device that is full.
    Full,
}

impl Output {
    fn apply(self, command: &mut Command) -> Result<()> {
        match self {
            Self::Terminal => return Ok(()),
            Self::Collected => command.stdout(Stdio::piped()),
            Self::ClosedPipe => {
                let (_, closed) = pipe2(OFlag::O_CLOEXEC).context("a pipe without a reader")?;
                command.stdout(closed)
            }
            Self::Full => {
                let full = File::options().write(true).open("/dev/full");
                command.stdout(full.context("open /dev/full")?)
            }
        };
        command.stderr(Stdio::piped());
        Ok(())
    }
}

/// The namespaces of a lab that are not the outside world.
fn scope_of(lab: &Lab) -> Vec<String> {
    let inside = lab.spaces().iter().filter(|ns| !ns.starts_with("peer"));
    let named = inside.map(|ns| lab.netns(ns));
    // One that was deleted meanwhile cannot be asked for.
    named
        .filter(|netns| Path::new("/run/netns").join(netns).exists())
        .collect()
}

/// Lets the child keep `fd` and tells it the number by `SRCTRACE_READY_FD`.
fn hand_over(command: &mut Command, fd: &OwnedFd) {
    let raw = fd.as_raw_fd();
    command.env("SRCTRACE_READY_FD", raw.to_string());
    let keep = move || {
        // SAFETY: the descriptor is open in the child: it was forked while the caller borrowed the `OwnedFd`.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(raw) };
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))
            .map(drop)
            .map_err(std::io::Error::from)
    };
    // SAFETY: `keep` only calls fcntl, which is allowed between fork and exec, and allocates nothing.
    unsafe { command.pre_exec(keep) };
}
