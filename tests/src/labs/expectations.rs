//! Row A12: one request, and whether it leaves with the source that was agreed - by exit status.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::Case;
use super::options::lab_with_servers;
use super::steps::same;
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::digest::findings;
use crate::trace::{Report, Srctrace};
use crate::traffic::StreamCall;

pub(super) const CASES: &[Case] = &[
    Case::new("a12_probe_holds", &["A12"], probe_holds),
    Case::new("a12_probe_violated", &["A12"], probe_violated),
    Case::new("a12_probe_without_answer", &["A12"], probe_without_answer),
    Case::new("expectations_on_real_traffic", &["A12"], expectations),
    Case::new("violations_are_a_group_of_their_own", &["A12"], violations),
];

/// The one-minute check after an upgrade, run to its end.
fn probe(lab: &Lab, dest: &str, expect: &[&str]) -> Result<Report> {
    let pod = lab.netns("pod");
    let mut args = vec![dest, "--from", &pod, "--probe", "tcp"];
    args.extend(expect);
    Srctrace::new(lab, &args).run_to_end()
}

fn expectation(report: &Report) -> Result<Value> {
    let expect = report.summary()?["expect"].clone();
    match expect.as_array().map(Vec::as_slice) {
        Some([one]) => Ok(one.clone()),
        _ => bail!("one expectation was given, and the summary has {expect}"),
    }
}

fn probe_holds() -> Result<()> {
    let (lab, [peer, _exempt]) = lab_with_servers("probe")?;
    let report = probe(&lab, "10.20.30.40:443", &["--expect-source", "node"])?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    let should = json!({"expect": "source=node", "held": true, "flows": 1, "skipped": 0, "violations": 0, "uncertain": 0, "by": ["iptables-legacy nat/IP-MASQ 2"]});
    same("the expectation", expectation(&report)?, should)?;
    let seen: Vec<String> = peer
        .seen()
        .iter()
        .map(|addr| addr.ip().to_string())
        .collect();
    same("whom the far side saw", seen, vec![cast::NODE.to_owned()])?;
    let flow = report.only_flow()?;
    same(
        "source on the wire",
        &flow["verdict"]["source_on_wire"],
        &cast::NODE.into(),
    )?;
    same(
        "where it began",
        &flow["origin"]["netns_name"],
        &lab.netns("pod").into(),
    )
}

fn probe_violated() -> Result<()> {
    let (lab, [_peer, exempt]) = lab_with_servers("violated")?;
    let report = probe(&lab, "10.30.0.10:443", &["--expect-source", "node"])?;
    same("exit status", report.status, Some(1)).context(report.stderr.clone())?;
    let should = json!({"expect": "source=node", "held": false, "flows": 1, "skipped": 0, "violations": 1, "uncertain": 0, "by": ["iptables-legacy nat/IP-MASQ 1"]});
    same("the expectation", expectation(&report)?, should)?;
    same("connections", exempt.seen().len(), 1)?;
    let kept = probe(&lab, "10.30.0.10:443", &["--expect-source", "preserved"])?;
    same("exit status when it should be kept", kept.status, Some(0))
}

fn probe_without_answer() -> Result<()> {
    let lab = cast::one_pod("unanswered", RouteBack::Missing).up()?;
    let report = probe(&lab, "10.20.30.40:443", &["--expect-reply"])?;
    same("exit status", report.status, Some(1)).context(report.stderr.clone())?;
    same(
        "delivery",
        &report.only_flow()?["delivery"]["code"],
        &"no-reply".into(),
    )
}

fn expectations() -> Result<()> {
    let (lab, _servers) = lab_with_servers("expect")?;
    let ask = |expect: &[&str]| -> Result<Option<i32>> {
        let mut args = vec!["--dest", PEER];
        args.extend(expect);
        let trace = Srctrace::new(&lab, &args).start()?;
        let outcome = StreamCall::new("pod", "10.20.30.40:443", 0).run(&lab)?;
        ensure!(
            outcome.seen().is_some(),
            "the request was not answered: {outcome:?}"
        );
        trace.wait_flows(1)?;
        Ok(trace.stop()?.status)
    };
    same(
        "node",
        ask(&["--expect-source", "node", "--expect-reply"])?,
        Some(0),
    )?;
    same(
        "its address",
        ask(&["--expect-source", cast::NODE])?,
        Some(0),
    )?;
    same(
        "its prefix",
        ask(&["--expect-source", "10.100.0.0/24"])?,
        Some(0),
    )?;
    same(
        "another prefix",
        ask(&["--expect-source", "10.12.0.0/16"])?,
        Some(1),
    )?;
    same(
        "preserved",
        ask(&["--expect-source", "preserved"])?,
        Some(1),
    )
}

/// Many flows are as expected, a few are not: the report says which, flow by flow and as a group.
fn violations() -> Result<()> {
    let (lab, _servers) = lab_with_servers("violations")?;
    let run = |args: &[&str]| -> Result<Report> {
        let mut all = vec!["10.0.0.0/8", "--port", "443", "--expect-source", "node"];
        all.extend(args);
        let trace = Srctrace::new(&lab, &all).start()?;
        for (pod, to) in [("pod", PEER), ("pod2", PEER), ("pod", cast::EXEMPT)] {
            for _ in 0..2 {
                let outcome = StreamCall::new(pod, &format!("{to}:443"), 0).run(&lab)?;
                ensure!(outcome.seen().is_some(), "{pod} to {to}: {outcome:?}");
            }
        }
        trace.stop()
    };
    let whole = |report: &Report| -> Result<Vec<Value>> {
        same("exit status", report.status, Some(1)).context(report.stderr.clone())?;
        let line = expectation(report)?;
        let is = (&line["held"], &line["flows"], &line["violations"]);
        same("the expectation", is, (&json!(false), &json!(6), &json!(2)))?;
        let groups = report.summary()?["groups"].clone();
        let groups = groups.as_array().cloned().unwrap_or_default();
        let groups = groups
            .iter()
            .map(|g| (&g["count"], &g["violates"]))
            .collect::<Vec<_>>();
        let should = [
            (&json!(4), &json!([])),
            (&json!(2), &json!(["source=node"])),
        ];
        same("the groups", groups.as_slice(), should.as_slice())?;
        report.flows()
    };
    let marked = |flows: &[Value]| -> Vec<(String, u64)> {
        // What was asked for is told before all else.
        let violates = |f: &&Value| {
            let first = findings(f).first().cloned();
            first.is_some_and(|code| code == "expectation-violated")
        };
        let name = |f: &Value| f["flow"]["dst"].as_str().unwrap_or_default().to_owned();
        let told = flows.iter().filter(violates);
        told.map(|f| (name(f), f["count"].as_u64().unwrap_or(0)))
            .collect()
    };
    let one = (cast::EXEMPT.to_owned(), 1);
    same(
        "each marked",
        marked(&whole(&run(&[])?)?),
        vec![one.clone(), one],
    )?;
    let group = vec![(cast::EXEMPT.to_owned(), 2)];
    same(
        "the marked group",
        marked(&whole(&run(&["--group"])?)?),
        group,
    )
}
