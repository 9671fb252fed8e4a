//! The traced program as a child process: start, ready signal, signals, end.

use std::env;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2};

use super::Report;
use super::lines::Lines;
use crate::lab::Lab;

/// How long the program may take to get ready, to report a flow, or to end. A virtual machine without hardware help is
/// ten times slower than the machine it runs on; nothing waits this long when all is well.
pub const DEADLINE: Duration = Duration::from_secs(30);

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
    json: bool,
    inherit: bool,
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
            json: true,
            inherit: false,
            scope: scope_of(lab),
        }
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.envs.push((key.to_owned(), value.to_owned()));
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
    pub fn on_terminal(mut self) -> Self {
        self.inherit = true;
        self.text()
    }

    /// The whole machine, as a user without `--scope` has it. Only for labs that run alone.
    #[must_use]
    pub fn whole_machine(mut self) -> Self {
        self.scope.clear();
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
        let mut trace = self.spawn(Some(ready_child))?;
        match wait_ready(ready) {
            Ok(()) => Ok(trace),
            Err(error) => {
                // Whatever state it is in, it goes now; its own words say more than ours.
                let _ = kill(trace.pid, Signal::SIGTERM);
                let report = trace.collect();
                Err(error.context(match report {
                    Ok(report) => format!(
                        "srctrace ended with {:?}, saying: {}",
                        report.status, report.stderr
                    ),
                    Err(stuck) => format!("and {stuck:#}"),
                }))
            }
        }
    }

    /// Runs it until it ends by itself.
    ///
    /// # Errors
    /// When it cannot be started or does not end.
    pub fn run_to_end(&self) -> Result<Report> {
        self.spawn(None)?.collect()
    }

    fn spawn(&self, ready: Option<OwnedFd>) -> Result<Trace> {
        let mut command = Command::new(binary()?);
        command
            .args(&self.args)
            .envs(self.envs.iter().cloned())
            .stdin(Stdio::null());
        if !self.scope.is_empty() {
            command.arg("--scope").arg(self.scope.join(","));
        }
        if !self.args.iter().any(|arg| arg == "--duration") {
            // Should this process be killed, the trace outlives it no longer than this.
            command.args(["--duration", "3m"]);
        }
        if self.json {
            command.args(["--output", "json"]);
        }
        if !self.inherit {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if let Some(ready) = &ready {
            hand_over(&mut command, ready);
        }
        let mut child = self
            .lab
            .in_ns(&self.ns, || command.spawn())?
            .context("start srctrace in the lab's node")?;
        let pid = Pid::from_raw(i32::try_from(child.id()).context("pid")?);
        let stdout = Lines::of(child.stdout.take());
        let stderr = Lines::of(child.stderr.take());
        let (ended, end) = channel();
        thread::spawn(move || ended.send(child.wait()));
        Ok(Trace {
            pid,
            stdout,
            stderr,
            end,
            ended: false,
        })
    }
}

/// The namespaces of a lab that are not the outside world.
fn scope_of(lab: &Lab) -> Vec<String> {
    let inside = lab.spaces().iter().filter(|ns| !ns.starts_with("peer"));
    inside.map(|ns| lab.netns(ns)).collect()
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

/// Waits for the line "armed" on the ready pipe.
fn wait_ready(pipe: OwnedFd) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    let mut pipe = std::fs::File::from(pipe);
    let mut text = Vec::new();
    while !text.ends_with(b"\n") {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).context("the time left")?;
        let ready = poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], timeout)
            .context("wait for ready")?;
        if ready == 0 {
            bail!("srctrace was not armed within {DEADLINE:?}");
        }
        let mut byte = [0u8; 1];
        if pipe.read(&mut byte).context("read the ready signal")? == 0 {
            bail!("srctrace ended, or closed the ready pipe, before it was armed");
        }
        text.push(byte[0]);
    }
    if text != b"armed\n" {
        bail!(
            "an unexpected ready signal: {:?}",
            String::from_utf8_lossy(&text)
        );
    }
    Ok(())
}

/// A running srctrace. Dropping it kills it.
#[derive(Debug)]
pub struct Trace {
    pid: Pid,
    stdout: Lines,
    stderr: Lines,
    end: Receiver<std::io::Result<ExitStatus>>,
    ended: bool,
}

impl Trace {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Waits until it has printed `count` flows.
    ///
    /// # Errors
    /// When it does not in time.
    pub fn wait_flows(&self, count: usize) -> Result<()> {
        self.stdout.wait(DEADLINE, |lines| lines.len() >= count)
    }

    /// Waits until a line on its standard error contains `text`.
    ///
    /// # Errors
    /// When none does in time.
    pub fn wait_says(&self, text: &str) -> Result<()> {
        self.stderr.wait(DEADLINE, |lines| {
            lines.iter().any(|line| line.contains(text))
        })
    }

    /// Stops it as Ctrl-C does and returns what it reported.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(self) -> Result<Report> {
        self.signal(Signal::SIGINT)
    }

    /// Sends a signal and returns what it reported.
    ///
    /// # Errors
    /// When it does not end.
    pub fn signal(mut self, signal: Signal) -> Result<Report> {
        kill(self.pid, signal).with_context(|| format!("send {signal} to srctrace"))?;
        self.collect()
    }

    /// Waits for its own end and returns what it reported.
    ///
    /// # Errors
    /// When it does not end.
    pub fn finish(mut self) -> Result<Report> {
        self.collect()
    }

    fn collect(&mut self) -> Result<Report> {
        let status = match self.end.recv_timeout(DEADLINE) {
            Ok(status) => status.context("wait for srctrace")?,
            Err(RecvTimeoutError::Timeout) => bail!("srctrace did not end within {DEADLINE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("srctrace was waited for twice"),
        };
        self.ended = true;
        let lines = self.stdout.finish().context("standard output")?;
        let stderr = self.stderr.finish().context("standard error")?.join("\n");
        Ok(Report {
            lines,
            stderr,
            status: status.code(),
            signal: status.signal(),
        })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if !self.ended {
            let _ = kill(self.pid, Signal::SIGKILL);
            let _ = self.end.recv_timeout(DEADLINE);
        }
    }
}
