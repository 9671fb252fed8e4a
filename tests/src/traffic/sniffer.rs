//! Real capture programs in a lab's namespace.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::lab::Lab;

/// What shows in a file that the program captures: datagrams with this payload, to the discard port.
const MARK: &str = "srctrace-mark-";
/// Their own port, so that all of them are one flow.
const MARK_PORT: u16 = 9009;
/// Until a mark must be in the file.
const PATIENCE: Duration = Duration::from_secs(30);
/// After this time it is sent again: the program may not have been ready.
const AGAIN: Duration = Duration::from_millis(300);

/// A capture that runs.
#[derive(Debug)]
pub struct Sniffer<'lab> {
    lab: &'lab Lab,
    ns: String,
    file: String,
    marked: String,
    program: Child,
}

impl<'lab> Sniffer<'lab> {
    /// Starts `tcpdump ARGS -w FILE` in a namespace. Returns when a datagram that was sent there to `marked` (an
    /// address that answers nothing) is in the file: whatever comes after it is captured.
    ///
    /// # Errors
    /// When the program cannot be started or captures nothing.
    pub fn tcpdump(
        lab: &'lab Lab,
        ns: &str,
        args: &str,
        (file, marked): (&str, &str),
    ) -> Result<Self> {
        // A ring of many packets: with the snap length that is usual, the usual one holds eight.
        let own = [
            "-n",
            "-U",
            "--immediate-mode",
            "-B",
            "32768",
            "-Z",
            "root",
            "-w",
            file,
        ];
        let mut command = Command::new("tcpdump");
        command.args(own).args(args.split_whitespace());
        Self::start(lab, ns, command, (file, marked))
    }

    /// As [`Sniffer::tcpdump`], `dumpcap ARGS -w FILE`: it writes pcapng.
    ///
    /// # Errors
    /// When the program cannot be started or captures nothing.
    pub fn dumpcap(
        lab: &'lab Lab,
        ns: &str,
        args: &str,
        (file, marked): (&str, &str),
    ) -> Result<Self> {
        let mut command = Command::new("dumpcap");
        command
            .args(["-q", "-w", file])
            .args(args.split_whitespace());
        Self::start(lab, ns, command, (file, marked))
    }

    fn start(
        lab: &'lab Lab,
        ns: &str,
        mut command: Command,
        (file, marked): (&str, &str),
    ) -> Result<Self> {
        let log = File::create(format!("{file}.log")).context("a file for the program's words")?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let program = lab
            .in_ns(ns, || command.spawn())?
            .with_context(|| format!("start {command:?}"))?;
        let mut sniffer = Self {
            lab,
            ns: ns.to_owned(),
            file: file.to_owned(),
            marked: marked.to_owned(),
            program,
        };
        sniffer.mark("begin")?;
        Ok(sniffer)
    }

    /// Ends it when all that was sent so far is in the file.
    ///
    /// # Errors
    /// When the program captures nothing any more or does not end well.
    pub fn stop(mut self) -> Result<()> {
        self.mark("end")?;
        let pid = i32::try_from(self.program.id()).context("a process id")?;
        kill(Pid::from_raw(pid), Signal::SIGINT).context("stop the capture")?;
        let status = self.program.wait().context("wait for the capture's end")?;
        if !status.success() {
            bail!("the capture ended with {status}: {}", self.words());
        }
        Ok(())
    }

    /// Sends a datagram until it is in the file.
    fn mark(&mut self, what: &str) -> Result<()> {
        let mark = format!("{MARK}{what}");
        let began = Instant::now();
        let mut sent: Option<Instant> = None;
        while !self.holds(&mark) {
            if let Some(status) = self.program.try_wait()? {
                bail!("the capture ended with {status}: {}", self.words());
            }
            if began.elapsed() > PATIENCE {
                bail!("the capture of {} shows nothing: {}", self.ns, self.words());
            }
            if sent.is_none_or(|at| at.elapsed() > AGAIN) {
                self.send(&mark)?;
                sent = Some(Instant::now());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn holds(&self, mark: &str) -> bool {
        let bytes = fs::read(&self.file).unwrap_or_default();
        bytes
            .windows(mark.len())
            .any(|part| part == mark.as_bytes())
    }

    fn send(&self, mark: &str) -> Result<()> {
        let send = || -> std::io::Result<usize> {
            let socket = UdpSocket::bind(("0.0.0.0", MARK_PORT))?;
            socket.send_to(mark.as_bytes(), (self.marked.as_str(), 9))
        };
        let sent = self.lab.in_ns(&self.ns, send)?;
        sent.map(drop)
            .with_context(|| format!("send a datagram from {} to {}", self.ns, self.marked))
    }

    fn words(&self) -> String {
        fs::read_to_string(format!("{}.log", self.file)).unwrap_or_default()
    }
}

impl Drop for Sniffer<'_> {
    fn drop(&mut self) {
        // Already gone after `stop`.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
