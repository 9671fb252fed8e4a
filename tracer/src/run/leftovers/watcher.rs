//! The watcher: a process of its own that outlives the run by the blink in which it removes what
//! the run added. It holds a pipe; the pipe's end means that the run is over, however it ended.

use super::record::Record;
use super::remove::{self, Removed};
use crate::run::failure::Failure;
use crate::system::{Lifetime, Roots, nflog, own_program};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use tracer_core::expect::ExitStatus;

/// The hidden first argument by which a program knows that it is the watcher of a record.
const WATCHER: &str = "__watcher";
/// That it is the watcher of a namespace's packet loggers.
const LOGGERS: &str = "__loggers";
const READY: &[u8] = b"ready\n";
/// Signals that end other programs of the group or the session, not this one.
const IGNORED: [libc::c_int; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGPIPE,
];

/// The run's hold on its watcher. Dropping it lets the watcher act, and waits for its end.
pub(in crate::run) struct Watcher(Child);

impl Watcher {
    /// Starts it and waits until it watches.
    ///
    /// # Errors
    /// When it cannot be started or ends at once.
    pub(super) fn start(run: Lifetime) -> Result<Self, Failure> {
        Self::spawn("--tap clsact", WATCHER, &run.to_string())
    }

    /// As [`Watcher::start`], but what is put back are the packet loggers of the calling thread's
    /// namespace.
    ///
    /// # Errors
    /// Likewise.
    pub(in crate::run) fn of_loggers(loggers: &str) -> Result<Self, Failure> {
        Self::spawn("--observe-rules nftrace", LOGGERS, loggers)
    }

    fn spawn(option: &str, job: &str, what: &str) -> Result<Self, Failure> {
        let failed = |why: String| {
            Failure::CannotTrace(format!("{option}: cannot start its watcher: {why}"))
        };
        let child = Command::new(own_program())
            .arg0("srctrace")
            .args([job, what])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut watcher = Self(child);
        let mut said = Vec::new();
        if let Some(mut stdout) = watcher.0.stdout.take() {
            let mut byte = [0];
            // It writes one line and lives on: read no further.
            while said.len() < READY.len() && stdout.read(&mut byte).is_ok_and(|n| n == 1) {
                said.push(byte[0]);
            }
        }
        if said == READY {
            Ok(watcher)
        } else {
            Err(failed("it ended at once".to_owned()))
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Is the watcher, if these arguments say so.
pub(in crate::run) fn serve(args: &[OsString]) -> Option<ExitStatus> {
    let [_, job, what] = args else { return None };
    let what = what.to_str()?;
    let done = match job.to_str()? {
        WATCHER => watch(what.parse().ok()?),
        LOGGERS => wait().and_then(|()| nflog::restore(what)),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitStatus::Done,
        Err(_) => ExitStatus::CannotTrace,
    })
}

/// Says that it watches, and waits for the run's end.
fn wait() -> io::Result<()> {
    stand_aside()?;
    let mut out = io::stdout();
    out.write_all(READY)?;
    out.flush()?;
    // An error of the pipe is its end, too.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    Ok(())
}

fn watch(run: Lifetime) -> io::Result<()> {
    wait()?;
    let Some(record) = Record::load(run)? else {
        return Ok(());
    };
    let mut removed = Removed::default();
    remove::recorded(&record, &remove::look(&Roots::default()), &mut removed);
    if removed.failed.is_empty() {
        Record::delete(run);
        return Ok(());
    }
    // The record stays for `srctrace cleanup`.
    Err(io::Error::other(removed.failed.join("; ")))
}

/// Leaves the session, so that Ctrl-C and a kill of the group do not reach it, and closes what it
/// inherited.
fn stand_aside() -> io::Result<()> {
    rustix::process::setsid()?;
    for signal in IGNORED {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: nothing in this process, which has just begun, owns a descriptor above 2.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    Ok(())
}
