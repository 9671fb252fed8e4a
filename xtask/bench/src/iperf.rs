//! Bulk traffic from the pod to the peer.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use srctrace_tests::lab::Lab;

use crate::lab::PEER;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// One TCP connection, as fast as it goes, in large segments.
    Tcp,
    /// Datagrams of 64 bytes, as fast as they go.
    SmallUdp,
}

impl Traffic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP bulk",
            Self::SmallUdp => "UDP 64 bytes",
        }
    }
}

/// A child that is killed when it is no longer needed.
pub(crate) struct Running(Child);

impl Running {
    /// Starts `command` in a namespace and waits until a line of what it says contains `ready`.
    pub(crate) fn start(lab: &Lab, ns: &str, command: &mut Command, ready: &str) -> Result<Self> {
        let child = lab.in_ns(ns, || command.spawn())?;
        let mut child = child.with_context(|| format!("start {:?}", command.get_program()))?;
        let lines: Box<dyn std::io::Read + Send> = match (child.stdout.take(), child.stderr.take())
        {
            (Some(stdout), _) => Box::new(stdout),
            (None, Some(stderr)) => Box::new(stderr),
            (None, None) => bail!("{:?} has no output to wait for", command.get_program()),
        };
        let running = Self(child);
        let mut lines = BufReader::new(lines).lines();
        while let Some(line) = lines.next() {
            if line.context("read a child's output")?.contains(ready) {
                // Whatever else it says is read and forgotten, so that it never waits for us.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(running);
            }
        }
        bail!("{:?} ended without saying {ready:?}", command.get_program())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has gone by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An iperf3 server on the peer: one for each transfer, since one that just ended a transfer may still be busy with it.
fn server(lab: &Lab) -> Result<Running> {
    let mut command = Command::new("iperf3");
    command
        .args(["--server", "--bind", PEER, "--forceflush"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    Running::start(lab, "peer", &mut command, "listening")
}

/// Sends for so many seconds from the pod and returns what arrived, bits per second.
pub(crate) fn send(lab: &Lab, traffic: Traffic, seconds: u32) -> Result<f64> {
    let (kind, sum) = match traffic {
        Traffic::Tcp => ("", "/end/sum_received"),
        Traffic::SmallUdp => (" --udp --bitrate 0 --length 64", "/end/sum"),
    };
    let result = run(lab, &format!("--time {seconds}{kind}"))?;
    rate(&result, sum)
}

/// What one TCP connection carried, bits per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// In its first second: it starts slowly, and whoever looks at new flows does so then.
    pub(crate) first: f64,
    /// In all later ones.
    pub(crate) later: f64,
}

/// Sends for a second and so many more.
pub(crate) fn transfer(lab: &Lab, seconds: u32) -> Result<Transfer> {
    let result = run(lab, &format!("--time {seconds} --omit 1"))?;
    Ok(Transfer {
        first: rate(&result, "/intervals/0/sum")?,
        later: rate(&result, "/end/sum_received")?,
    })
}

fn run(lab: &Lab, what: &str) -> Result<Value> {
    let _server = server(lab)?;
    let text = lab.run("pod", &format!("iperf3 --client {PEER} --json {what}"))?;
    serde_json::from_str(&text).context("read iperf3's result")
}

fn rate(result: &Value, sum: &str) -> Result<f64> {
    let rate = result
        .pointer(sum)
        .and_then(|sum| sum["bits_per_second"].as_f64());
    rate.with_context(|| format!("iperf3's result has no rate: {}", result["error"]))
}
