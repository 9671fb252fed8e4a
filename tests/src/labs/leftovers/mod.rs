//! `--tap clsact`: it works, and however it ends, what it added is gone and what others have put there is as it was.

mod ground;
pub(super) mod panics;

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use ground::{
    ARGS, call, cleanup, foreign_ground, is_everywhere, records, start, traffic_control, watcher_of,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getsid;

use super::steps::{same, same_text};
use super::{Case, Kernel, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{Footprint, Report, Srctrace, binary};

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
    Case::new("clsact_is_interrupted_between_two_steps", &[], interrupted)
        .needs(FOREIGN)
        .alone(),
    Case::new("clsact_is_refused_in_a_container", &[], in_container).on(NATIVE),
    Case::new("tcx_is_refused_where_there_is_none", &[], tcx_refused).on(WITHOUT_TCX),
];

const FOREIGN: &[&str] = &["sch_ingress", "cls_bpf", "cls_u32"];
const WITHOUT_TCX: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1];

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
            "srctrace: --tap clsact adds {what} to {device} ({side}); removed at the end, by a watcher if srctrace is killed"
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
    let watcher = watcher_of(&trace)?;
    same(
        "the watcher's session, which is its own",
        getsid(Some(watcher))?,
        watcher,
    )?;
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
    kill(watcher_of(&trace)?, Signal::SIGKILL).context("kill the watcher")?;
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
    kill(watcher_of(&trace)?, Signal::SIGKILL).context("kill the watcher")?;
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

/// Killed after the qdisc was added and before the filter was: the record alone tells of it, and only an empty qdisc goes.
fn interrupted() -> Result<()> {
    let (lab, _server) = foreign_ground("between")?;
    cleanup(&lab)?;
    let before = traffic_control(&lab)?;
    lab.run("node", "tc qdisc add dev veth-pod clsact")?;
    let index = |device: &str| -> Result<String> {
        let said = lab.run("node", &format!("ip -o link show dev {device}"))?;
        Ok(said.split(':').next().unwrap_or_default().to_owned())
    };
    let entry = |device: &str| -> Result<String> {
        Ok(format!(
            r#"{{"netns":{},"place":"lab","ifindex":{},"device":"{device}","side":"ingress","priority":1,"handle":1,"qdisc":true,"done":false}}"#,
            lab.inode("node").context("the node's inode")?,
            index(device)?
        ))
    };
    // A run that is over: our process id, but not our start.
    let run = format!("{}-1", std::process::id());
    let text = format!("[{},{}]", entry("veth-pod")?, entry("eth0")?);
    std::fs::create_dir_all("/run/srctrace").context("the folder of records")?;
    std::fs::write(format!("/run/srctrace/{run}.json"), text).context("a record")?;
    let should = vec![
        "removed the clsact qdisc from veth-pod in NODE".to_owned(),
        format!("removed the record of run {run}"),
    ];
    same("what cleanup says", cleanup(&lab)?, should)?;
    same_text("traffic control", &traffic_control(&lab)?, &before)
}

/// A container can be killed together with the watcher: nothing is added there.
fn in_container() -> Result<()> {
    let (lab, _server) = foreign_ground("container")?;
    let before = traffic_control(&lab)?;
    let refused = |args: &[&str]| -> Result<String> {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command.arg(binary()?).args(args);
        let output = lab.in_ns("node", || command.output())?;
        let output = output.context("start srctrace with process ids of its own")?;
        same("exit status", output.status.code(), Some(3))?;
        ensure!(output.stdout.is_empty(), "it prints: {output:?}");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let said = refused(ARGS)?;
    ensure!(said.contains("--tap clsact: a container"), "it says {said}");
    let said = refused(&["cleanup"])?;
    ensure!(said.contains("run it on the node itself"), "it says {said}");
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
