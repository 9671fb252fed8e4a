//! What /proc says about processes.

use std::fs;

use anyhow::{Context as _, Result};

/// A process and all its descendants.
pub(crate) fn family(pid: i32) -> Result<Vec<i32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("read /proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(parent) = status_field(pid, "PPid:") {
            parents.push((pid, parent));
        }
    }
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        let children = parents.iter().filter(|(_, of)| *of == i64::from(parent));
        family.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    Ok(family)
}

/// Resident memory of a process and its descendants together, KiB.
pub(crate) fn resident_kib(pid: i32) -> Result<u64> {
    let sizes = family(pid)?
        .into_iter()
        .filter_map(|pid| status_field(pid, "VmRSS:"));
    Ok(sizes.map(|kib| u64::try_from(kib).unwrap_or(0)).sum())
}

/// The most resident memory that a process had so far, KiB; `None` when it has gone.
pub(crate) fn peak_kib(pid: i32) -> Option<u64> {
    status_field(pid, "VmHWM:").and_then(|kib| u64::try_from(kib).ok())
}

/// Processor time that a process and its descendants have used, milliseconds.
pub(crate) fn cpu_ms(pid: i32) -> Result<u64> {
    // The kernel shows these times in hundredths of a second on every machine.
    const TICK_MS: u64 = 10;
    let ticks = family(pid)?.into_iter().filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(field(11)? + field(12)?)
    });
    Ok(ticks.sum::<u64>() * TICK_MS)
}

/// A number from /proc/PID/status; `None` when the process has gone.
fn status_field(pid: i32, name: &str) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
