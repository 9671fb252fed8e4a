//! The summaries of recordings told again.

use tracer_core::group::Groups;
use tracer_core::recording::Replay;
use tracer_core::report::{Events, Flows, ObservedBy, PointSum, SCHEMA, Summary, Unavailable};

/// The run's own summary, with what was told of it anew.
pub(super) fn alone(replay: &Replay) -> Summary {
    let trace = replay.trace();
    Summary {
        flows: trace.flows(),
        groups: trace.groups().summary(),
        points: trace.point_sums().to_vec(),
        expect: trace.checks().lines(),
        ..own(replay)
    }
}

/// That of the run; of one that was killed, what is known of it.
fn own(replay: &Replay) -> Summary {
    if let Some(summary) = replay.summary() {
        return summary.clone();
    }
    let header = replay.header();
    let (received, lost) = replay.events();
    let lasted = replay.now_ns().saturating_sub(header.clock.monotonic_ns);
    Summary {
        schema: SCHEMA,
        version: header.version.clone(),
        kernel: header.kernel.clone(),
        host: header.host.clone(),
        started: header.started.clone(),
        duration_s: (lasted / 1_000_000) as f64 / 1000.0,
        observed_by: ObservedBy::default(),
        flows: replay.trace().flows(),
        events: Events { received, lost },
        groups: Vec::new(),
        points: Vec::new(),
        expect: Vec::new(),
    }
}

/// Of several together.
pub(super) fn together<'a>(
    replays: impl Iterator<Item = &'a Replay>,
    groups: &Groups,
    points: Vec<PointSum>,
    (reported, passed_over): (u64, u64),
) -> Summary {
    let own: Vec<Summary> = replays.map(own).collect();
    let sum = |count: fn(&Summary) -> u64| own.iter().map(count).sum();
    let groups = groups.summary();
    Summary {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: words(&own, |s| &s.kernel),
        host: words(&own, |s| &s.host),
        started: own
            .iter()
            .map(|s| s.started.clone())
            .min()
            .unwrap_or_default(),
        duration_s: own.iter().map(|s| s.duration_s).fold(0.0, f64::max),
        observed_by: observed_by(&own),
        flows: Flows {
            seen: reported,
            reported,
            left_out: sum(|s| s.flows.left_out) + passed_over,
            groups: groups.len() as u64,
        },
        events: Events {
            received: sum(|s| s.events.received),
            lost: sum(|s| s.events.lost),
        },
        groups,
        points,
        expect: Vec::new(),
    }
}

/// Each different one once, in the order of the files.
fn words(own: &[Summary], of: impl Fn(&Summary) -> &String) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in own.iter().map(|summary| of(summary).as_str()) {
        // A capture does not tell its kernel.
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(" + ")
}

fn observed_by(own: &[Summary]) -> ObservedBy {
    let mut all = ObservedBy::default();
    for Summary {
        host, observed_by, ..
    } in own
    {
        all.tracepoint += observed_by.tracepoint;
        all.tcx += observed_by.tcx;
        all.clsact += observed_by.clsact;
        all.kprobe += observed_by.kprobe;
        all.nftrace += observed_by.nftrace;
        let lacking = observed_by.unavailable.iter().map(|one| Unavailable {
            what: format!("{host}: {}", one.what),
            ..one.clone()
        });
        all.unavailable.extend(lacking);
    }
    all
}
