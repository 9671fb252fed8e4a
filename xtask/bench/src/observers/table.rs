//! The rule observers' costs for people.

use std::fmt::Write as _;

use super::{Load, Observers, Row};
use crate::programs::as_f64;

/// Writes the section: a table for each kernel.
pub(crate) fn write(text: &mut String, all: &[Observers]) {
    if all.is_empty() {
        return;
    }
    text.push_str(
        "\n## Rule observers\n\nWhat `--observe-rules` adds to `none`. \"established\": one TCP connection that was open before \
         anything was counted, as fast as it goes; \"new\": TCP connections that are opened, answered and closed, as many as go. \
         Each new one is masqueraded. Runs are those of the programs that the observer adds, by the kernel's accounts: they are \
         exact, also where the machine is emulated and its times mean nothing. \"left\": of the rate in the same round with \
         `none`. `nftrace` adds no programs: the kernel tells the rules by itself.\n",
    );
    all.iter().for_each(|one| kernel(text, one));
}

fn kernel(text: &mut String, measured: &Observers) {
    let _ = writeln!(
        text,
        "\nKernel {}:\n\n\
         | traffic | `--dest` matches | `--observe-rules` | packets | new flows | runs | per packet | per new flow | ns per run | \
         left | interval |\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
        measured.kernel
    );
    measured.rows.iter().for_each(|one| row(text, one));
    for (what, why) in &measured.absent {
        let _ = writeln!(text, "\n{what}: not measured here: {why}.");
    }
}

fn row(text: &mut String, row: &Row) {
    let traffic = match row.load {
        Load::Established => "established",
        Load::New => "new",
    };
    let matching = if row.matching { "yes" } else { "no" };
    let (runs, ns) = (as_f64(row.runs()), as_f64(row.nanoseconds()));
    let per = |count: u64| match count {
        0 => String::new(),
        count => format!("{:.4}", runs / as_f64(count)),
    };
    let per_run = if runs > 0.0 {
        format!("{:.0}", ns / runs)
    } else {
        String::new()
    };
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let several = row.left.filter(|median| median.samples > 2);
    let left = several.map(|m| percent(m.median)).unwrap_or_default();
    let interval = several.map(|m| format!("{:.1} to {:.1} %", 100.0 * m.low, 100.0 * m.high));
    let _ = writeln!(
        text,
        "| {traffic} | {matching} | `{}` | {} | {} | {} | {} | {} | {per_run} | {left} | {} |",
        row.observer,
        row.packets,
        row.flows,
        row.runs(),
        per(row.packets),
        per(row.flows),
        interval.unwrap_or_default()
    );
}
