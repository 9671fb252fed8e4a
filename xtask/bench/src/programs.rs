//! What each program costs per packet, by the kernel's own accounts, times the packets of the untraced run.

use anyhow::{Result, ensure};
use serde::Serialize;
use srctrace_tests::lab::Lab;
use srctrace_tests::trace::Srctrace;

use crate::Effort;
use crate::bpf::{self, Account};
use crate::iperf::{self, Traffic};
use crate::lab::{self, NOBODY, PEER};

/// One kind of traffic under one filter.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) traffic: &'static str,
    /// Whether `--dest` is where the traffic goes; or that empty programs ran in place of srctrace's.
    pub(crate) matching: &'static str,
    pub(crate) programs: Vec<ProgramCost>,
    /// Nanoseconds of all programs together for each packet that the node forwards.
    pub(crate) ns_per_packet: f64,
    /// Packets that the node forwards a second when nothing is traced.
    pub(crate) untraced_packets_per_s: f64,
    /// What the two make of one processor.
    pub(crate) share_of_a_core: f64,
}

/// One program's part in it.
#[derive(Debug, Serialize)]
pub(crate) struct ProgramCost {
    pub(crate) name: String,
    /// Runs for each packet that the node forwards: it crosses several interfaces.
    pub(crate) runs_per_packet: f64,
    pub(crate) ns_per_run: f64,
    pub(crate) ns_per_packet: f64,
}

/// Measures all kinds.
///
/// # Errors
/// When the lab, the traffic or the program fails.
pub(crate) fn measure(effort: Effort) -> Result<Vec<Cost>> {
    let lab = lab::up("programs", 1)?;
    let mut costs = Vec::new();
    for traffic in [Traffic::Tcp, Traffic::SmallUdp] {
        let (packets, _) = sending(&lab, traffic, effort)?;
        let rate = packets / f64::from(effort.account_seconds);
        for matching in [true, false] {
            costs.push(traced(&lab, traffic, matching, rate, effort)?);
        }
        costs.push(floor(&lab, traffic, rate, effort)?);
    }
    Ok(costs)
}

/// Sends, and returns how many packets the node forwarded, and bits per second.
fn sending(lab: &Lab, traffic: Traffic, effort: Effort) -> Result<(f64, f64)> {
    let before = lab::forwarded(lab)?;
    let rate = iperf::send(lab, traffic, effort.account_seconds)?;
    Ok((as_f64(lab::forwarded(lab)? - before), rate))
}

/// With srctrace.
fn traced(
    lab: &Lab,
    traffic: Traffic,
    matching: bool,
    untraced: f64,
    effort: Effort,
) -> Result<Cost> {
    let dest = if matching { PEER } else { NOBODY };
    let trace = Srctrace::new(lab, &["--dest", dest])
        .whole_machine()
        .start()?;
    let name = if matching { "yes" } else { "no" };
    let cost = cost(lab, traffic, (name, trace.pid()), untraced, effort)?;
    trace.stop()?;
    Ok(cost)
}

/// With programs that do nothing, at the two tracepoints: less than this is not to be had.
fn floor(lab: &Lab, traffic: Traffic, untraced: f64, effort: Effort) -> Result<Cost> {
    let _base = bpf::base()?;
    let us = i32::try_from(std::process::id())?;
    cost(lab, traffic, ("empty programs", us), untraced, effort)
}

/// What the programs of a process cost while traffic flows.
fn cost(
    lab: &Lab,
    traffic: Traffic,
    (matching, pid): (&'static str, i32),
    untraced: f64,
    effort: Effort,
) -> Result<Cost> {
    let accounts = bpf::enable_accounts()?;
    let before = bpf::accounts(pid)?;
    let (packets, _) = sending(lab, traffic, effort)?;
    let after = bpf::accounts(pid)?;
    drop(accounts);
    let programs: Vec<ProgramCost> = after
        .iter()
        .filter_map(|after| since(&before, after, packets))
        .collect();
    ensure!(
        !programs.is_empty(),
        "none of srctrace's eBPF programs ran while traffic flowed"
    );
    let ns_per_packet = programs.iter().map(|program| program.ns_per_packet).sum();
    Ok(Cost {
        traffic: traffic.name(),
        matching,
        programs,
        ns_per_packet,
        untraced_packets_per_s: untraced,
        share_of_a_core: ns_per_packet * untraced / 1e9,
    })
}

/// What a program did since `before`; `None` when it did not run.
fn since(before: &[Account], after: &Account, packets: f64) -> Option<ProgramCost> {
    let old = before.iter().find(|account| account.id == after.id);
    let (old_ns, old_runs) = old.map_or((0, 0), |old| (old.nanoseconds, old.runs));
    let nanoseconds = as_f64(after.nanoseconds.saturating_sub(old_ns));
    let runs = as_f64(after.runs.saturating_sub(old_runs));
    (runs > 0.0).then(|| ProgramCost {
        name: after.name.clone(),
        runs_per_packet: runs / packets,
        ns_per_run: nanoseconds / runs,
        ns_per_packet: nanoseconds / packets,
    })
}

/// Counts of a run of seconds are exact in this.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}
