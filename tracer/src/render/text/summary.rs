//! The last lines of a run.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::words::count;
use tracer_core::report::{ExpectLine, ObservedBy, Summary, Unavailable};

/// What a run saw in all: counts, what was lost, expectations, what could not be observed.
#[must_use]
pub fn summary(summary: &Summary, look: Look) -> String {
    let mut text = format!("{}\n", counts(summary, look));
    for expect in &summary.expect {
        text.push_str(&expected(expect, look));
    }
    if look.verbose > 0 {
        let line = format!("observed by {}", observed(&summary.observed_by));
        text.push_str(&format!("{}\n", look.paint(Role::Faint, &line)));
    }
    for missing in &summary.observed_by.unavailable {
        text.push_str(&unavailable(missing, look));
    }
    text
}

fn counts(summary: &Summary, look: Look) -> String {
    let time = format!("in {:.1} s", summary.duration_s);
    let flows = &summary.flows;
    let seen = if flows.seen == 0 {
        look.paint(Role::Odd, "no matching flow")
    } else {
        let reported = match (flows.reported == flows.seen, flows.groups) {
            (true, 0) => String::new(),
            (true, n) => format!(" in {}", count(n, "group")),
            (false, _) => format!(", {} reported", flows.reported),
        };
        format!("{}{reported}", count(flows.seen, "flow"))
    };
    let lost = match summary.events.lost {
        0 => "none lost".to_owned(),
        n => look.paint(Role::Bad, &format!("{n} LOST: the report is not certain")),
    };
    let events = count(summary.events.received, "event");
    format!("{seen} {time} · {events}, {lost}")
}

fn expected(line: &ExpectLine, look: Look) -> String {
    let (word, role) = match line.held {
        Some(true) => ("holds", Role::Good),
        Some(false) => ("VIOLATED", Role::Bad),
        None => ("not judged", Role::Odd),
    };
    let flows = match line.held {
        Some(true) => format!("for {}", count(line.flows, "flow")),
        Some(false) => format!("by {} of {}", line.violations, count(line.flows, "flow")),
        None => "for want of a flow".to_owned(),
    };
    let skipped = match line.skipped {
        0 => String::new(),
        n => format!("; {} older than the trace, skipped", count(n, "flow")),
    };
    let what = escape(&line.expect);
    format!(
        "expect {what}: {} {flows}{skipped}\n",
        look.paint(role, word)
    )
}

fn observed(by: &ObservedBy) -> String {
    let all = [
        ("tracepoint", by.tracepoint),
        ("tcx link", by.tcx),
        ("clsact filter", by.clsact),
        ("kprobe", by.kprobe),
        ("nftrace table", by.nftrace),
    ];
    let used: Vec<String> = all
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(what, n)| count(n.into(), what))
        .collect();
    if used.is_empty() {
        return "nothing".to_owned();
    }
    used.join(", ")
}

fn unavailable(missing: &Unavailable, look: Look) -> String {
    format!(
        "{} {}: {}; {}\n",
        look.paint(Role::Odd, "not observed:"),
        name(&missing.what),
        escape(&missing.why),
        escape(&missing.effect)
    )
}
