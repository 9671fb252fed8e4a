//! What each way of `--observe-rules` costs: how often the programs run that it adds, on packets of a flow that has been
//! open for a while and on new flows, and what is left of their rate.
//!
//! Run counts are exact, on an emulated machine too: so this part is also run in a virtual machine, where this machine's
//! kernel has no kprobes to put the programs on.

mod held;
mod table;
mod tally;

use std::path::Path;
use std::sync::atomic::AtomicU64;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use srctrace_tests::lab::Lab;
use srctrace_tests::trace::Srctrace;

use crate::Effort;
use crate::bpf::{self, Account};
use crate::lab::{self, NOBODY, PEER};
use crate::load;
use crate::programs::as_f64;
use crate::stats::Median;
use held::Held;
pub(crate) use table::write;
use tally::tabulate;

/// The values of `--observe-rules`; the first is what the others are compared with.
const OBSERVERS: [&str; 4] = ["none", "auto", "nftrace", "full"];
/// Those that need kprobes for what they are measured for.
const PROBING: [&str; 2] = ["auto", "full"];
/// What a kernel without them is told.
pub(crate) const NO_KPROBES: &str = "no kprobes";

/// All that was measured on one kernel.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Observers {
    pub(crate) kernel: String,
    pub(crate) rows: Vec<Row>,
    /// Observers, or their parts, that were not measured here, and why.
    pub(crate) absent: Vec<(String, String)>,
}

/// One observer beside one kind of traffic.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) observer: String,
    /// Packets of a flow that was there before, or new flows.
    pub(crate) load: Load,
    /// Whether `--dest` is where the traffic goes.
    pub(crate) matching: bool,
    /// Packets that the node forwarded, in all rounds.
    pub(crate) packets: u64,
    /// Flows that began, in all rounds.
    pub(crate) flows: u64,
    /// Programs that run with this observer and not with `none`.
    pub(crate) programs: Vec<Probe>,
    /// What was left of the rate of the round with `none`: of bytes, or of new flows.
    pub(crate) left: Option<Median>,
}

/// What a program of an observer did, in all rounds.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) runs: u64,
    pub(crate) nanoseconds: u64,
}

/// The two kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// One TCP connection that is open before anything is counted, as fast as it goes.
    Established,
    /// TCP connections one after the other, as fast as they go.
    New,
}

/// What happened beside one observer in one round.
struct Sample {
    packets: u64,
    flows: u64,
    /// Bytes or flows a second.
    rate: f64,
    programs: Vec<Probe>,
}

impl Row {
    /// Runs of all programs that the observer adds.
    pub(crate) fn runs(&self) -> u64 {
        self.programs.iter().map(|program| program.runs).sum()
    }

    /// Nanoseconds in them.
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.programs
            .iter()
            .map(|program| program.nanoseconds)
            .sum()
    }
}

/// Measures all of them.
///
/// # Errors
/// When the lab or the traffic fails, or srctrace without any observer.
pub(crate) fn measure(effort: Effort, kernel: &str) -> Result<Observers> {
    let lab = lab::up("observers", 1)?;
    crate::connections::make_room(&lab)?;
    let (wanted, mut absent) = wanted(has_kprobes());
    let mut rows = Vec::new();
    for matching in [true, false] {
        let mut samples: Vec<Vec<[Sample; 2]>> = wanted.iter().map(|_| Vec::new()).collect();
        for round in 0..effort.observer_rounds {
            eprintln!("  round {} of {}", round + 1, effort.observer_rounds);
            for (observer, samples) in wanted.iter().zip(&mut samples) {
                match beside(&lab, observer, matching, effort) {
                    Ok(sample) => samples.push(sample),
                    Err(error) if *observer == OBSERVERS[0] => return Err(error),
                    Err(error) => note(&mut absent, observer, &error),
                }
            }
        }
        rows.extend(tabulate(&wanted, &samples, matching));
    }
    Ok(Observers {
        kernel: kernel.to_owned(),
        rows,
        absent,
    })
}

/// Whether programs can be put on kernel functions here.
pub(crate) fn has_kprobes() -> bool {
    Path::new("/sys/bus/event_source/devices/kprobe").exists()
}

