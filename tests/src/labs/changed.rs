//! Row A13: one known request before and after the rules changed, and whose source that changed.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::Case;
use super::steps::{A_MOMENT, masquerade, same, same_text};
use crate::lab::Lab;
use crate::lab::cast::{self, EXEMPT, PEER, RouteBack};
use crate::trace::normal::normal;
use crate::trace::{Files, Names, Srctrace, srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[Case::new(
    "a13_before_and_after",
    &["A13"],
    before_and_after,
)];

/// A run with a recording: the same requests each time, from other ports. The JSON report is written beside the recording.
fn run(lab: &Lab, files: &Files, name: &str, more: &[(&str, &str)]) -> Result<()> {
    let file = files.path(&format!("{name}.srct"));
    let trace = Srctrace::new(lab, &[PEER, EXEMPT, "--record", &file]).start()?;
    for (pod, to) in [("pod", PEER), ("pod2", PEER), ("pod", EXEMPT)]
        .iter()
        .chain(more)
    {
        StreamCall::new(pod, &format!("{to}:443"), 0)
            .patience(A_MOMENT)
            .run(lab)?;
    }
    let report = trace.stop()?;
    same("the run's status", report.status, Some(0)).context(report.stderr.clone())?;
    files
        .write(&format!("{name}.json"), report.lines.join("\n").as_bytes())
        .map(drop)
}

const CHANGED: &str = "\
tcp 10.12.3.4 → 10.20.30.40:443: 10.100.0.5 ⇒ 10.12.3.4 (kept); before: iptables-legacy nat/IP-MASQ rule 2; now: exempt by iptables-legacy nat/IP-MASQ rule 1; completed ⇒ no reply
tcp 10.12.4.4 → 10.20.30.40:443: 10.100.0.5 ⇒ 10.12.4.4 (kept); before: iptables-legacy nat/IP-MASQ rule 2; now: exempt by iptables-legacy nat/IP-MASQ rule 1; completed ⇒ no reply
only now: tcp node → 10.20.30.40:443
3 paths in both: 2 sources changed";

/// The list of exemptions gets one entry more. Both kinds of files, in any mix, say the same.
fn before_and_after() -> Result<()> {
    let lab = cast::two_pods("a13", RouteBack::Missing).up()?;
    masquerade(&lab, &["10.30.0.0/16"])?;
    let _servers = [
        StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?,
        StreamServer::start(&lab, "peer", "10.30.0.10:443", Behaviour::Answer)?,
    ];
    let files = Files::new(&lab)?;
    run(&lab, &files, "before", &[])?;
    lab.iptables_legacy("node", "-t nat -I IP-MASQ -d 10.20.0.0/16 -j RETURN")?;
    run(&lab, &files, "after", &[("node", PEER)])?;
    let diff = |from: &str, to: &str, more: &[&str]| {
        let (from, to) = (files.path(from), files.path(to));
        srctrace(&[&["diff", &from, &to], more].concat())
    };
    for (from, to) in [
        ("before.json", "after.json"),
        ("before.srct", "after.srct"),
        ("before.srct", "after.json"),
        ("before.json", "after.srct"),
    ] {
        let report = diff(from, to, &[])?;
        let text = report.lines.join("\n").replace(" (ip-masq-agent)", "");
        same_text(&format!("{from} to {to}"), &text, CHANGED)?;
        same("its status", report.status, Some(1))?;
    }
    let same_run = diff("before.json", "before.srct", &[])?;
    let unchanged = vec!["3 paths in both: no source changed".to_owned()];
    same(
        "a run with itself",
        (same_run.lines, same_run.status),
        (unchanged, Some(0)),
    )?;
    as_json(
        &lab,
        &diff("before.json", "after.json", &["-o", "json"])?.objects()?,
    )?;
    malformed(&files)
}

fn as_json(lab: &Lab, lines: &[Value]) -> Result<()> {
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str()).collect();
    same(
        "the lines",
        kinds,
        ["change", "change", "compared", "summary"]
            .map(Some)
            .to_vec(),
    )?;
    let change = normal("", lines[0].clone(), &Names::of(&[(lab, "")]));
    let rule = |index: u32, text: &str, comment: Value| {
        json!({"backend": "iptables-legacy", "family": "ip", "table": "nat", "chain": "IP-MASQ", "index": index,
            "handle": null, "text": text, "comment": comment, "owner": change["rule_after"]["owner"],
            "evidence": "<observed or replayed>", "path": ["POSTROUTING 1", format!("IP-MASQ {index}")]})
    };
    let masquerade = change["rule_before"].clone();
    same(
        "the rule before",
        (&masquerade["index"], &masquerade["chain"]),
        (&json!(2), &json!("IP-MASQ")),
    )?;
    let should = json!({
        "type": "change", "complete": true,
        "flow": {"kind": "pod", "who": "10.12.3.4", "proto": "tcp", "dst": PEER, "dport": 443},
        "from": [{"source": "source-rewritten", "addr": cast::NODE, "flows": 1}],
        "to": [{"source": "source-preserved", "addr": cast::POD, "flows": 1}],
        "rule_before": masquerade,
        "rule_after": rule(1, "-A IP-MASQ -d 10.20.0.0/16 -j RETURN", Value::Null),
        "delivery_before": ["completed"], "delivery_after": ["no-reply"],
    });
    same(
        "the first change",
        change,
        normal("", should, &Names::of(&[])),
    )?;
    let compared = json!({
        "type": "compared", "paths": 3, "changed": 2, "unchanged": 1, "untold": 0, "only_before": [],
        "only_after": [{"kind": "node", "who": "node", "proto": "tcp", "dst": PEER, "dport": 443}],
        "only": [0, 1], "older": [0, 0], "overflow": [0, 0],
    });
    same("what was compared", &lines[2], &compared)
}

