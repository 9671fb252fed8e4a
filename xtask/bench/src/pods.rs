//! How long it takes to be armed, and how much memory that needs, on a node with many pods.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::Serialize;
use srctrace_tests::trace::Srctrace;

use crate::Effort;
use crate::lab::{self, PEER};
use crate::load;
use crate::process;
use crate::stats::Median;

/// Flows that are followed when the memory is looked at once more.
const FLOWS: u64 = 1000;

/// What was found.
#[derive(Debug, Serialize)]
pub(crate) struct Start {
    pub(crate) pods: u8,
    /// From starting the process until it says that it is armed.
    pub(crate) armed_ms: Median,
    /// Resident memory of srctrace and its helper, armed.
    pub(crate) resident_kib: Median,
    pub(crate) flows: u64,
    /// The same with so many flows followed.
    pub(crate) resident_with_flows_kib: u64,
}

/// Measures.
///
/// # Errors
/// When the lab or the program fails.
pub(crate) fn measure(effort: Effort) -> Result<Start> {
    let lab = lab::up("pods", effort.pods)?;
    let server = load::Server::start(&lab)?;
    let (mut armed, mut resident) = (Vec::new(), Vec::new());
    let mut with_flows = None;
    for start in 1..=effort.starts {
        let begin = Instant::now();
        let trace = Srctrace::new(&lab, &["--dest", PEER])
            .whole_machine()
            .start()?;
        armed.push(begin.elapsed().as_secs_f64() * 1000.0);
        resident.push(crate::programs::as_f64(process::resident_kib(trace.pid())?));
        if start == effort.starts {
            load::connect(&lab, FLOWS, 1000, &AtomicU64::new(0))?;
            with_flows = Some(process::resident_kib(trace.pid())?);
        }
        trace.stop()?;
    }
    server.stop();
    Ok(Start {
        pods: effort.pods,
        armed_ms: Median::of(&armed).context("no starts")?,
        resident_kib: Median::of(&resident).context("no starts")?,
        flows: FLOWS,
        resident_with_flows_kib: with_flows.context("no starts")?,
    })
}