/// What is measured, and what is not and why. Without kprobes `auto` still runs, and replays.
fn wanted(kprobes: bool) -> (Vec<&'static str>, Vec<(String, String)>) {
    let runs = |observer: &&str| kprobes || **observer == *"auto" || !PROBING.contains(observer);
    let wanted = OBSERVERS.iter().filter(|o| runs(o)).copied().collect();
    let lacks = PROBING.iter().filter(|_| !kprobes);
    let absent = lacks.map(|observer| {
        let what = format!("programs of `{observer}`");
        (what, NO_KPROBES.to_owned())
    });
    (wanted, absent.collect())
}

/// An observer that could not be had: once is enough.
fn note(absent: &mut Vec<(String, String)>, observer: &str, error: &anyhow::Error) {
    let what = format!("`{observer}`");
    if absent.iter().all(|(known, _)| *known != what) {
        let why = format!("{error:#}");
        absent.push((what, why.lines().next().unwrap_or_default().to_owned()));
    }
}

/// Both kinds of traffic beside srctrace with one observer.
fn beside(lab: &Lab, observer: &str, matching: bool, effort: Effort) -> Result<[Sample; 2]> {
    let dest = if matching { PEER } else { NOBODY };
    let args = ["--dest", dest, "--group", "--observe-rules", observer];
    let trace = Srctrace::new(lab, &args).whole_machine().start()?;
    let samples = [
        established(lab, trace.pid(), effort)?,
        new(lab, trace.pid(), effort)?,
    ];
    trace.stop()?;
    Ok(samples)
}

fn established(lab: &Lab, pid: i32, effort: Effort) -> Result<Sample> {
    let mut held = Held::open(lab)?;
    let sample = counted(lab, pid, || Ok((0, held.send(effort.seconds)?)))?;
    held.close()?;
    Ok(sample)
}

fn new(lab: &Lab, pid: i32, effort: Effort) -> Result<Sample> {
    let server = load::Server::start(lab)?;
    let sample = counted(lab, pid, || {
        let counter = AtomicU64::new(0);
        let sent = load::connect(lab, effort.observer_flows, u32::MAX, &counter)?;
        let rate = as_f64(sent.connections) / sent.took.as_secs_f64();
        Ok((sent.connections + sent.failed, rate))
    })?;
    server.stop();
    Ok(sample)
}

/// What the node and all programs of a process did during `traffic`, which gives the flows that it began and its rate.
fn counted(lab: &Lab, pid: i32, traffic: impl FnOnce() -> Result<(u64, f64)>) -> Result<Sample> {
    let accounts = bpf::enable_accounts()?;
    let (packets, before) = (lab::forwarded(lab)?, bpf::accounts(pid)?);
    let (flows, rate) = traffic()?;
    let (after, packets) = (bpf::accounts(pid)?, lab::forwarded(lab)? - packets);
    drop(accounts);
    Ok(Sample {
        packets,
        flows,
        rate,
        programs: after.iter().map(|after| since(&before, after)).collect(),
    })
}

fn since(before: &[Account], after: &Account) -> Probe {
    let old = before.iter().find(|account| account.id == after.id);
    Probe {
        name: after.name.clone(),
        runs: after.runs - old.map_or(0, |old| old.runs),
        nanoseconds: after.nanoseconds - old.map_or(0, |old| old.nanoseconds),
    }
}

/// What the same part found elsewhere: a whole file of [`crate::report::Performance`].
///
/// # Errors
/// When the file cannot be read or has no such part.
pub(crate) fn read(path: &Path) -> Result<Vec<Observers>> {
    #[derive(Deserialize)]
    struct Elsewhere {
        observers: Vec<Observers>,
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let elsewhere: Elsewhere = serde_json::from_str(&text)
        .with_context(|| format!("{} has no rule observers", path.display()))?;
    Ok(elsewhere.observers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_kprobes_it_is_said_what_is_not_measured() {
        let (wanted, absent) = wanted(false);
        assert_eq!(wanted, ["none", "auto", "nftrace"]);
        assert_eq!(absent.len(), PROBING.len());
        assert_eq!(super::wanted(true), (OBSERVERS.to_vec(), Vec::new()));
    }
}