/// One clear line and status 2, with file, line and key.
fn malformed(files: &Files) -> Result<()> {
    let whole = std::fs::read_to_string(files.path("after.json")).context("the report")?;
    let broken = |from: &str, to: &str| -> Result<(String, Option<i32>)> {
        let text: Vec<String> = whole
            .lines()
            .enumerate()
            .map(|(at, line)| {
                if at == 1 {
                    line.replacen(from, to, 1)
                } else {
                    line.to_owned()
                }
            })
            .collect();
        files.write("broken.json", text.join("\n").as_bytes())?;
        let report = srctrace(&[
            "diff",
            &files.path("before.json"),
            &files.path("broken.json"),
        ])?;
        let said = report.stderr.replace(&files.path(""), "");
        Ok((said, report.status))
    };
    let says = |text: &str| (format!("srctrace: broken.json: {text}"), Some(2));
    let port = broken("\"dport\":443", "\"dport\":99999")?;
    same(
        "a port",
        port,
        says("line 2: flow: invalid value: integer `99999`, expected u16"),
    )?;
    let code = broken("\"code\":\"", "\"code\":\"not-")?;
    same(
        "a code",
        (
            code.0
                .starts_with("srctrace: broken.json: line 2: delivery.code: unknown variant `not-"),
            code.1,
        ),
        (true, Some(2)),
    )
    .context(code.0)?;
    let cut = broken("{\"type\":\"flow\",", "{\"type\":\"flow\"")?;
    same("a comma", cut, says("line 2: expected `,` or `}`"))?;
    let nothing = files.write("nothing.json", b"{\"type\":\"capability\"}")?;
    let report = srctrace(&["diff", &nothing, &nothing])?;
    let said = format!(
        "srctrace: {nothing}: no report of a trace: neither a flow nor a summary is in it; give what `srctrace -o json` printed"
    );
    same("no report", (report.stderr, report.status), (said, Some(2)))
}
