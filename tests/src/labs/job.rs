//! Rows E: the tool on the job - many flows, lost events, nothing to see, and nothing left behind.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::steps::{
    MASQUERADED, answered, hold, masquerade, masqueraded_pod, same, same_text, watch_with,
};
use super::{Case, NATIVE};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Lab, Topology};
use crate::trace::{Expected, Footprint, Names, Srctrace, state};
use crate::traffic::{Behaviour, Outcome, Stream, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("e1_whole_machine", &["E1"], whole_machine).alone(),
    // A thousand connections at once take an emulated processor longer than srctrace waits for an answer.
    Case::new("e3_thousand_flows", &["E3"], thousand_flows).on(NATIVE),
    Case::new("e5_events_lost", &["E5"], events_lost),
    Case::new("e7_ctrl_c_leaves_nothing", &["E7"], || {
        leaves_nothing(Signal::SIGINT)
    })
    .needs(FOREIGN),
    Case::new("e7_sigterm_leaves_nothing", &["E7"], || {
        leaves_nothing(Signal::SIGTERM)
    })
    .needs(FOREIGN),
    Case::new("e7_kill_9_leaves_nothing", &["E7"], || {
        leaves_nothing(Signal::SIGKILL)
    })
    .needs(FOREIGN),
    Case::new("e9_silence_hint", &["E9"], silence_hint),
    Case::new("equal_addresses_twice", &[], equal_addresses_twice),
];

/// For what somebody else has attached.
const FOREIGN: &[&str] = &["sch_ingress", "cls_u32"];

/// As someone on a node types it: nothing named but the destination. Every namespace of the machine is looked at, so the
/// far side's are seen too.
fn whole_machine() -> Result<()> {
    let lab = masqueraded_pod("e1", RouteBack::Missing)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &[PEER]).whole_machine();
    let report = watch_with(&trace, 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(&lab, &report, "e1_whole_machine", &[MASQUERADED], &[])
}

/// Opens `count` connections from the pod, all at once open, asks on each, and closes them all. Returns what the far side
/// saw of them.
fn concurrent(lab: &Lab, ns: &str, count: u16) -> Result<BTreeSet<String>> {
    let open = |n: u16| -> Result<Stream> {
        let opened = StreamCall::new(ns, "10.20.30.40:443", 20_000 + n).open(lab)?;
        opened.map_err(|outcome| anyhow::anyhow!("connection {n}: {outcome:?}"))
    };
    let streams: Vec<Stream> = (0..count).map(open).collect::<Result<_>>()?;
    let mut seen = BTreeSet::new();
    for stream in streams {
        let outcome = stream.finish(b"one of many")?;
        seen.insert(
            outcome
                .seen()
                .context("a flow that was not answered")?
                .ip()
                .to_string(),
        );
    }
    Ok(seen)
}

