//! New connections that all match, at 5,000 a second or another rate: is every one seen, and what does it cost?

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use srctrace_tests::lab::Lab;
use srctrace_tests::trace::{Srctrace, Trace};

use crate::Effort;
use crate::lab::{self, PEER};
use crate::load::{self, Sent};
use crate::process;

const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// Who counted how many.
#[derive(Debug, Serialize)]
pub(crate) struct Counts {
    pub(crate) asked_per_s: u32,
    /// Connections that the clients opened, asked on and closed, a second.
    pub(crate) reached_per_s: f64,
    /// The clients' count.
    pub(crate) client: u64,
    pub(crate) client_failed: u64,
    /// The server's own count.
    pub(crate) server: u64,
    /// Flows that srctrace saw and reported.
    pub(crate) flows_seen: u64,
    pub(crate) flows_reported: u64,
    /// Events that the kernel half told, and that it had no room for.
    pub(crate) events_received: u64,
    pub(crate) events_lost: u64,
    /// Processor time of srctrace, as a part of one processor.
    pub(crate) share_of_a_core: f64,
    /// Resident memory while it ran.
    pub(crate) memory: Vec<Memory>,
}

/// Resident memory of srctrace and its helper at a moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Memory {
    /// Connections so far.
    pub(crate) connections: u64,
    pub(crate) resident_kib: u64,
}

/// Measures.
///
/// # Errors
/// When the lab, the traffic or the program fails.
pub(crate) fn measure(effort: Effort) -> Result<Counts> {
    let lab = lab::up("connections", 1)?;
    make_room(&lab)?;
    let server = load::Server::start(&lab)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--group"])
        .whole_machine()
        .start()?;
    let total = u64::from(effort.rate) * u64::from(effort.connection_seconds);
    let (sent, memory) = connect_and_watch(&lab, &trace, total, effort.rate)?;
    let cpu_ms = process::cpu_ms(trace.pid())?;
    let summary = trace.stop()?.summary()?;
    let seconds = sent.took.as_secs_f64();
    Ok(Counts {
        asked_per_s: effort.rate,
        reached_per_s: crate::programs::as_f64(sent.connections) / seconds,
        client: sent.connections,
        client_failed: sent.failed,
        server: server.stop(),
        flows_seen: number(&summary, "/flows/seen")?,
        flows_reported: number(&summary, "/flows/reported")?,
        events_received: number(&summary, "/events/received")?,
        events_lost: number(&summary, "/events/lost")?,
        share_of_a_core: crate::programs::as_f64(cpu_ms) / 1000.0 / seconds,
        memory,
    })
}

/// Ports and table entries for that many connections that were closed a moment ago.
pub(crate) fn make_room(lab: &Lab) -> Result<()> {
    lab.sysctl("pod", "ipv4/ip_local_port_range", "1024 65535")?;
    lab.sysctl("node", "netfilter/nf_conntrack_tcp_timeout_time_wait", "5")
}

/// Connects, and samples the program's memory meanwhile.
fn connect_and_watch(
    lab: &Lab,
    trace: &Trace,
    total: u64,
    rate: u32,
) -> Result<(Sent, Vec<Memory>)> {
    let (progress, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let pid = trace.pid();
    let sample = || -> Result<Memory> {
        Ok(Memory {
            connections: progress.load(Ordering::Relaxed),
            resident_kib: process::resident_kib(pid)?,
        })
    };
    let mut memory = vec![sample()?];
    let sent = thread::scope(|scope| -> Result<Sent> {
        let watching = scope.spawn(|| {
            let mut memory = Vec::new();
            while !done.load(Ordering::Relaxed) {
                thread::sleep(SAMPLE_EVERY);
                memory.push(sample());
            }
            memory.into_iter().collect::<Result<Vec<_>>>()
        });
        let sent = load::connect(lab, total, rate, &progress);
        done.store(true, Ordering::Relaxed);
        let watched = watching
            .join()
            .ok()
            .context("the sampling thread panicked")??;
        memory.extend(watched);
        sent
    })?;
    Ok((sent, memory))
}

fn number(summary: &Value, path: &str) -> Result<u64> {
    let value = summary.pointer(path).and_then(Value::as_u64);
    value.with_context(|| format!("the summary has no number at {path}: {summary}"))
}
