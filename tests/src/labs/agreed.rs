//! Row A12 with a contract, and the report as a page.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Case;
use super::options::lab_with_servers;
use super::steps::{answered, same, same_text, without_ports};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER};
use crate::trace::expect::compare;
use crate::trace::{Files, Names, Report, Srctrace, srctrace};
use crate::traffic::StreamCall;

pub(super) const CASES: &[Case] = &[
    Case::new("a12_contract_probed", &["A12"], probed),
    Case::new("a12_contract_uncertain", &["A12"], uncertain),
    Case::new("a12_contract_watched", &["A12"], watched),
    Case::new("a12_contract_malformed", &["A12"], malformed),
    Case::new("report_as_a_page", &[], page),
];

/// Two destinations, of which the agent exempts one; who may send is named by network namespace.
fn contract(lab: &Lab, files: &Files, exempt: &str) -> Result<String> {
    let pod = lab.netns("pod");
    let text = format!(
        "version = 1\n\n[[to]]\ndest = \"10.20.30.40:443\"\nfrom = {{ netns = [\"{pod}\"] }}\nsource = \"node\"\n\
         replies_to = \"10.100.0.0/16\"\nidentity = \"application\"\nagreed = {{ by = \"A. Example\", on = 2026-11-20 }}\n\n\
         [[to]]\ndest = \"10.30.0.10:443\"\nfrom = {{ netns = [\"{pod}\"] }}\nsource = \"{exempt}\"\nreplies_to = \"10.0.0.0/8\"\n\
         identity = \"source\"\nagreed = {{ by = \"B. Example\", on = 2026-11-21 }}\n"
    );
    files.write("agreed.toml", text.as_bytes())
}

/// The lines for the ticket, without their times.
fn tickets(report: &Report) -> Result<Vec<String>> {
    let objects = report.objects()?;
    let agreements = objects.iter().filter(|line| line["type"] == "agreement");
    let lines = agreements.map(|line| {
        let text = line["line"].as_str().unwrap_or_default();
        let checked = line["checked"].as_str().unwrap_or("never");
        text.replace(checked, "TIME")
    });
    Ok(lines.collect())
}

const PEER_LINE: &str = "to 10.20.30.40:443: leaves as 10.100.0.5 (node); replies return to 10.100.0.0/16; \
    rule iptables-legacy nat/IP-MASQ 2; checked TIME";
const EXEMPT_LINE: &str = "to 10.30.0.10:443: leaves as 10.12.3.4 (kept); replies return to 10.0.0.0/8; \
    rule iptables-legacy nat/IP-MASQ 1; checked TIME";

/// One request per entry, from where its senders are; the whole report. Then the rules change, and the contract is broken.
fn probed() -> Result<()> {
    let (lab, _servers) = lab_with_servers("agreed")?;
    let files = Files::new(&lab)?;
    let file = contract(&lab, &files, "preserved")?;
    let run_with = |file: &str| Srctrace::new(&lab, &["--contract", file, "--probe"]).run_to_end();
    let run = || run_with(&file);
    let mut report = run()?;
    same("the status", report.status, Some(0)).context(report.stderr.clone())?;
    same(
        "the tickets",
        tickets(&report)?,
        vec![PEER_LINE.to_owned(), EXEMPT_LINE.to_owned()],
    )?;
    without_ports(&mut report)?;
    let names = Names::of(&[(&lab, "")]);
    compare("a12_contract_probed", &report, &names)?;
    // An entry for a prefix names the address that is asked.
    let text = std::fs::read_to_string(&file)?.replace(
        "\"10.30.0.10:443\"",
        "\"10.30.0.0/16\"\nprobe = \"10.30.0.10:443\"",
    );
    let prefix = run_with(&files.write("prefix.toml", text.as_bytes())?)?;
    same("the status of a prefix", prefix.status, Some(0)).context(prefix.stderr.clone())?;
    let exempt = EXEMPT_LINE.replace("10.30.0.10:443", "10.30.0.0/16");
    same(
        "the tickets of a prefix",
        tickets(&prefix)?,
        vec![PEER_LINE.to_owned(), exempt],
    )?;

    lab.iptables_legacy("node", "-t nat -I IP-MASQ -d 10.20.0.0/16 -j RETURN")?;
    let mut broken = run()?;
    same("the status when it is broken", broken.status, Some(1)).context(broken.stderr.clone())?;
    let violated = "to 10.20.30.40:443: VIOLATED: leaves as 10.12.3.4 (kept), agreed is the node's; replies return to 10.12.3.4, \
        agreed is 10.100.0.0/16; rule iptables-legacy nat/IP-MASQ 1; checked TIME";
    let exempt = EXEMPT_LINE.replace("IP-MASQ 1", "IP-MASQ 2");
    same(
        "the tickets when it is broken",
        tickets(&broken)?,
        vec![violated.to_owned(), exempt],
    )?;
    without_ports(&mut broken)?;
    compare("a12_contract_broken", &broken, &names)
}

