//! TCP throughput traced and with tcpdump, round by round in turn, each between two untraced transfers that it is
//! compared with: whatever else the machine does meanwhile happens to all of them.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde::Serialize;
use srctrace_tests::lab::Lab;
use srctrace_tests::trace::Srctrace;

use crate::Effort;
use crate::bpf;
use crate::iperf::{self, Running, Transfer};
use crate::lab::{self, NOBODY, PEER};
use crate::stats::Median;

/// What runs beside the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// srctrace, looking for other traffic.
    TraceElsewhere,
    /// srctrace, looking for this traffic.
    Trace,
    /// Programs that do nothing, where srctrace has its base: less is not to be had there.
    Empty,
    /// tcpdump of this traffic on every interface of the node, headers only, thrown away.
    Tcpdump,
}

impl Beside {
    const ALL: [Self; 4] = [
        Self::TraceElsewhere,
        Self::Trace,
        Self::Empty,
        Self::Tcpdump,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::TraceElsewhere => "srctrace, traffic does not match",
            Self::Trace => "srctrace, traffic matches",
            Self::Empty => "empty programs at the two tracepoints",
            Self::Tcpdump => "tcpdump -i any host PEER",
        }
    }
}

impl Beside {
    fn goal(self) -> Option<f64> {
        match self {
            Self::TraceElsewhere => Some(0.99),
            Self::Trace => Some(0.97),
            Self::Empty | Self::Tcpdump => None,
        }
    }
}

/// The comparison.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    pub(crate) seconds: u32,
    /// Gbit/s with nothing beside.
    pub(crate) untraced_gbits: Median,
    pub(crate) ratios: Vec<Ratio>,
}

/// How much is left with something beside, as a part of the untraced transfers before and after.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    /// How much is to be left, where there is a goal.
    #[serde(skip)]
    pub(crate) goal: Option<f64>,
    pub(crate) beside: &'static str,
    pub(crate) ratio: Median,
    /// The same of each transfer's first second, which is not in `ratio`.
    pub(crate) first_second: Median,
}

/// Measures all rounds.
///
/// # Errors
/// When the lab, the traffic or a program fails.
pub(crate) fn measure(effort: Effort) -> Result<Comparison> {
    let lab = lab::up("throughput", 1)?;
    let untraced = || iperf::transfer(&lab, effort.seconds);
    // One transfer that does not count: routes, neighbours and caches.
    untraced()?;
    let mut ratios: [[Vec<f64>; 2]; Beside::ALL.len()] = Default::default();
    let mut bare = vec![untraced()?];
    for round in 0..effort.rounds {
        for turn in 0..Beside::ALL.len() {
            let which = (round + turn) % Beside::ALL.len();
            let beside = transfer(&lab, Beside::ALL[which], effort)?;
            let (before, after) = (bare[bare.len() - 1], untraced()?);
            bare.push(after);
            let [later, first] = &mut ratios[which];
            later.push(beside.later / f64::midpoint(before.later, after.later));
            first.push(beside.first / f64::midpoint(before.first, after.first));
        }
        eprintln!("  round {} of {}", round + 1, effort.rounds);
    }
    let ratios = Beside::ALL
        .iter()
        .zip(&ratios)
        .map(|(beside, [later, first])| {
            Ok(Ratio {
                goal: beside.goal(),
                beside: beside.name(),
                ratio: Median::of(later).context("no rounds")?,
                first_second: Median::of(first).context("no rounds")?,
            })
        });
    let gbits: Vec<f64> = bare.iter().map(|one| one.later / 1e9).collect();
    Ok(Comparison {
        seconds: effort.seconds,
        untraced_gbits: Median::of(&gbits).context("no rounds")?,
        ratios: ratios.collect::<Result<_>>()?,
    })
}

/// One transfer with something beside it.
fn transfer(lab: &Lab, beside: Beside, effort: Effort) -> Result<Transfer> {
    let send = || iperf::transfer(lab, effort.seconds);
    let dest = match beside {
        Beside::Tcpdump => {
            let _capturing = tcpdump(lab)?;
            return send();
        }
        Beside::Empty => {
            let _base = bpf::base()?;
            return send();
        }
        Beside::Trace => PEER,
        Beside::TraceElsewhere => NOBODY,
    };
    let trace = Srctrace::new(lab, &["--dest", dest])
        .whole_machine()
        .start()?;
    let sent = send()?;
    trace.stop()?;
    Ok(sent)
}

fn tcpdump(lab: &Lab) -> Result<Running> {
    let mut command = Command::new("tcpdump");
    command
        .args([
            "-n",
            "-i",
            "any",
            "-s",
            "128",
            "-w",
            "/dev/null",
            "host",
            PEER,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Running::start(lab, "node", &mut command, "listening on")
}
