//! The watcher: a process of its own that outlives the run by the blink in which it removes what
//! the run added. It holds a pipe; the pipe's end means that the run is over, however it ended.

use super::record::Record;
use super::remove::{self, Removed};
use crate::run::failure::Failure;
use crate::system::{Lifetime, Roots, own_program};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use tracer_core::expect::ExitStatus;

/// The hidden first argument by which a program knows that it is the watcher.
const WATCHER: &str = "__watcher";
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
pub(super) struct Watcher(Child);

impl Watcher {
    /// Starts it and waits until it watches.
    ///
    /// # Errors
    /// When it cannot be started or ends at once.
    pub(super) fn start(run: Lifetime) -> Result<Self, Failure> {
        let failed = |why: String| {
            Failure::CannotTrace(format!("--tap clsact: cannot start its watcher: {why}"))
        };
        let child = Command::new(own_program())
            .arg0("srctrace")
            .arg(WATCHER)
            .arg(run.to_string())
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
    let [_, first, run] = args else { return None };
    let run = run.to_str().filter(|_| first == WATCHER)?.parse().ok()?;
    Some(match watch(run) {
        Ok(()) => ExitStatus::Done,
        Err(_) => ExitStatus::CannotTrace,
    })
}

fn watch(run: Lifetime) -> io::Result<()> {
    stand_aside()?;
    let mut out = io::stdout();
    out.write_all(READY)?;
    out.flush()?;
    // An error of the pipe is its end, too.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
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
