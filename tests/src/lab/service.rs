//! Programs from elsewhere that run in a lab's namespace until they are dropped: proxies and the like.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::Lab;

/// How long a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs, with all that it starts.
#[derive(Debug)]
pub struct Service {
    child: Child,
}

impl Service {
    /// Starts a command line (split at spaces) in namespace `ns` and waits until something there listens at `listen`
    /// (`10.100.0.5:8443`, as `ss` prints it).
    ///
    /// # Errors
    /// When the program is missing, or ends or does not listen in time; the message has what it said.
    pub fn start(lab: &Lab, ns: &str, line: &str, listen: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let program = words.next().context("an empty command")?;
        let mut command = Command::new(program);
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = lab
            .in_ns(ns, || command.spawn())?
            .with_context(|| format!("start {program}"))?;
        let mut service = Self { child };
        let begun = Instant::now();
        while !lab.run(ns, "ss -Htnl")?.contains(listen) {
            let ended = service.child.try_wait().context("wait for it")?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                bail!(
                    "`{line}` does not listen at {listen} ({ended:?}): {}",
                    service.last_words()
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(service)
    }
}

impl Service {
    fn kill(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }

    /// What it said before it was ended.
    fn last_words(&mut self) -> String {
        self.kill();
        let mut text = String::new();
        if let Some(mut said) = self.child.stderr.take() {
            // Only for a message: what cannot be read is not told.
            let _ = said.read_to_string(&mut text);
        }
        text
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}
