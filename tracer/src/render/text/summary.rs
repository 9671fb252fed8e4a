//! The last lines of a run.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::points;
use super::words::count;
use tracer_core::report::{ExpectLine, Flows, ObservedBy, Summary, Unavailable};

/// What a run saw in all: counts, what was lost, expectations, what could not be observed.
#[must_use]
pub fn summary(summary: &Summary, look: Look) -> String {
    let mut text = format!("{}\n", look.wrap(&counts(summary, look)));
    text.push_str(&left_out(&summary.flows));
    text.push_str(&points::counts(&summary.points, look));
    // Of a contract each entry has a line of its own.
    let own = |line: &&ExpectLine| !line.is_of_a_contract();
    for expect in summary.expect.iter().filter(own) {
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
        format!("{}{}", count(flows.seen, "flow"), reported(flows))
    };
    let lost = match summary.events.lost {
        0 => "none lost".to_owned(),
        n => look.paint(Role::Bad, &format!("{n} LOST: the report is not certain")),
    };
    let events = count(summary.events.received, "event");
    format!("{seen} {time} · {events}, {lost}")
}

/// How many of the flows were told, where it is not simply all.
fn reported(flows: &Flows) -> String {
    match (flows.reported == flows.seen, flows.groups) {
        (true, 0) => String::new(),
        (true, _) if flows.seen == 1 => String::new(),
        (true, n) => format!(" in {}", count(n, "group")),
        (false, _) => format!(", {} reported", flows.reported),
    }
}

/// Why flows were seen and not told.
fn left_out(flows: &Flows) -> String {
    match flows.left_out {
        0 => String::new(),
        1 => "1 flow left out: it does not match --pod, --netns or -i\n".to_owned(),
        n => format!("{n} flows left out: they do not match --pod, --netns or -i\n"),
    }
}

fn expected(line: &ExpectLine, look: Look) -> String {
    let flows = |n| count(n, "flow");
    let (role, word, about) = match line.held {
        Some(true) => (Role::Good, "holds", format!("for {}", flows(line.flows))),
        Some(false) => (
            Role::Bad,
            "VIOLATED",
            format!("by {} of {}", line.violations, flows(line.flows)),
        ),
        None if line.uncertain > 0 => (Role::Odd, "cannot be told", held_so_far(line)),
        None => (Role::Odd, "not judged", nothing_to_judge(line).into()),
    };
    let uncertain = match line.uncertain {
        0 => String::new(),
        n => format!("; too little was seen of {} to judge", flows(n)),
    };
    let skipped = match line.skipped {
        0 => String::new(),
        n => format!("; {} older than the trace, skipped", flows(n)),
    };
    let by = match line.by.as_slice() {
        [] => String::new(),
        rules => format!("; by {}", escape(&rules.join(", "))),
    };
    let silence = match line.uncertain {
        1.. if line.expect.starts_with("denied=") => "; silence alone is no proof of a denial",
        _ => "",
    };
    let what = escape(&line.expect);
    let line = format!(
        "expect {what}: {} {about}{by}{uncertain}{silence}{skipped}",
        look.paint(role, word)
    );
    format!("{}\n", look.wrap(&line))
}

fn nothing_to_judge(line: &ExpectLine) -> &'static str {
    match line.skipped {
        0 => "because no flow was reported",
        _ => "because no flow began after the trace did",
    }
}

fn held_so_far(line: &ExpectLine) -> String {
    match line.flows {
        0 => "for any flow".to_owned(),
        n => format!("for all: it holds for {}", count(n, "flow")),
    }
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
    let line = format!(
        "{} {}: {}; {}",
        look.paint(Role::Odd, "not observed:"),
        name(&missing.what),
        escape(&missing.why),
        escape(&missing.effect)
    );
    format!("{}\n", look.wrap(&line))
}