fn thousand_flows() -> Result<()> {
    let lab = cast::two_pods("e3", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    lab.iptables_legacy("node", "-t nat -I IP-MASQ -s 10.12.4.4 -j RETURN")?;
    let peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--group"]).start()?;
    same(
        "sources of pod",
        concurrent(&lab, "pod", 1000)?,
        BTreeSet::from([cast::NODE.to_owned()]),
    )?;
    same(
        "sources of pod2",
        concurrent(&lab, "pod2", 10)?,
        BTreeSet::from([cast::POD2.to_owned()]),
    )?;
    let report = trace.stop()?;
    same("connections that the server had", peer.seen().len(), 1010)?;
    same("exit status", report.status, Some(0))?;
    let summary = report.summary()?;
    same("flows seen", &summary["flows"]["seen"], &Value::from(1010))?;
    same("events lost", &summary["events"]["lost"], &Value::from(0))?;
    let group =
        |count: u64, source: &str, on_wire: &str| format!("{count} {source} {on_wire} completed");
    let should = vec![
        group(10, "source-preserved", cast::POD2),
        group(1000, "source-rewritten", cast::NODE),
    ];
    same("groups", groups(&summary)?, should)?;
    let flows = report.flows()?;
    let counts = flows.iter().filter_map(|flow| flow["count"].as_u64());
    same(
        "flows that the exemplars stand for",
        counts.sum::<u64>(),
        1010,
    )?;
    same("exemplars", flows.len(), 2)
}

/// The summary's groups: count, source, source on the wire, delivery; smallest first.
fn groups(summary: &Value) -> Result<Vec<String>> {
    let groups = summary["groups"].as_array().context("groups")?;
    let mut groups: Vec<&Value> = groups.iter().collect();
    groups.sort_by_key(|group| group["count"].as_u64());
    let line = |group: &&Value| {
        let text = |key: &str| group[key].as_str().unwrap_or("-").to_owned();
        let on_wire = text("source_on_wire");
        format!(
            "{} {} {on_wire} {}",
            group["count"],
            text("source"),
            text("delivery")
        )
    };
    Ok(groups.iter().map(line).collect())
}

/// The program is stopped while packets go by, with a ring that holds next to nothing: what cannot be kept must be counted,
/// and nothing may be called certain.
fn events_lost() -> Result<()> {
    let lab = masqueraded_pod("e5", RouteBack::Known)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = ["--dest", PEER, "--expect-source", "node"];
    let trace = Srctrace::new(&lab, &args)
        .env("SRCTRACE_RING_KIB", "4")
        .start()?;
    let pid = Pid::from_raw(trace.pid());
    kill(pid, Signal::SIGSTOP).context("stop srctrace")?;
    let seen = concurrent(&lab, "pod", 200);
    kill(pid, Signal::SIGCONT).context("let srctrace go on")?;
    same("sources", seen?, BTreeSet::from([cast::NODE.to_owned()]))?;
    let report = trace.stop()?;
    let summary = report.summary()?;
    let lost = summary["events"]["lost"].as_u64().context("events.lost")?;
    ensure!(lost > 0, "no event was lost: {summary:#}");
    same("exit status", report.status, Some(5))?;
    for flow in report.flows()? {
        let codes = crate::trace::digest::findings(&flow);
        same(
            "a verdict is complete",
            &flow["verdict"]["complete"],
            &Value::from(false),
        )?;
        ensure!(
            codes.iter().any(|code| code == "events-lost"),
            "a flow without the finding events-lost: {codes:?}"
        );
    }
    Ok(())
}

/// However it ends, nothing of it stays: no process, no program, map or link, no rule, filter or setting in any namespace.
fn leaves_nothing(signal: Signal) -> Result<()> {
    let lab = masqueraded_pod("e7", RouteBack::Known)?;
    // Somebody else's qdiscs and filter, which must stay as they are.
    lab.run("node", "tc qdisc add dev eth0 clsact")?;
    lab.run(
        "node",
        "tc filter add dev eth0 egress protocol ip u32 match u32 0 0 flowid 1:1",
    )?;
    lab.run("node", "tc qdisc add dev veth-pod root pfifo limit 77")?;
    let spaces = ["pod", "node"];
    let states = || {
        spaces
            .iter()
            .map(|ns| state(&lab, ns))
            .collect::<Result<String>>()
    };
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let call = |sport: u16| StreamCall::new("pod", "10.20.30.40:443", sport).run(&lab);
    same("before", call(43_210)?, answered("10.100.0.5:43210")?)?;
    let before = states()?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    same("during", call(43_211)?, answered("10.100.0.5:43211")?)?;
    trace.wait_flows(1)?;
    let footprint = Footprint::of(&trace);
    ensure!(
        footprint.objects.len() >= 2,
        "a trace that holds no BPF objects? {footprint:?}"
    );
    let report = trace.signal(signal)?;
    match signal {
        Signal::SIGKILL => same(
            "the signal that ended it",
            report.signal,
            Some(Signal::SIGKILL as i32),
        )?,
        _ => {
            same("exit status", report.status, Some(0))?;
            report.summary()?;
        }
    }
    footprint.wait_gone()?;
    same_text("the namespaces' state", &states()?, &before)
}

/// Nothing matches, but something near does: after ten seconds it says so.
fn silence_hint() -> Result<()> {
    let lab = cast::one_pod("e9", RouteBack::Known).up()?;
    let _near = StreamServer::start(&lab, "peer", "10.30.0.10:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["10.20.30.40:443"]).start()?;
    let said = AtomicBool::new(false);
    // It looks around only when it has something to say, so the traffic next to it goes on until then.
    let near = thread::scope(|scope| {
        let calling = scope.spawn(|| -> Result<()> {
            while !said.load(Ordering::Relaxed) {
                let outcome = StreamCall::new("pod", "10.30.0.10:443", 0).run(&lab)?;
                ensure!(outcome.seen().is_some(), "not answered: {outcome:?}");
                thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        });
        let hint = trace.wait_says("10.30.0.10");
        said.store(true, Ordering::Relaxed);
        (hint, calling.join())
    });
    near.0?;
    near.1.ok().context("the traffic next to it panicked")??;
    let report = trace.stop()?;
    same("exit status", report.status, Some(4))?;
    same("flows", report.flows()?.len(), 0)?;
    ensure!(
        report.stderr.contains("10.100.0.1"),
        "the route's next hop is not named: {}",
        report.stderr
    );
    Ok(())
}

/// Two nodes that know nothing of each other, with equal addresses and ports at the same time: one masquerades, the other
/// does not. One trace sees both and mixes nothing.
fn equal_addresses_twice() -> Result<()> {
    let build = |name: &str, masquerades: bool| -> Result<Lab> {
        let net: Topology = cast::one_pod(name, RouteBack::Known);
        let lab = net.up()?;
        masquerade(&lab, if masquerades { &[] } else { &["10.20.0.0/16"] })?;
        Ok(lab)
    };
    let (ours, theirs) = (build("ours", true)?, build("theirs", false)?);
    let _peer = StreamServer::start(&ours, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let _other = StreamServer::start(&theirs, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&ours, &["--dest", PEER])
        .and_lab(&theirs)
        .start()?;
    let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
    let open = |lab: &Lab| -> Result<Stream> {
        call.open(lab)?
            .map_err(|outcome| anyhow::anyhow!("{outcome:?}"))
    };
    // Interleaved: both handshakes, then both requests.
    let (first, second) = (open(&ours)?, open(&theirs)?);
    let outcomes: (Outcome, Outcome) = (first.finish(b"ours")?, second.finish(b"theirs")?);
    trace.wait_flows(2)?;
    let report = trace.stop()?;
    same(
        "outcomes",
        outcomes,
        (answered("10.100.0.5:43210")?, answered("10.12.3.4:43210")?),
    )?;
    let expected = Expected {
        name: "equal_addresses_twice",
        status: 0,
        flows: &[
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod our-pod
             request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/IP-MASQ 1
             source-rewritten, on the wire 10.100.0.5, completed",
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from external their-pod
             exempt-by-rule: iptables-legacy nat/IP-MASQ 1
             source-preserved, on the wire 10.12.3.4, completed",
        ],
        findings: &[],
    };
    expected.hold(&report, &Names::of(&[(&ours, "our-"), (&theirs, "their-")]))
}
