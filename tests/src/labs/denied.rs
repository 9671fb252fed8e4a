//! Row B6 as a check: a request that must be stopped, by a rule and not by a missing route.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::Case;
use super::steps::{same, without_ports};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::trace::{Expected, Names, Srctrace};
use crate::traffic::{Behaviour, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("b6_denied_by_a_rule", &["B6"], by_a_rule),
    Case::new("b6_denied_by_reject", &["B6"], by_reject),
    Case::new("b6_denied_by_a_missing_route", &["B6"], by_a_missing_route),
    Case::new("b6_silence_is_no_denial", &["B6"], silence),
    Case::new("b6_not_denied_at_all", &["B6"], not_at_all),
];

const FLOW: &str = "tcp 10.12.3.4:0 > 10.20.30.40:443 from pod pod";

/// One probe from the pod that must be denied by that; the exit status, the expectation's line, and what a violation says.
fn denied(
    lab: &Lab,
    by: &str,
    (status, held): (i32, Option<bool>),
    rules: &[&str],
    violation: Option<&str>,
) -> Result<crate::trace::Report> {
    let pod = lab.netns("pod");
    let args = [
        "10.20.30.40:443",
        "--from",
        &pod,
        "--probe",
        "tcp",
        "--expect-denied",
        by,
    ];
    let report = Srctrace::new(lab, &args).run_to_end()?;
    same("exit status", report.status, Some(status)).context(report.stderr.clone())?;
    let [judged, violations, uncertain] = match held {
        Some(true) => [1, 0, 0],
        Some(false) => [1, 1, 0],
        None => [0, 0, 1],
    };
    let line = json!([{"expect": format!("denied={by}"), "held": held, "flows": judged, "skipped": 0,
        "violations": violations, "uncertain": uncertain, "by": rules}]);
    same("the expectation", &report.summary()?["expect"], &line)?;
    let flow = report.only_flow()?;
    let first = &flow["findings"][0];
    let said = (first["code"] == "expectation-violated").then(|| first["text"].clone());
    let should = violation
        .map(|text| json!(text.replace("node has", &format!("{} has", lab.netns("node")))));
    same("the violation", said, should)?;
    Ok(report)
}

const POLICY: &str = "iptables-legacy filter/FORWARD 2";

/// A rule drops it, and another one of the same chain does not concern it.
fn dropping(name: &str, target: &str) -> Result<Lab> {
    let lab = cast::one_pod(name, RouteBack::Known).up()?;
    lab.iptables_legacy(
        "node",
        "-A FORWARD -s 10.12.0.0/16 -p tcp --dport 444 -j DROP",
    )?;
    lab.iptables_legacy(
        "node",
        &format!("-A FORWARD -s 10.12.0.0/16 -p tcp --dport 443 -j {target}"),
    )?;
    Ok(lab)
}

fn by_a_rule() -> Result<()> {
    let lab = dropping("b6rule", "DROP")?;
    denied(&lab, "any", (0, Some(true)), &[POLICY], None)?;
    let report = denied(&lab, "policy", (0, Some(true)), &[POLICY], None)?;
    whole(&lab, report, "b6_denied_by_a_rule", 0)?;
    let broken = "denied=route was expected, and a rule did it: stopped by iptables-legacy filter/FORWARD rule 2";
    let report = denied(&lab, "route", (1, Some(false)), &[POLICY], Some(broken))?;
    whole(&lab, report, "b6_denied_by_a_rule_not_a_route", 1)
}

/// A probe has a port of the kernel's choice: that is not compared.
fn whole(lab: &Lab, mut report: crate::trace::Report, name: &str, status: i32) -> Result<()> {
    without_ports(&mut report)?;
    let violated = match status {
        1 => "expectation-violated: iptables-legacy filter/FORWARD 2\n",
        _ => "",
    };
    let claims = format!(
        "{FLOW}\ndropped: NETFILTER_DROP\n{violated}policy-drop: iptables-legacy filter/FORWARD 2\n\
         source-unknown, on the wire null, dropped"
    );
    let expected = Expected {
        name,
        status,
        flows: &[&claims],
        findings: &[(0, "policy-drop")],
    };
    expected.hold(&report, &Names::of(&[(lab, "")]))
}

/// What a rule refuses is denied by policy, whatever the refusal looks like.
fn by_reject() -> Result<()> {
    for with in ["tcp-reset", "icmp-net-unreachable"] {
        let lab = dropping("b6rej", &format!("REJECT --reject-with {with}"))?;
        denied(&lab, "policy", (0, Some(true)), &[POLICY], None)?;
        let broken = "denied=route was expected, and a rule did it: stopped by iptables-legacy filter/FORWARD rule 2";
        denied(&lab, "route", (1, Some(false)), &[POLICY], Some(broken))?;
    }
    Ok(())
}

fn by_a_missing_route() -> Result<()> {
    let lab = cast::one_pod("b6nort", RouteBack::Known).up()?;
    lab.ip("node", "route del default via 10.100.0.1")?;
    denied(&lab, "route", (0, Some(true)), &[], None)?;
    let broken = "denied=policy was expected, and node has no route to 10.20.30.40";
    denied(&lab, "policy", (1, Some(false)), &[], Some(broken))?;
    Ok(())
}

/// The request leaves and nothing comes back: that may be a denial beyond, or a missing route back.
fn silence() -> Result<()> {
    let lab = cast::one_pod("b6silent", RouteBack::Missing).up()?;
    for by in ["policy", "route", "any"] {
        denied(&lab, by, (5, None), &[], None)?;
    }
    Ok(())
}

fn not_at_all() -> Result<()> {
    let lab = cast::one_pod("b6open", RouteBack::Known).up()?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let broken = "denied=policy was expected, and an answer came";
    denied(&lab, "policy", (1, Some(false)), &[], Some(broken))?;
    Ok(())
}