/// What dies on the node has no source that could be compared, and what cannot be sent is not checked.
fn uncertain() -> Result<()> {
    let (lab, _servers) = lab_with_servers("unsure")?;
    let files = Files::new(&lab)?;
    let file = contract(&lab, &files, "preserved")?;
    lab.iptables_legacy("node", "-A FORWARD -d 10.20.0.0/16 -j DROP")?;
    let run = |more: &[&str]| {
        let args = [&["--contract", &file, "--probe"], more].concat();
        Srctrace::new(&lab, &args).run_to_end()
    };
    let dropped = run(&[])?;
    same("the status", dropped.status, Some(5)).context(dropped.stderr.clone())?;
    let unsure =
        "to 10.20.30.40:443: NOT CHECKED: too little was seen to tell its source; agreed is node";
    let should = vec![unsure.to_owned(), EXEMPT_LINE.to_owned()];
    same("the tickets", tickets(&dropped)?, should)?;
    let expect = dropped.summary()?["expect"].clone();
    let held: Vec<&Value> = expect
        .as_array()
        .into_iter()
        .flatten()
        .map(|line| &line["held"])
        .collect();
    same("what holds", held, vec![&Value::Null, &Value::Bool(true)])?;

    let nobody = run(&["--from", &lab.netns("node")])?;
    same("the status of what is not sent", nobody.status, Some(4))
        .context(nobody.stderr.clone())?;
    let unchecked = |to: &str, source: &str| {
        format!("to {to}: NOT CHECKED: no flow was seen; agreed is {source}")
    };
    let should = vec![
        unchecked("10.20.30.40:443", "node"),
        unchecked("10.30.0.10:443", "preserved"),
    ];
    same("the tickets of what is not sent", tickets(&nobody)?, should)?;
    let why =
        "agreed.toml: line 3: to 10.20.30.40:443 nothing is sent: --from is none of its senders";
    ensure!(nobody.stderr.contains(why), "{}", nobody.stderr);
    Ok(())
}

/// Real traffic, also of a sender that nobody agreed about; a recording and the report say the same of it.
fn watched() -> Result<()> {
    let (lab, _servers) = lab_with_servers("watched")?;
    let files = Files::new(&lab)?;
    let file = contract(&lab, &files, "node")?;
    let recording = files.path("run.srct");
    let trace = Srctrace::new(&lab, &["--contract", &file, "--record", &recording]).start()?;
    for (pod, to) in [("pod", PEER), ("pod", cast::EXEMPT), ("pod2", PEER)] {
        let outcome = StreamCall::new(pod, &format!("{to}:443"), 0).run(&lab)?;
        ensure!(outcome.seen().is_some(), "{pod} to {to}: {outcome:?}");
    }
    trace.wait_flows(3)?;
    let live = trace.stop()?;
    same("the status", live.status, Some(1)).context(live.stderr.clone())?;
    let violated = "to 10.30.0.10:443: VIOLATED: leaves as 10.12.3.4 (kept), agreed is the node's; replies return to 10.0.0.0/8; \
        rule iptables-legacy nat/IP-MASQ 1; checked TIME";
    let should = vec![PEER_LINE.to_owned(), violated.to_owned()];
    same("the tickets", tickets(&live)?, should.clone())?;
    let codes = |report: &Report| -> Result<Vec<Vec<String>>> {
        let told = ["expectation-violated", "outside-contract"];
        let of = |flow: &Value| crate::trace::digest::findings(flow);
        let kept = |codes: Vec<String>| {
            codes
                .into_iter()
                .filter(|c| told.contains(&c.as_str()))
                .collect()
        };
        let mut flows: Vec<Vec<String>> =
            report.flows()?.iter().map(|flow| kept(of(flow))).collect();
        flows.sort();
        Ok(flows)
    };
    let found = vec![
        vec![],
        vec!["expectation-violated".to_owned()],
        vec!["outside-contract".to_owned()],
    ];
    same("what flows say", codes(&live)?, found.clone())?;
    let again = srctrace(&["merge", &recording, "-o", "json"])?;
    same_text(
        "told again",
        &again.lines.join("\n"),
        &live.lines.join("\n"),
    )?;
    same("its status", again.status, live.status)?;
    let json = files.write("run.json", live.lines.join("\n").as_bytes())?;
    for given in [&recording, &json] {
        let args = ["--contract", &file, "--from-report", given, "-o", "json"];
        let report = srctrace(&args)?;
        same("the tickets from a file", tickets(&report)?, should.clone())
            .context(report.stderr.clone())?;
        same("the status from a file", report.status, Some(1))?;
    }
    Ok(())
}

