//! What srctrace is meant to cost at most, beside what was measured.

use std::fmt::Write as _;

use crate::merge::Joined;
use crate::observers::{Load, Observers};
use crate::programs::as_f64;
use crate::report::Performance;

const ARMED_MS: f64 = 500.0;
const RESIDENT_MB: f64 = 20.0;
const MERGING_MB: f64 = 200.0;
const EVENTS_PER_S: f64 = 1_000_000.0;

/// One goal.
struct Goal {
    what: String,
    wanted: String,
    measured: String,
    met: bool,
}

/// Writes a line for each goal that was measured.
pub(crate) fn write(text: &mut String, measured: &Performance) {
    let goals = goals(measured);
    if goals.is_empty() {
        return;
    }
    text.push_str("\n## Goals\n\n| | goal | measured | |\n|---|---|---|---|\n");
    for goal in goals {
        let Goal {
            what,
            wanted,
            measured,
            met,
        } = goal;
        let met = if met { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {what} | {wanted} | {measured} | {met} |");
    }
}

fn goals(measured: &Performance) -> Vec<Goal> {
    let mut goals = Vec::new();
    let rows = measured.throughput.iter().flat_map(|part| &part.ratios);
    for (row, goal) in rows.filter_map(|row| Some((row, row.goal?))) {
        goals.push(Goal {
            what: format!("TCP bulk beside {}", row.beside),
            wanted: format!("at least {:.0} % of untraced", 100.0 * goal),
            measured: format!("{:.1} %", 100.0 * row.ratio.median),
            met: row.ratio.median >= goal,
        });
    }
    if let Some(counts) = &measured.connections {
        let whole = counts.flows_seen == counts.client && counts.server == counts.client;
        goals.push(Goal {
            what: format!("{} new connections a second", counts.asked_per_s),
            wanted: "none lost, as many flows as the server's count".to_owned(),
            measured: format!(
                "{} events lost, {} of {} flows",
                counts.events_lost, counts.flows_seen, counts.server
            ),
            met: counts.events_lost == 0 && whole,
        });
    }
    if let Some(start) = &measured.pods {
        goals.push(at_most(
            "armed",
            start.pods,
            start.armed_ms.median,
            ARMED_MS,
            "ms",
        ));
        let armed = megabytes(start.resident_kib.median);
        goals.push(at_most(
            "resident when armed",
            start.pods,
            armed,
            RESIDENT_MB,
            "MB",
        ));
        let later = megabytes(as_f64(start.resident_with_flows_kib));
        let what = format!("resident after {} flows", start.flows);
        goals.push(at_most(&what, start.pods, later, RESIDENT_MB, "MB"));
    }
    let probed = measured.observers.iter().flat_map(of_probes);
    goals.extend(probed);
    goals.extend(measured.merge.iter().flatten().map(of_merging));
    for run in measured.core.iter().flatten() {
        goals.push(Goal {
            what: format!("decode, correlate, judge: {} events", run.events),
            wanted: "at least 1,000,000 events a second".to_owned(),
            measured: format!("{:.0}", run.events_per_s),
            met: run.events_per_s >= EVENTS_PER_S,
        });
    }
    goals
}

/// However large the capture is.
fn of_merging(size: &Joined) -> Goal {
    let resident = megabytes(as_f64(size.resident_kib));
    Goal {
        what: format!(
            "merging a capture of {} MiB ({})",
            size.capture_bytes >> 20,
            size.others.word()
        ),
        wanted: format!("at most {MERGING_MB:.0} MB resident"),
        measured: format!("{resident:.0} MB"),
        met: resident <= MERGING_MB,
    }
}

/// `auto` adds nothing to established flows, nor to packets that do not match: it runs once for a new flow.
fn of_probes(measured: &Observers) -> Vec<Goal> {
    let auto = measured.rows.iter().filter(|row| row.observer == "auto");
    let probed = auto.filter(|row| !row.programs.is_empty());
    let goal = |row: &crate::observers::Row| {
        let matches = if row.matching { "" } else { "do not " };
        let (runs, flows, packets) = (row.runs(), row.flows, row.packets);
        let (kind, wanted, measured, met) = match row.load {
            Load::Established => {
                let measured = format!("{runs} runs for {packets} packets");
                ("established flow, packets", "no run", measured, runs == 0)
            }
            Load::New => {
                let measured = format!("{runs} runs for {flows} flows");
                ("new flows", "at most one run each", measured, runs <= flows)
            }
        };
        Goal {
            what: format!("`auto`, {kind} {matches}match"),
            wanted: wanted.to_owned(),
            measured,
            met,
        }
    };
    probed.map(goal).collect()
}

fn at_most(what: &str, pods: u8, measured: f64, most: f64, unit: &str) -> Goal {
    Goal {
        what: format!("{what}, {pods} pods"),
        wanted: format!("at most {most:.0} {unit}"),
        measured: format!("{measured:.1} {unit}"),
        met: measured <= most,
    }
}

fn megabytes(kib: f64) -> f64 {
    kib * 1024.0 / 1e6
}
