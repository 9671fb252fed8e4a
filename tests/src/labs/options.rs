//! The command line: expectations and their exit status, limits, filters, and every kind of wrong input.

use anyhow::{Context as _, Result, ensure};

use super::steps::{answered, hold, masquerade, masqueraded_by, same, watch, watch_with};
use super::{Case, Kernel, NATIVE};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{Output, Report, Srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer, UdpCall, UdpServer};

pub(super) const CASES: &[Case] = &[
    Case::new("filters_let_through_what_they_say", &[], filters),
    Case::new("limits_end_the_trace", &[], limits),
    Case::new("a_pod_is_not_taken_for_the_node", &[], started_in_a_pod),
    Case::new("tap_tracepoint_only", &["A1"], || tap("tracepoint")),
    Case::new("tap_tcx_only", &["A1"], || tap("tcx")).on(WITH_TCX),
    Case::new("closed_pipe_is_a_quiet_end", &[], closed_pipe),
    Case::new("full_disk_is_said", &[], full_disk),
    Case::new("wrong_input_is_one_line", &[], wrong_input).on(NATIVE),
];

const WITH_TCX: &[Kernel] = &[Kernel::Native, Kernel::V6_12, Kernel::V7];

/// A masquerading node with a TCP server behind it, and an exempt one.
pub(super) fn lab_with_servers(name: &str) -> Result<(Lab, [StreamServer; 2])> {
    let lab = cast::two_pods(name, RouteBack::Known).up()?;
    masquerade(&lab, &["10.30.0.0/16"])?;
    let peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let exempt = StreamServer::start(&lab, "peer", "10.30.0.10:443", Behaviour::Answer)?;
    Ok((lab, [peer, exempt]))
}

/// Six kinds of flows go by; each filter shows exactly its own.
fn filters() -> Result<()> {
    let (lab, _servers) = lab_with_servers("filters")?;
    let _alt = StreamServer::start(&lab, "peer", "10.20.30.40:8443", Behaviour::Answer)?;
    let _dns = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let pod2 = lab.netns("pod2");
    let cases: [(&[&str], &[&str]); 6] = [
        (&["10.20.30.40:8443"], &["tcp 1002"]),
        (
            &["--dest", PEER, "--port", "443,8000-9000"],
            &["tcp 1001", "tcp 1002", "tcp 2001"],
        ),
        (&["--dest", PEER, "--proto", "udp"], &["udp 1003"]),
        (
            &["--dest", "10.0.0.0/8", "--src", cast::POD2],
            &["tcp 2001"],
        ),
        (&["--dest", PEER, "--netns", &pod2], &["tcp 2001"]),
        (&["--dest", "10.30.0.0/16"], &["tcp 1004"]),
    ];
    for (args, should) in cases {
        let trace = Srctrace::new(&lab, args).start()?;
        for (ns, to, sport) in [
            ("pod", "10.20.30.40:443", 1001),
            ("pod", "10.20.30.40:8443", 1002),
            ("pod2", "10.20.30.40:443", 2001),
        ] {
            ensure!(
                StreamCall::new(ns, to, sport).run(&lab)?.seen().is_some(),
                "{ns} to {to}"
            );
        }
        let udp = UdpCall::new("pod", 1003, "10.20.30.40:53").run(&lab)?;
        let exempt = StreamCall::new("pod", "10.30.0.10:443", 1004).run(&lab)?;
        ensure!(
            udp.seen().and(exempt.seen()).is_some(),
            "{udp:?} {exempt:?}"
        );
        let report = trace.stop()?;
        let mut is: Vec<String> = Vec::new();
        for flow in report.flows()? {
            is.push(format!(
                "{} {}",
                flow["flow"]["proto"].as_str().unwrap_or("-"),
                flow["flow"]["sport"]
            ));
        }
        is.sort();
        ensure!(
            is == should,
            "{args:?} showed {is:?}, should be {should:?}\n{}",
            report.stderr
        );
        left_out_is_told(&report)?;
    }
    Ok(())
}

/// What is seen and not reported is counted as left out.
fn left_out_is_told(report: &Report) -> Result<()> {
    let counts = &report.summary()?["flows"];
    let [seen, reported, left_out] = ["seen", "reported", "left_out"].map(|of| counts[of].as_u64());
    let rest = seen.zip(reported).map(|(seen, reported)| seen - reported);
    same("flows left out", left_out, rest)
}

/// Started as in a debug pod without the host's network, and then told which namespace is the node.
fn started_in_a_pod() -> Result<()> {
    let (lab, _servers) = lab_with_servers("debugpod")?;
    let node = lab.netns("node");
    let remedy = format!("give --node-netns {node}");
    let run = |more: &[&str]| -> Result<Report> {
        let mut args = vec!["--dest", PEER, "--expect-source", "node"];
        args.extend(more);
        let srctrace = Srctrace::new(&lab, &args).started_in("pod2");
        watch_with(&srctrace, 1, || {
            let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
            same(
                "what the far side saw",
                outcome,
                answered("10.100.0.5:43210")?,
            )
        })
    };
    let lost = run(&[])?;
    let warned: Vec<&str> = lost
        .stderr
        .lines()
        .filter(|l| l.contains(&remedy))
        .collect();
    ensure!(warned.len() == 1, "not one warning: {}", lost.stderr);
    same("exit status in a pod", lost.status, Some(5)).context(lost.stderr.clone())?;
    let complete = lost.only_flow()?["verdict"]["complete"].clone();
    same("complete in a pod", complete, false.into())?;
    let told = run(&["--node-netns", &node])?;
    ensure!(!told.stderr.contains("warning"), "{}", told.stderr);
    same("exit status with the node named", told.status, Some(0))
}

