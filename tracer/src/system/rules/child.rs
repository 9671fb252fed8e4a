//! Running a program for its output: bounded in time and size, its complaints kept apart.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Enough for 100,000 rules on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Enough for 100,000 rules as JSON, bytes.
const MOST_OUTPUT: usize = 96 << 20;

/// Of complaints only the first are of use, bytes.
const MOST_COMPLAINTS: usize = 4 << 10;

/// Why there is no output.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no such program.
    Missing,
    /// It could not be run or read.
    Io(io::Error),
    /// It did not end in time.
    Slow,
    /// It printed too much.
    Long,
    /// It failed: how it ended, and what it said.
    Failed(String, String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the program is not here"),
            Self::Io(error) => write!(f, "the program cannot be run: {error}"),
            Self::Slow => write!(f, "the program did not end within {} s", PATIENCE.as_secs()),
            Self::Long => write!(f, "the program printed more than {} MiB", MOST_OUTPUT >> 20),
            Self::Failed(how, said) => write!(f, "the program ended with {how}: {said}"),
        }
    }
}

/// Runs a program in the calling thread's namespaces and returns what it printed.
pub(super) fn run(program: &Path, args: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new(program);
    // SAFETY: the closure makes one system call and touches no memory of the parent.
    unsafe { command.pre_exec(end_with_us) };
    let mut child = command
        .args(args)
        .env_clear()
        .env("PATH", super::programs::PATH)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::Io)?;
    let read = collect(&mut child);
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(Failure::Io)?;
    let (output, complaints) = read?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&output).into_owned());
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    let said = String::from_utf8_lossy(&complaints);
    Err(Failure::Failed(
        how,
        said.lines().next().unwrap_or_default().to_owned(),
    ))
}

/// A program that hangs must not outlive us, however we end. Its parent is the thread that waits for it.
fn end_with_us() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(
        rustix::process::Signal::KILL,
    ))?)
}

/// Reads both streams until both are closed.
fn collect(child: &mut Child) -> Result<(Vec<u8>, Vec<u8>), Failure> {
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Failure::Io(io::Error::other("no pipes")));
    };
    for pipe in [out.as_fd(), err.as_fd()] {
        fcntl_setfl(pipe, OFlags::NONBLOCK).map_err(|e| Failure::Io(e.into()))?;
    }
    let (mut output, mut complaints) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + PATIENCE;
    let mut open = [true, true];
    while open.contains(&true) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::Slow);
        }
        wait(&out, &err, open, left)?;
        if open[0] {
            open[0] = drain(&mut out, &mut output)?;
        }
        if open[1] {
            open[1] = drain(&mut err, &mut complaints)?;
            complaints.truncate(MOST_COMPLAINTS);
        }
        if output.len() > MOST_OUTPUT {
            return Err(Failure::Long);
        }
    }
    Ok((output, complaints))
}

fn wait(out: &impl AsFd, err: &impl AsFd, open: [bool; 2], left: Duration) -> Result<(), Failure> {
    let pipes = [out.as_fd(), err.as_fd()];
    let mut fds: Vec<_> = pipes
        .iter()
        .zip(open)
        .filter(|(_, open)| *open)
        .map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = Timespec::try_from(left).map_err(|e| Failure::Io(io::Error::other(e)))?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(Failure::Io(e.into())),
    }
}

/// Reads what is there; `false` at the end.
fn drain(pipe: &mut impl Read, into: &mut Vec<u8>) -> Result<bool, Failure> {
    let mut chunk = vec![0; 64 << 10];
    match pipe.read(&mut chunk) {
        Ok(0) => Ok(false),
        Ok(count) => {
            into.extend_from_slice(&chunk[..count]);
            Ok(true)
        }
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(true)
        }
        Err(e) => Err(Failure::Io(e)),
    }
}
