//! A running srctrace: its ready signal, its output as it comes, signals to it, its end.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Report;
use super::lines::Lines;

/// How long the program may take to get ready, to report a flow, or to end. A virtual machine without hardware help is
/// ten times slower than the machine it runs on, and others may be running beside it; nothing waits this long when all is well.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// Waits for the line "armed" on the ready pipe.
pub(super) fn wait_ready(pipe: OwnedFd) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    let mut pipe = File::from(pipe);
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
    pub(super) fn of(mut child: Child) -> Result<Self> {
        let pid = Pid::from_raw(i32::try_from(child.id()).context("pid")?);
        let stdout = Lines::of(child.stdout.take());
        let stderr = Lines::of(child.stderr.take());
        let (ended, end) = channel();
        thread::spawn(move || ended.send(child.wait()));
        Ok(Self {
            pid,
            stdout,
            stderr,
            end,
            ended: false,
        })
    }

    /// Ends one that never got ready, and returns what it said.
    pub(super) fn last_words(mut self) -> String {
        // Whatever state it is in, it goes now.
        let _ = kill(self.pid, Signal::SIGTERM);
        match self.collect() {
            Ok(report) => format!(
                "srctrace ended with {:?}, saying: {}",
                report.status, report.stderr
            ),
            Err(stuck) => format!("{stuck:#}"),
        }
    }

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

    /// Whether a line that it has printed so far contains `text`.
    #[must_use]
    pub fn has_printed(&self, text: &str) -> bool {
        let there = |lines: &[String]| lines.iter().any(|line| line.contains(text));
        self.stdout.wait(Duration::ZERO, there).is_ok()
    }

    /// Waits until a line that it has printed contains `text`.
    ///
    /// # Errors
    /// When none does in time.
    pub fn wait_prints(&self, text: &str) -> Result<()> {
        let there = |lines: &[String]| lines.iter().any(|line| line.contains(text));
        self.stdout.wait(DEADLINE, there)
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

    /// Has it stand still while `work` runs.
    ///
    /// # Errors
    /// When it cannot be stopped, or what `work` returns.
    pub fn while_still<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        kill(self.pid, Signal::SIGSTOP).context("have srctrace stand still")?;
        let done = work();
        kill(self.pid, Signal::SIGCONT).context("have srctrace go on")?;
        done
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
