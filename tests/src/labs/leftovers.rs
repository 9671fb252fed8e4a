//! `--tap clsact`: it works, and however it ends, what it added is gone and what others have put there is as it was.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::steps::{answered, masquerade, same, same_text, wait_for};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{DEADLINE, Footprint, Report, Srctrace, Trace, binary};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("clsact_ends_by_ctrl_c", &[], || ends(Signal::SIGINT)).needs(FOREIGN),
    Case::new("clsact_ends_by_sigterm", &[], || ends(Signal::SIGTERM)).needs(FOREIGN),
    Case::new("clsact_is_killed", &[], || ends(Signal::SIGKILL)).needs(FOREIGN),
    Case::new(
        "clsact_is_killed_with_its_watcher",
        &[],
        killed_with_watcher,
    )
    .needs(FOREIGN)
    .alone(),
    Case::new("clsact_leaves_a_shared_qdisc", &[], shared_qdisc).needs(FOREIGN),
    Case::new("clsact_twice_on_one_device", &[], two_runs).needs(FOREIGN),
    Case::new("tcx_is_refused_where_there_is_none", &[], tcx_refused).on(WITHOUT_TCX),
];

const FOREIGN: &[&str] = &["sch_ingress", "cls_bpf", "cls_u32", "sch_fq_codel"];
const WITHOUT_TCX: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1];

/// The devices that get filters: one with a clsact qdisc and filters of somebody else, one without.
const DEVICES: [&str; 2] = ["eth0", "veth-pod"];
const SIDES: [&str; 2] = ["ingress", "egress"];
const ARGS: &[&str] = &[
    "--dest", PEER, "--tap", "clsact", "-i", "eth0", "-i", "veth-pod",
];

/// A masquerading node with a server behind it, and with qdiscs and filters of others.
fn foreign_ground(name: &str) -> Result<(Lab, StreamServer)> {
    let lab = cast::one_pod(name, RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    for line in [
        "tc qdisc add dev eth0 clsact",
        "tc qdisc add dev veth-pod root pfifo limit 77",
        "tc filter add dev eth0 egress protocol ip prio 7 u32 match u32 0 0 flowid 1:1",
    ] {
        lab.run("node", line)?;
    }
    // A classic program that always says "go on", first in order, as a data path has it.
    lab.in_ns("node", || {
        let mut tc = Command::new("tc");
        tc.args("filter add dev eth0 ingress prio 1 handle 1 bpf bytecode".split(' '));
        tc.arg("1,6 0 0 4294967295,").output()
    })?
    .context("start tc")
    .and_then(|said| {
        ensure!(said.status.success(), "a foreign bpf filter: {said:?}");
        Ok(())
    })?;
    let server = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    Ok((lab, server))
}

fn call(lab: &Lab, sport: u16) -> Result<()> {
    same(
        "what the far side saw",
        StreamCall::new("pod", "10.20.30.40:443", sport).run(lab)?,
        answered(&format!("10.100.0.5:{sport}"))?,
    )
}

/// All qdiscs and filters of the node, whole.
fn traffic_control(lab: &Lab) -> Result<String> {
    let mut text = lab.run("node", "tc -j qdisc show")?;
    for device in DEVICES {
        for side in SIDES {
            text.push_str(&format!("== {device} {side}\n"));
            text.push_str(&filters(lab, device, side)?);
        }
    }
    Ok(text)
}

fn filters(lab: &Lab, device: &str, side: &str) -> Result<String> {
    lab.run("node", &format!("tc -j filter show dev {device} {side}"))
}

/// Whether the run has its filter at all four places.
fn is_everywhere(lab: &Lab, pid: i32) -> bool {
    let there = |device, side: &str| {
        let name = format!("srctrace_{side}:{pid}-");
        filters(lab, device, side).is_ok_and(|text| text.contains(&name))
    };
    DEVICES
        .iter()
        .all(|device| SIDES.iter().all(|side| there(device, side)))
}

/// Starts a trace and waits until its filters are in place and a request was seen.
fn start(lab: &Lab, sport: u16) -> Result<Trace> {
    let trace = Srctrace::new(lab, ARGS).start()?;
    wait_for("four clsact filters", DEADLINE, || {
        is_everywhere(lab, trace.pid())
    })?;
    call(lab, sport)?;
    trace.wait_flows(1)?;
    Ok(trace)
}

fn watcher_of(trace: &Trace, footprint: &Footprint) -> Result<Pid> {
    let mut others = footprint.processes.clone();
    others.remove(&trace.pid());
    same("processes beside srctrace itself", others.len(), 1)?;
    let pid = others.first().copied().context("a watcher")?;
    Ok(Pid::from_raw(pid))
}

/// The summary counts the filters, and what was going to be added was said.
fn told(report: &Report) -> Result<()> {
    let summary = report.summary()?;
    same(
        "clsact filters in the summary",
        summary["observed_by"]["clsact"].as_u64(),
        Some(4),
    )?;
    let said: Vec<&str> = report
        .stderr
        .lines()
        .filter(|line| line.contains("--tap clsact adds"))
        .collect();
    let adds = |what: &str, device: &str, side: &str| {
        format!(
            "srctrace: --tap clsact adds {what} to {device} ({side}); a watcher removes it at the end"
        )
    };
    let should: BTreeSet<String> = [
        adds("a filter", "eth0", "ingress"),
        adds("a filter", "eth0", "egress"),
        adds("a clsact qdisc and a filter", "veth-pod", "ingress"),
        adds("a filter", "veth-pod", "egress"),
    ]
    .into();
    let is = said.into_iter().map(str::to_owned).collect();
    same("what it says it adds", is, should)
}

/// Whatever ends it: the whole of traffic control is as before, and no process, program or map stays.
fn ends(signal: Signal) -> Result<()> {
    let (lab, _server) = foreign_ground("clsact")?;
    let before = traffic_control(&lab)?;
    let trace = start(&lab, 43_210)?;
    let pid = trace.pid();
    let footprint = Footprint::of(&trace);
    let watcher = watcher_of(&trace, &footprint)?;
    // What a terminal or a service manager sends to all of them does not move the watcher.
    for at_all in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        kill(watcher, at_all).context("a signal to the watcher")?;
    }
    let report = trace.signal(signal)?;
    if signal == Signal::SIGKILL {
        same("the signal that ended it", report.signal, Some(9))?;
    } else {
        same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
        // Removed by the time that it has ended, not some time later.
        same_text("traffic control at once", &traffic_control(&lab)?, &before)?;
        told(&report)?;
    }
    footprint.wait_gone()?;
    same_text("traffic control", &traffic_control(&lab)?, &before)?;
    same("records of the run", records(pid)?, Vec::new())?;
    call(&lab, 43_211)
}

