//! A node on which others have qdiscs and filters, and looks at all of them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::unistd::Pid;

use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::labs::steps::{answered, masquerade, same, wait_for};
use crate::trace::{DEADLINE, Footprint, Srctrace, Trace, binary};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

/// The devices that get filters: one with a clsact qdisc and filters of somebody else, one without.
pub(super) const DEVICES: [&str; 2] = ["eth0", "veth-pod"];
pub(super) const SIDES: [&str; 2] = ["ingress", "egress"];
pub(super) const ARGS: &[&str] = &[
    "--dest", PEER, "--tap", "clsact", "-i", "eth0", "-i", "veth-pod",
];

/// A masquerading node with a server behind it, and with qdiscs and filters of others.
pub(super) fn foreign_ground(name: &str) -> Result<(Lab, StreamServer)> {
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

pub(super) fn call(lab: &Lab, sport: u16) -> Result<()> {
    same(
        "what the far side saw",
        StreamCall::new("pod", "10.20.30.40:443", sport).run(lab)?,
        answered(&format!("10.100.0.5:{sport}"))?,
    )
}

/// All qdiscs and filters of the node, whole.
pub(super) fn traffic_control(lab: &Lab) -> Result<String> {
    let mut text = lab.run("node", "tc -j qdisc show")?;
    for device in DEVICES {
        for side in SIDES {
            text.push_str(&format!("== {device} {side}\n"));
            text.push_str(&filters(lab, device, side)?);
        }
    }
    Ok(text)
}

pub(super) fn filters(lab: &Lab, device: &str, side: &str) -> Result<String> {
    lab.run("node", &format!("tc -j filter show dev {device} {side}"))
}

/// Whether the run has its filter at all four places.
pub(super) fn is_everywhere(lab: &Lab, pid: i32) -> bool {
    let there = |device, side: &str| {
        let name = format!("srctrace_{side}:{pid}-");
        filters(lab, device, side).is_ok_and(|text| text.contains(&name))
    };
    DEVICES
        .iter()
        .all(|device| SIDES.iter().all(|side| there(device, side)))
}

/// Starts a trace and waits until its filters are in place and a request was seen.
pub(super) fn start(lab: &Lab, sport: u16) -> Result<Trace> {
    let trace = Srctrace::new(lab, ARGS).start()?;
    wait_for("four clsact filters", DEADLINE, || {
        is_everywhere(lab, trace.pid())
    })?;
    call(lab, sport)?;
    trace.wait_flows(1)?;
    Ok(trace)
}

/// The one process beside srctrace itself, when no program that reads rules runs.
pub(super) fn watcher_of(trace: &Trace) -> Result<Pid> {
    let mut others = BTreeSet::new();
    wait_for("a watcher and nothing else", DEADLINE, || {
        others = Footprint::of(trace).processes;
        others.remove(&trace.pid());
        others.len() == 1
    })?;
    let pid = others.first().copied().context("a watcher")?;
    Ok(Pid::from_raw(pid))
}

/// The records of a process.
pub(super) fn records(pid: i32) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir("/run/srctrace") {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("the folder of records")?,
    };
    Ok(entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&format!("{pid}-")))
        .collect())
}

/// What `srctrace cleanup` says of this lab's node; its status must be 0.
pub(super) fn cleanup(lab: &Lab) -> Result<Vec<String>> {
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