fn limits() -> Result<()> {
    let (lab, _servers) = lab_with_servers("limits")?;
    let counted = Srctrace::new(&lab, &["--dest", PEER, "--flows", "2"]).start()?;
    for sport in [1001, 1002] {
        let outcome = StreamCall::new("pod", "10.20.30.40:443", sport).run(&lab)?;
        same(
            "whom the far side saw",
            outcome,
            answered(&format!("10.100.0.5:{sport}"))?,
        )?;
    }
    let report = counted.finish()?;
    same("exit status after two flows", report.status, Some(0))?;
    same("flows", report.flows()?.len(), 2)?;
    let timed = Srctrace::new(&lab, &["--dest", PEER, "--duration", "1s"]).run_to_end()?;
    same("exit status after a silent second", timed.status, Some(4))?;
    let duration = timed.summary()?["duration_s"]
        .as_f64()
        .context("duration_s")?;
    ensure!((0.9..5.0).contains(&duration), "a second took {duration} s");
    Ok(())
}

fn tap(tap: &str) -> Result<()> {
    let (lab, _servers) = lab_with_servers(tap)?;
    let report = watch(&lab, &["--dest", PEER, "--tap", tap], 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(
        &lab,
        &report,
        &format!("tap_{tap}_only"),
        &[&masqueraded_by(&["rule iptables-legacy nat/IP-MASQ 2"])],
        &[],
    )
}

/// One request while the output goes to `output`; srctrace must then end by itself.
fn ends_by_itself(name: &str, output: Output) -> Result<Report> {
    let (lab, _servers) = lab_with_servers(name)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER])
        .output(output)
        .start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same(
        "what the far side saw",
        outcome,
        answered("10.100.0.5:43210")?,
    )?;
    trace.finish()
}

fn closed_pipe() -> Result<()> {
    let report = ends_by_itself("pipe", Output::ClosedPipe)?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    let complains = ["roken pipe", "panicked"]
        .iter()
        .any(|word| report.stderr.contains(word));
    ensure!(!complains, "it complains: {}", report.stderr);
    Ok(())
}

fn full_disk() -> Result<()> {
    let report = ends_by_itself("full", Output::Full)?;
    same("exit status", report.status, Some(6)).context(report.stderr.clone())?;
    ensure!(
        report.stderr.contains("No space left"),
        "the reason is missing: {}",
        report.stderr
    );
    Ok(())
}

/// Each is refused with status 2 and one line that names the wrong word, before anything is attached.
fn wrong_input() -> Result<()> {
    let lab = cast::one_pod("wrong", RouteBack::Known).up()?;
    let cases: &[(&[&str], &str)] = &[
        (&["10.20.30"], "10.20.30"),
        (&["10.20.30.400"], "10.20.30.400"),
        (&["--dest", "10.20.0.0/33"], "10.20.0.0/33"),
        (&["--dest", "[fd50::20"], "[fd50::20"),
        (&["10.20.30.40:0"], "10.20.30.40:0"),
        (&["10.20.30.40:65536"], "10.20.30.40:65536"),
        (&["--dest", PEER, "--port", "90-80"], "90-80"),
        (
            &["--dest", PEER, "--proto", "carrier-pigeon"],
            "carrier-pigeon",
        ),
        (&["--dest", PEER, "--src", "nonsense"], "nonsense"),
        (
            &["--dest", PEER, "--netns", "no-such-netns"],
            "no-such-netns",
        ),
        (&["--dest", PEER, "--netns", "999999999"], "999999999"),
        (&["--dest", PEER, "--pod", "no/such-pod"], "no/such-pod"),
        (
            &["--dest", PEER, "--node-netns", "/etc/hostname"],
            "/etc/hostname",
        ),
        (&["--dest", PEER, "-i", "no-such-if"], "no-such-if"),
        (&["--dest", PEER, "--tap", "beer"], "beer"),
        (&["--dest", PEER, "--duration", "soon"], "soon"),
        (&["--dest", PEER, "--expect-source", "somebody"], "somebody"),
        (
            &["--dest", "10.20.0.0/16", "--probe", "tcp"],
            "10.20.0.0/16",
        ),
        (&["--dest", PEER, "--no-such-option"], "--no-such-option"),
        (
            &["name-that-does-not-exist.invalid"],
            "name-that-does-not-exist.invalid",
        ),
    ];
    let mut wrong = Vec::new();
    for (args, named) in cases {
        let report = Srctrace::new(&lab, args).whole_machine().run_to_end()?;
        let first = report.stderr.lines().next().unwrap_or_default();
        if report.status != Some(2) || !first.contains(named) || !report.lines.is_empty() {
            wrong.push(format!(
                "{args:?}: status {:?}, said {:?}",
                report.status, report.stderr
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
