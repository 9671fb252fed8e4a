//! A bug in srctrace itself: it ends in one line, and nothing of it stays.

use anyhow::Result;

use super::ground::{
    ARGS, call, foreign_ground, is_everywhere, records, traffic_control, watcher_of,
};
use crate::lab::cast::PEER;
use crate::labs::Case;
use crate::labs::steps::{same, same_text, wait_for};
use crate::trace::{DEADLINE, Footprint, Report, Srctrace, state};

pub(in crate::labs) const CASES: &[Case] = &[
    Case::new("e7_panic_leaves_nothing", &["E7"], panics).needs(super::FOREIGN),
    Case::new("clsact_panics", &[], panics_with_clsact).needs(super::FOREIGN),
];

/// Rust's own exit status after a panic.
const PANICKED: i32 = 101;

/// Makes it panic when it tells its first flow.
const REHEARSE: (&str, &str) = ("SRCTRACE_REHEARSE_PANIC", "1");

/// One line on standard error beside the header's two, and nothing printed.
fn told(report: &Report, lines_before: usize) -> Result<()> {
    same("exit status", report.status, Some(PANICKED))?;
    same("lines printed", report.lines.len(), 0)?;
    let said: Vec<&str> = report.stderr.lines().skip(lines_before).collect();
    // The line's number in the source moves with every change there.
    let numberless = said.join("\n").replace(|c: char| c.is_ascii_digit(), "");
    same(
        "what it says",
        numberless.as_str(),
        "srctrace: a bug in srctrace ..: tracer/src/run/bugs.rs:: asked for by SRCTRACE_REHEARSE_PANIC; please report \
         this line. What it attached is removed; should that fail, `srctrace cleanup` does it",
    )
}

fn panics() -> Result<()> {
    let (lab, _server) = foreign_ground("panic")?;
    let states = || -> Result<String> { Ok(state(&lab, "pod")? + &state(&lab, "node")?) };
    call(&lab, 43_209)?;
    let before = states()?;
    let trace = Srctrace::new(&lab, &["--dest", PEER])
        .env(REHEARSE.0, REHEARSE.1)
        .start()?;
    let footprint = Footprint::of(&trace);
    call(&lab, 43_210)?;
    told(&trace.finish()?, 2)?;
    footprint.wait_gone()?;
    same_text("the namespaces' state", &states()?, &before)
}

/// With filters that would outlive the process: they are gone by the time that it has ended.
fn panics_with_clsact() -> Result<()> {
    let (lab, _server) = foreign_ground("panic")?;
    let before = traffic_control(&lab)?;
    let trace = Srctrace::new(&lab, ARGS)
        .env(REHEARSE.0, REHEARSE.1)
        .start()?;
    let pid = trace.pid();
    wait_for("four clsact filters", DEADLINE, || is_everywhere(&lab, pid))?;
    let footprint = Footprint::of(&trace);
    watcher_of(&trace)?;
    call(&lab, 43_210)?;
    let report = trace.finish()?;
    same_text("traffic control at once", &traffic_control(&lab)?, &before)?;
    // Four lines say what is added.
    told(&report, 6)?;
    footprint.wait_gone()?;
    same("records of the run", records(pid)?, Vec::new())?;
    call(&lab, 43_211)
}
