//! Rule stores that change while a trace runs.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::steps::{answered, same, wait_for};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{Report, Srctrace, Trace};
use crate::traffic::{Behaviour, StreamCall, StreamServer};
use std::path::Path;
use std::time::Duration;

const PROBED: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];
const TRACED: &[Kernel] = &[Kernel::Native, Kernel::V6_12];

pub(super) const CASES: &[Case] = &[
    Case::new("changed_meanwhile_nft_traced", &[], || nft("nftrace")).on(TRACED),
    Case::new("changed_meanwhile_nft_probed", &[], || nft("auto")).on(PROBED),
    Case::new("changed_meanwhile_legacy_probed", &[], legacy).on(PROBED),
    Case::new("module_loaded_meanwhile", &[], || netmap("iptables-legacy")).on(PROBED),
    Case::new("module_loaded_meanwhile_nft", &[], || {
        netmap("iptables-nft")
    })
    .on(PROBED),
];

/// One connection of the pod's.
fn call(lab: &Lab, seen: &str) -> Result<()> {
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?;
    same("what the far side saw", outcome, answered(seen)?)
}

/// Rules that run while srctrace stands still, and are others when it comes to read them.
fn changed(lab: &Lab, how: &str, change: impl FnOnce() -> Result<()>) -> Result<(Report, Value)> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = ["--dest", PEER, "--observe-rules", how, "-vv"];
    let trace = Srctrace::new(lab, &args).start()?;
    trace.while_still(|| {
        call(lab, "10.100.0.5:43210")?;
        change()
    })?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    let flow = report.only_flow()?;
    Ok((report, flow))
}

/// Nothing of the new rules is taken for what ran, and that is said.
fn said(report: &Report, flow: &Value, place: &str) -> Result<()> {
    let rule = &flow["rewrites"][0]["rule"];
    ensure!(rule["evidence"] != "observed", "a rule of now: {rule}");
    let findings = flow["findings"].as_array();
    let text = findings
        .into_iter()
        .flatten()
        .filter(|f| f["code"] == "rule-uncertain")
        .find_map(|f| f["text"].as_str());
    let text = text.with_context(|| format!("not said: {flow}; {}", report.stderr))?;
    ensure!(text.starts_with(place), "{text}");
    ensure!(
        text.contains("is not among the rules of the node"),
        "{text}"
    );
    Ok(())
}

const RULES: &str = "
    table ip real {
        chain post {
            type nat hook postrouting priority 100
            masquerade
        }
    }";

fn nft(how: &str) -> Result<()> {
    let lab = cast::one_pod("chgnft", RouteBack::Known).up()?;
    lab.nft("node", RULES)?;
    let (report, flow) = changed(&lab, how, || {
        lab.nft("node", "flush chain ip real post")?;
        lab.nft(
            "node",
            "add rule ip real post ip daddr 10.20.0.0/16 masquerade",
        )
    })?;
    said(&report, &flow, "nft ip real/post handle 2")
}

fn legacy() -> Result<()> {
    let lab = cast::one_pod("chgleg", RouteBack::Known).up()?;
    let rule = "-t nat -A POSTROUTING -d 10.20.0.0/16 -j MASQUERADE";
    lab.iptables_legacy("node", rule)?;
    let (report, flow) = changed(&lab, "auto", || {
        lab.iptables_legacy(
            "node",
            "-t nat -I POSTROUTING -d 10.99.0.0/16 -j MASQUERADE",
        )
    })?;
    said(&report, &flow, "iptables-legacy ip nat offset ")
}

const MODULE: &str = "/sys/module/xt_NETMAP";

/// A target whose module nobody had loaded when the trace began.
fn netmap(program: &str) -> Result<()> {
    let lab = cast::one_pod("modnew", RouteBack::Known).up()?;
    // What else nobody uses now goes too: then not even the tables' own layout is known.
    for module in [
        "xt_NETMAP",
        "iptable_nat",
        "ip_tables",
        "nft_compat",
        "x_tables",
    ] {
        let _ = lab.run("node", &format!("modprobe -r {module}"));
    }
    let gone = || !Path::new(MODULE).exists();
    if let Err(error) = wait_for("xt_NETMAP to go", Duration::from_secs(20), gone) {
        bail!("{error}: somebody uses it");
    }
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "-vv"]).start()?;
    let rule = "-t nat -A POSTROUTING -s 10.12.3.4/32 -d 10.20.0.0/16 -j NETMAP --to 10.100.0.5/32";
    lab.run("node", &format!("{program} {rule}"))?;
    trace.wait_says("netmap_tg4")?;
    call(&lab, "10.100.0.5:43210")?;
    named(trace, program)
}

fn named(trace: Trace, program: &str) -> Result<()> {
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    let flow = report.only_flow()?;
    let rule = &flow["rewrites"][0]["rule"];
    let is = (&rule["backend"], &rule["evidence"]);
    let should = (&Value::from(program), &Value::from("observed"));
    same("the rule", is, should).context(report.stderr.clone())?;
    let summary = report.summary()?;
    let rows = summary["observed_by"]["unavailable"].as_array();
    let row = rows.into_iter().flatten().find(|row| {
        let what = row["what"].as_str();
        what.is_some_and(|what| what.contains("netmap_tg4"))
    });
    let why = row.and_then(|row| row["why"].as_str()).unwrap_or_default();
    let begins = "loaded after the trace began; probed from its second ";
    ensure!(why.starts_with(begins), "not said: {summary}");
    Ok(())
}
