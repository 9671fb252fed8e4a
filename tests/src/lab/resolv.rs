//! A process that gives a namespace the /etc/resolv.conf of a pod.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Lab;

/// A process in a namespace, with a mount namespace of its own in which /etc/resolv.conf is another file. It ends when this is
/// dropped.
#[derive(Debug)]
pub struct Resident(Child);

impl Resident {
    /// Starts it in namespace `ns`; `file` is there as /etc/resolv.conf when this returns.
    ///
    /// # Errors
    /// When the file cannot be mounted there.
    pub fn start(lab: &Lab, ns: &str, file: &str) -> Result<Self> {
        let script = "mount --bind \"$1\" /etc/resolv.conf; echo in; exec cat";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-ec", script, "sh", file])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let child = lab.in_ns(ns, || command.spawn())?;
        let mut resident = Self(child.context("start a process of the pod")?);
        let said = resident.0.stdout.take().context("its output")?;
        let mut line = String::new();
        BufReader::new(said)
            .read_line(&mut line)
            .context("hear it")?;
        ensure!(line == "in\n", "{file} was not mounted as /etc/resolv.conf");
        Ok(resident)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