/// The records of a process.
fn records(pid: i32) -> Result<Vec<String>> {
    let entries = std::fs::read_dir("/run/srctrace").context("the folder of records")?;
    Ok(entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&format!("{pid}-")))
        .collect())
}

/// What `srctrace cleanup` says of this lab's node; its status must be 0.
fn cleanup(lab: &Lab) -> Result<Vec<String>> {
    let output = Command::new(binary()?).arg("cleanup").output();
    let output = output.context("start srctrace cleanup")?;
    ensure!(output.status.success(), "srctrace cleanup: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let place = format!("/run/netns/{}", lab.netns("node"));
    Ok(said
        .lines()
        .filter(|line| line.contains(&place) || line.contains("record") || line.contains("nothing"))
        .map(|line| line.replace(&place, "NODE"))
        .collect())
}

/// Both are killed: everything stays until `srctrace cleanup`, which touches nothing of a run that lives, nor of others.
fn killed_with_watcher() -> Result<()> {
    let (lab, _server) = foreign_ground("cleanup")?;
    // What earlier runs on this machine may have left is none of this lab's business.
    cleanup(&lab)?;
    let before = traffic_control(&lab)?;
    let trace = start(&lab, 43_210)?;
    let pid = trace.pid();
    let footprint = Footprint::of(&trace);
    let during = traffic_control(&lab)?;
    same(
        "cleanup of a live run",
        cleanup(&lab)?,
        vec!["nothing left behind".to_owned()],
    )?;
    same_text("a live run's filters", &traffic_control(&lab)?, &during)?;
    kill(watcher_of(&trace, &footprint)?, Signal::SIGKILL).context("kill the watcher")?;
    trace.signal(Signal::SIGKILL)?;
    same_text("left by both", &traffic_control(&lab)?, &during)?;
    let run = records(pid)?
        .first()
        .cloned()
        .context("no record is left")?;
    let run = run.trim_end_matches(".json");
    let filter = |device: &str, side: &str, priority: u32, created: &str| {
        let handle = 0x5c00_0000 | pid;
        format!(
            "removed filter srctrace_{side}:{run}{created} (priority {priority}, handle {handle:#x}) from {device} {side} in NODE"
        )
    };
    let mut should = vec![
        filter("eth0", "ingress", 1, ""),
        filter("eth0", "egress", 6, ""),
        filter("veth-pod", "ingress", 49152, ":clsact"),
        filter("veth-pod", "egress", 49152, ":clsact"),
        "removed the clsact qdisc from veth-pod in NODE".to_owned(),
        format!("removed the record of run {run}"),
    ];
    let mut said = cleanup(&lab)?;
    should.sort();
    said.sort();
    same("what cleanup says", said, should)?;
    footprint.wait_gone()?;
    same_text("traffic control", &traffic_control(&lab)?, &before)?;
    same(
        "a second cleanup",
        cleanup(&lab)?,
        vec!["nothing left behind".to_owned()],
    )?;
    without_a_record(&lab, &before)
}

/// The record is lost as well: the filters' names are enough.
fn without_a_record(lab: &Lab, before: &str) -> Result<()> {
    let trace = start(lab, 43_212)?;
    let pid = trace.pid();
    let footprint = Footprint::of(&trace);
    kill(watcher_of(&trace, &footprint)?, Signal::SIGKILL).context("kill the watcher")?;
    trace.signal(Signal::SIGKILL)?;
    for record in records(pid)? {
        std::fs::remove_file(format!("/run/srctrace/{record}")).context("lose the record")?;
    }
    same("lines of cleanup without a record", cleanup(lab)?.len(), 5)?;
    footprint.wait_gone()?;
    same_text("traffic control", &traffic_control(lab)?, before)
}

/// Somebody adds a filter to the qdisc that we made: it stays, with the qdisc.
fn shared_qdisc() -> Result<()> {
    let (lab, _server) = foreign_ground("shared")?;
    let trace = start(&lab, 43_210)?;
    let footprint = Footprint::of(&trace);
    let theirs = "protocol ip prio 9 u32 match u32 0 0 flowid 1:1";
    lab.run(
        "node",
        &format!("tc filter add dev veth-pod ingress {theirs}"),
    )?;
    trace.signal(Signal::SIGKILL)?;
    footprint.wait_gone()?;
    let left = traffic_control(&lab)?;
    // As if they had been alone.
    let (alone, _server) = foreign_ground("alone")?;
    alone.run("node", "tc qdisc add dev veth-pod clsact")?;
    alone.run(
        "node",
        &format!("tc filter add dev veth-pod ingress {theirs}"),
    )?;
    ensure!(
        !left.contains("srctrace"),
        "something of ours is left: {left}"
    );
    let kinds = |text: &str| text.matches("\"kind\"").count();
    same(
        "qdiscs and filters",
        kinds(&left),
        kinds(&traffic_control(&alone)?),
    )
}

/// Two runs on one device: the first to leave, which made the qdisc, takes only its own; the last takes the qdisc.
fn two_runs() -> Result<()> {
    let (lab, _server) = foreign_ground("twice")?;
    let before = traffic_control(&lab)?;
    let first = start(&lab, 43_210)?;
    let second = start(&lab, 43_211)?;
    let footprints = [Footprint::of(&first), Footprint::of(&second)];
    first.stop()?;
    ensure!(
        is_everywhere(&lab, second.pid()),
        "the second run lost filters: {}",
        traffic_control(&lab)?
    );
    second.signal(Signal::SIGKILL)?;
    for footprint in &footprints {
        footprint.wait_gone()?;
    }
    same_text("traffic control", &traffic_control(&lab)?, &before)
}

fn tcx_refused() -> Result<()> {
    let lab = cast::one_pod("notcx", RouteBack::Known).up()?;
    let report = Srctrace::new(&lab, &["--dest", PEER, "--tap", "tcx"]).run_to_end()?;
    same("exit status", report.status, Some(3)).context(report.stderr.clone())?;
    same("lines printed", report.lines.len(), 0)?;
    same(
        "what it says",
        report.stderr.as_str(),
        "srctrace: --tap tcx: this kernel has no tcx (6.6 and later may have it); --tap clsact does without",
    )
}
