//! What a running srctrace holds, and whether all of it is gone afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};

use super::{DEADLINE, Trace};
use crate::lab::Lab;
use crate::lab::bpf::{self, Kind};

// Not /proc/net: that is the namespace of the process's first thread.
const DEVICES: &str = "/proc/thread-self/net/dev";
const IP_TABLES: &str = "/proc/thread-self/net/ip_tables_names";
const IP6_TABLES: &str = "/proc/thread-self/net/ip6_tables_names";

/// Processes and BPF objects of one run.
#[derive(Debug)]
pub struct Footprint {
    /// Process ids: srctrace and all that it started.
    pub processes: BTreeSet<i32>,
    /// BPF objects that their descriptors name.
    pub objects: BTreeSet<(Kind, u32)>,
}

impl Footprint {
    /// Of a run that is armed.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let processes = descendants(trace.pid());
        let objects = processes.iter().flat_map(|pid| objects_of(*pid)).collect();
        Self { processes, objects }
    }

    /// Waits until nothing of it is left: the kernel frees BPF objects a little after the last descriptor is closed.
    ///
    /// # Errors
    /// When something stays.
    pub fn wait_gone(&self) -> Result<()> {
        let end = Instant::now() + DEADLINE;
        loop {
            let processes: Vec<_> = self.processes.iter().filter(|pid| alive(**pid)).collect();
            let objects: Vec<_> = self
                .objects
                .iter()
                .filter(|(kind, id)| bpf::exists(*kind, *id))
                .collect();
            if processes.is_empty() && objects.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                bail!(
                    "left after srctrace ended: processes {processes:?}, BPF objects {objects:?}"
                );
            }
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// Everything about a namespace that a tracer could leave changed: links, queueing disciplines, filters, rules, tables
/// that exist, addresses, routes and sysctls.
///
/// # Errors
/// When a listing fails.
pub fn state(lab: &Lab, ns: &str) -> Result<String> {
    let mut text = String::new();
    for line in [
        "ip -d link",
        "ip addr",
        "ip route show table all",
        "tc qdisc",
        "nft list ruleset",
    ] {
        text.push_str(&format!("== {line}\n{}", stable(&lab.run(ns, line)?)));
    }
    for dev in lab.in_ns(ns, devices)? {
        for side in ["ingress", "egress"] {
            text.push_str(&format!(
                "== {dev} {side}\n{}",
                lab.run(ns, &format!("tc filter show dev {dev} {side}"))?
            ));
        }
    }
    for tables in [IP_TABLES, IP6_TABLES] {
        let names = lab.in_ns(ns, || fs::read_to_string(tables).unwrap_or_default())?;
        text.push_str(&format!("== {tables}\n{names}"));
    }
    lab.in_ns(ns, || sysctls(Path::new("/proc/sys/net"), &mut text))?;
    Ok(text)
}

/// A listing without the timers that count down in it.
fn stable(said: &str) -> String {
    said.split_inclusive(char::is_whitespace)
        .filter(|word| !word.trim_end().ends_with("sec"))
        .collect()
}

/// All settings below a folder of /proc/sys, except those that the kernel itself moves.
fn sysctls(folder: &Path, text: &mut String) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sysctls(&path, text);
        } else if !path.ends_with("nf_conntrack_count")
            && let Ok(value) = fs::read_to_string(&path)
        {
            text.push_str(&format!("{} = {value}", path.display()));
        }
    }
}

fn devices() -> Vec<String> {
    let table = fs::read_to_string(DEVICES).unwrap_or_default();
    table
        .lines()
        .skip(2)
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect()
}

/// The process and all that descend from it.
fn descendants(pid: i32) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([pid]);
    loop {
        let more: Vec<i32> = numbers(Path::new("/proc"))
            .filter(|pid| {
                !found.contains(pid) && parent(*pid).is_some_and(|parent| found.contains(&parent))
            })
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Whether it runs; one that only waits to be reaped does not.
fn alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit_once(')')
            .is_some_and(|(_, rest)| !rest.starts_with(" Z"))
    })
}

fn objects_of(pid: i32) -> Vec<(Kind, u32)> {
    let folder = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let mut found = Vec::new();
    for fd in numbers(&folder) {
        let text = fs::read_to_string(folder.join(fd.to_string())).unwrap_or_default();
        for (key, kind) in [
            ("prog_id:", Kind::Program),
            ("map_id:", Kind::Map),
            ("link_id:", Kind::Link),
        ] {
            let ids = text
                .lines()
                .filter_map(|line| line.strip_prefix(key)?.trim().parse().ok());
            found.extend(ids.map(|id| (kind, id)));
        }
    }
    found
}

fn numbers(folder: &Path) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
}
