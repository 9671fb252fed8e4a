//! TCP throughput untraced, traced and with tcpdump, round by round in turn: whatever else the machine does meanwhile
//! happens to all of them.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde::Serialize;
use srctrace_tests::lab::Lab;
use srctrace_tests::trace::Srctrace;

use crate::Effort;
use crate::iperf::{self, Running, Traffic};
use crate::lab::{self, NOBODY, PEER};
use crate::stats::Median;

/// What runs beside the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// srctrace, looking for other traffic.
    TraceElsewhere,
    /// srctrace, looking for this traffic.
    Trace,
    /// tcpdump of this traffic on every interface of the node, headers only, thrown away.
    Tcpdump,
}

impl Beside {
    const ALL: [Self; 4] = [
        Self::Nothing,
        Self::TraceElsewhere,
        Self::Trace,
        Self::Tcpdump,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "untraced",
            Self::TraceElsewhere => "srctrace, traffic does not match",
            Self::Trace => "srctrace, traffic matches",
            Self::Tcpdump => "tcpdump -i any host PEER",
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

/// How much is left with something beside, as a part of the same round's untraced run.
#[derive(Debug, Serialize)]
pub(crate) struct Ratio {
    pub(crate) beside: &'static str,
    pub(crate) ratio: Median,
}

/// Measures all rounds.
///
/// # Errors
/// When the lab, the traffic or a program fails.
pub(crate) fn measure(effort: Effort) -> Result<Comparison> {
    let lab = lab::up("throughput", 1)?;
    // One transfer that does not count: routes, neighbours and caches.
    iperf::send(&lab, Traffic::Tcp, 1)?;
    let mut rates: [Vec<f64>; 4] = Default::default();
    for round in 0..effort.rounds {
        for turn in 0..Beside::ALL.len() {
            let which = (round + turn) % Beside::ALL.len();
            rates[which].push(transfer(&lab, Beside::ALL[which], effort)?);
        }
        eprintln!("  round {} of {}", round + 1, effort.rounds);
    }
    summarise(&rates, effort.seconds)
}

fn summarise(rates: &[Vec<f64>; 4], seconds: u32) -> Result<Comparison> {
    let untraced = &rates[0];
    let gbits: Vec<f64> = untraced.iter().map(|rate| rate / 1e9).collect();
    let mut ratios = Vec::new();
    for (beside, rates) in Beside::ALL.iter().zip(rates).skip(1) {
        let of_round: Vec<f64> = rates
            .iter()
            .zip(untraced)
            .map(|(one, all)| one / all)
            .collect();
        ratios.push(Ratio {
            beside: beside.name(),
            ratio: Median::of(&of_round).context("no rounds")?,
        });
    }
    Ok(Comparison {
        seconds,
        untraced_gbits: Median::of(&gbits).context("no rounds")?,
        ratios,
    })
}

/// One transfer with something beside it, bits per second.
fn transfer(lab: &Lab, beside: Beside, effort: Effort) -> Result<f64> {
    let send = || iperf::send(lab, Traffic::Tcp, effort.seconds);
    let dest = match beside {
        Beside::Nothing => return send(),
        Beside::Tcpdump => {
            let _capturing = tcpdump(lab)?;
            return send();
        }
        Beside::Trace => PEER,
        Beside::TraceElsewhere => NOBODY,
    };
    let trace = Srctrace::new(lab, &["--dest", dest])
        .whole_machine()
        .start()?;
    let rate = send()?;
    trace.stop()?;
    Ok(rate)
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