/// One clear line with file, line and key; nothing is traced and nothing is sent.
fn malformed() -> Result<()> {
    let (lab, [peer, _]) = lab_with_servers("badpact")?;
    let files = Files::new(&lab)?;
    let good =
        std::fs::read_to_string(contract(&lab, &files, "preserved")?).context("the contract")?;
    for (from, to, should) in [
        (
            "source = \"node\"",
            "sorce = \"node\"",
            "line 6: to[0].sorce: unknown field `sorce`, expected one of `dest`, `probe`, `proto`, `from`, `source`, `replies_to`, `identity`, `agreed`, `note`",
        ),
        (
            "replies_to = \"10.0.0.0/8\"",
            "replies_to = \"10.0.0.1/8\"",
            "line 15: to[1].replies_to: \"10.0.0.1/8\" is no prefix: give 10.100.0.0/16 (no host bits set) or an address",
        ),
    ] {
        let file = files.write("bad.toml", good.replacen(from, to, 1).as_bytes())?;
        let report = Srctrace::new(&lab, &["--contract", &file, "--probe"]).run_to_end()?;
        let said = format!("srctrace: {file}: {should}");
        same(
            "what it says",
            (report.stderr.trim_end(), report.status),
            (said.as_str(), Some(2)),
        )?;
    }
    let report =
        Srctrace::new(&lab, &["--contract", &files.path("none.toml"), "--probe"]).run_to_end()?;
    same("the status without a file", report.status, Some(2))?;
    same("connections", peer.seen().len(), 0)
}

/// The page holds what text does, needs nothing else, and cannot be broken by names.
fn page() -> Result<()> {
    let (lab, _servers) = lab_with_servers("page")?;
    let run = |format: &str| -> Result<Report> {
        let args = [PEER, "--expect-source", "node", "-o", format];
        let trace = Srctrace::new(&lab, &args).text().start()?;
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
        same(
            "the request",
            call.run(&lab)?,
            answered("10.100.0.5:43210")?,
        )?;
        trace.wait_prints("Replies came back to the pod.")?;
        trace.stop()
    };
    let text = run("text")?;
    let page = run("html")?;
    same("the status", (text.status, page.status), (Some(0), Some(0)))?;
    let whole = page.lines.join("\n");
    ensure!(
        whole.starts_with("<!DOCTYPE html>") && whole.ends_with("</body></html>"),
        "{whole}"
    );
    for outside in [
        "http:", "https:", "<script", "src=", "href=", "url(", "@import",
    ] {
        ensure!(!whole.contains(outside), "{outside} in the page:\n{whole}");
    }
    // How long a packet took is another time's in the other run.
    let lines = text.lines.iter().filter(|line| !line.contains(" in "));
    let shown = lines.map(|line| line.split_once("  +").map_or(line.as_str(), |(l, _)| l));
    for line in shown {
        let escaped = line
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;");
        ensure!(
            whole.contains(escaped.trim()),
            "the page lacks {line:?}:\n{whole}"
        );
    }
    Ok(())
}
