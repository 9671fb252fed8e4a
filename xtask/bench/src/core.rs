//! Events through decode, correlate and judge: from the ring's bytes to reports, on one processor.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tracer_core::event::decode;
use tracer_core::inventory::Inventory;
use tracer_core::journey::Settings;
use tracer_core::report::{DeliveryCode, Flow, SourceCode};
use tracer_core::trace::Trace;

use crate::stats::Median;
use crate::synth;

/// Runs of each size; the median counts.
const REPEATS: usize = 5;
/// How often the program lets time go on, in turns of the trace (50 ms).
const TURNS_BETWEEN: u64 = 250;

/// One size.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) events: u64,
    pub(crate) flows: u64,
    /// Of processor time.
    pub(crate) seconds: f64,
    pub(crate) events_per_s: f64,
}

/// Measures ten thousand, a hundred thousand and a million events.
///
/// # Errors
/// When what comes out is not what went in.
pub(crate) fn measure(quick: bool) -> Result<Vec<Run>> {
    let sizes: &[u64] = if quick {
        &[10_000, 100_000]
    } else {
        &[10_000, 100_000, 1_000_000]
    };
    sizes.iter().map(|events| size(*events)).collect()
}

fn size(events: u64) -> Result<Run> {
    let connections = synth::connections(events);
    let mut seconds = Vec::new();
    let mut count = 0;
    for _ in 0..REPEATS {
        let (took, events) = run(connections)?;
        seconds.push(took.as_secs_f64());
        count = events;
    }
    let seconds = Median::of(&seconds).context("no runs")?.median;
    Ok(Run {
        events: count,
        flows: connections,
        seconds,
        events_per_s: crate::programs::as_f64(count) / seconds,
    })
}

/// One run: how much processor time the pure code took, and for how many events. Making the events is not counted.
fn run(connections: u64) -> Result<(Duration, u64)> {
    let inventory = synth::inventory();
    let mut trace = Trace::new(Settings::default(), 0);
    let (mut took, mut count, mut told) = (Duration::ZERO, 0, 0);
    let mut ring = Vec::new();
    let turns = synth::turns(connections);
    for turn in 0..turns {
        ring.extend(synth::turn(turn, connections));
        if turn % TURNS_BETWEEN != TURNS_BETWEEN - 1 && turn + 1 != turns {
            continue;
        }
        let begin = processor_time()?;
        let mut flows = take_in(&mut trace, &ring, &inventory)?;
        if turn + 1 == turns {
            let end_ns = ring.last().map_or(0, |event| event.time_ns);
            flows.extend(trace.finish(end_ns, &inventory));
        }
        took += processor_time()?.saturating_sub(begin);
        count += ring.len() as u64;
        told += check(&flows)?;
        ring.clear();
    }
    ensure!(
        told == connections,
        "{told} flows were told instead of {connections}"
    );
    Ok((took, count))
}

/// What this thread has used: what else runs on the machine does not count.
fn processor_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("processor time")?;
    Ok(time.into())
}

/// What the program does with a filled ring.
fn take_in(
    trace: &mut Trace,
    ring: &[tracer_common::RawEvent],
    inventory: &Inventory,
) -> Result<Vec<Flow>> {
    let mut flows = Vec::new();
    for raw in ring {
        let event = decode(raw.record())?;
        let now_ns = event.time_ns;
        if trace.push(event) {
            flows.extend(trace.advance(now_ns, inventory));
        }
    }
    if let Some(last) = ring.last() {
        flows.extend(trace.advance(last.time_ns, inventory));
    }
    Ok(flows)
}

/// Every flow must have been understood; how many there are.
fn check(flows: &[Flow]) -> Result<u64> {
    for flow in flows {
        ensure!(
            flow.verdict.source == SourceCode::SourceRewritten
                && flow.delivery.code == DeliveryCode::Completed,
            "a masqueraded, answered connection was judged otherwise: {flow:?}"
        );
    }
    Ok(flows.len() as u64)
}
