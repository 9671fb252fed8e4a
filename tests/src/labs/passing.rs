//! `--observe-rules full`: what NAT targets do not show, where every packet passes.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::steps::{answered, same, watch, watch_with};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{Report, Srctrace};
use crate::traffic::{Behaviour, StreamCall, StreamServer, UdpCall, UdpServer};

/// Where kprobes are.
const PROBED: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

pub(super) const CASES: &[Case] = &[
    Case::new("passed_nft_exempts", &[], nft_exempts).on(PROBED),
    Case::new("passed_iptables_nft_exempts", &[], iptables_nft_exempts).on(PROBED),
    Case::new("passed_nft_marks", &[], nft_marks).on(PROBED),
    Case::new("passed_iptables_nft_marks", &[], || marks("iptables-nft")).on(PROBED),
    Case::new("passed_legacy_marks", &[], || marks("iptables-legacy")).on(PROBED),
    Case::new("passed_legacy_return_is_replayed", &[], legacy_exempts).on(PROBED),
    Case::new("passed_established_is_not_told", &[], established).on(PROBED),
    Case::new("passed_too_often_is_left", &[], left).on(PROBED),
];

/// One connection of the pod, traced with this observer; who the far side saw.
fn traced(lab: &Lab, how: &str, seen: &str) -> Result<Report> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = ["--dest", PEER, "--observe-rules", how, "-vv"];
    let report = watch(lab, &args, 1, || {
        let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?;
        same("what the far side saw", outcome, answered(seen)?)
    })?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    Ok(report)
}

/// The rules told with `-vv`: hook and place.
fn told(report: &Report) -> Vec<&str> {
    let lines = report.stderr.lines();
    let lines = lines.filter(|line| line.starts_with("srctrace: rule observed: flow "));
    lines
        .filter_map(|line| Some(line.split_once(" at ")?.1))
        .collect()
}

/// The rule that exempted the only flow: its place and how it is known.
fn exempting(report: &Report) -> Result<(String, String)> {
    let flow = report.only_flow()?;
    let findings = flow["findings"].as_array();
    let finding = findings
        .into_iter()
        .flatten()
        .find(|f| f["code"] == "exempt-by-rule")
        .with_context(|| format!("nothing exempted {flow}"))?;
    let rule = &finding["rule"];
    let text = |key: &str| rule[key].as_str().unwrap_or("-").to_owned();
    let place = format!(
        "{} {}/{} {}",
        text("backend"),
        text("table"),
        text("chain"),
        rule["index"]
    );
    Ok((place, text("evidence")))
}

/// `full` observes what `auto` replays.
fn exempted(lab: &Lab, rule: &str, full: &str) -> Result<()> {
    for (how, evidence) in [("full", full), ("auto", "replayed")] {
        let report = traced(lab, how, "10.12.3.4:43210")?;
        let should = (rule.to_owned(), evidence.to_owned());
        let is = exempting(&report)?;
        same("what exempted it", is, should)
            .with_context(|| format!("{how}: {}", report.stderr))?;
    }
    Ok(())
}

/// The exempting rule stands behind a decoy, in a chain that is jumped to.
const NATIVE: &str = "
    table inet real {
        chain masq {
            ip daddr 10.30.0.0/16 return
            ip daddr 10.20.0.0/16 return
            ip daddr 10.0.0.0/8 return
            masquerade
        }
        chain post {
            type nat hook postrouting priority 100
            ip saddr 10.12.0.0/16 goto masq
        }
    }";

fn nft_exempts() -> Result<()> {
    let lab = cast::one_pod("passnft", RouteBack::Known).up()?;
    lab.nft("node", NATIVE)?;
    exempted(&lab, "nft real/masq 2", "observed")?;
    // The way to it, and nothing else.
    let report = traced(&lab, "full", "10.12.3.4:43210")?;
    let places: Vec<_> = told(&report)
        .iter()
        .map(|line| line.split(" handle ").next().unwrap_or(line).to_owned())
        .collect();
    let should = [
        "postrouting: nft inet real/post",
        "postrouting: nft inet real/masq",
    ];
    same("rules", places, should.map(str::to_owned).to_vec())
}

const EXEMPT: &str = "*nat\n:IP-MASQ - [0:0]\n\
    -A POSTROUTING -j IP-MASQ\n\
    -A IP-MASQ -d 10.30.0.0/16 -j RETURN\n\
    -A IP-MASQ -d 10.20.0.0/16 -j RETURN\n\
    -A IP-MASQ -j MASQUERADE\nCOMMIT\n";

fn iptables_nft_exempts() -> Result<()> {
    let lab = cast::one_pod("passinft", RouteBack::Known).up()?;
    lab.restore("node", "iptables-nft-restore", EXEMPT)?;
    exempted(&lab, "iptables-nft nat/IP-MASQ 2", "observed")
}

/// A RETURN of iptables-legacy is a few instructions inside the kernel's loop over rules.
fn legacy_exempts() -> Result<()> {
    let lab = cast::one_pod("passleg", RouteBack::Known).up()?;
    lab.restore("node", "iptables-legacy-restore", EXEMPT)?;
    exempted(&lab, "iptables-legacy nat/IP-MASQ 2", "replayed")
}

/// As kube-proxy does: one rule marks, another one masquerades what is marked.
const MARKS: &str = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n:KUBE-POSTROUTING - [0:0]\n\
    -A PREROUTING -j KUBE-SERVICES\n\
    -A KUBE-SERVICES -d 10.99.0.0/16 -j MARK --set-xmark 0x8000/0x8000\n\
    -A KUBE-SERVICES -d 10.20.0.0/16 -j KUBE-MARK-MASQ\n\
    -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
    -A POSTROUTING -j KUBE-POSTROUTING\n\
    -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
    -A KUBE-POSTROUTING -j MASQUERADE\nCOMMIT\n";

fn marks(backend: &str) -> Result<()> {
    let lab = cast::one_pod("passmark", RouteBack::Known).up()?;
    lab.restore("node", &format!("{backend}-restore"), MARKS)?;
    marked(
        &lab,
        &format!("prerouting: {backend} ip nat/KUBE-MARK-MASQ"),
    )
}

fn nft_marks() -> Result<()> {
    let lab = cast::one_pod("passnmark", RouteBack::Known).up()?;
    lab.nft(
        "node",
        "table ip real {
            chain services {
                type filter hook prerouting priority -120
                ip daddr 10.99.0.0/16 meta mark set 0x8000
                ip daddr 10.20.0.0/16 meta mark set 0x4000
            }
            chain post {
                type nat hook postrouting priority 100
                meta mark 0x4000 masquerade
            }
        }",
    )?;
    marked(&lab, "prerouting: nft ip real/services")
}

/// The marking rule is told by `full`, and by that alone; the masquerading one by both.
fn marked(lab: &Lab, rule: &str) -> Result<()> {
    for (how, tells) in [("full", true), ("auto", false)] {
        let report = traced(lab, how, "10.100.0.5:43210")?;
        let is_told = told(&report).iter().any(|line| line.starts_with(rule));
        same("whether the mark's rule is told", is_told, tells)
            .with_context(|| format!("{how}: {}", report.stderr))?;
        let flow = report.only_flow()?;
        let rule = &flow["rewrites"][0];
        same(
            "evidence",
            &rule["rule"]["evidence"],
            &Value::from("observed"),
        )?;
        ensure!(rule["marked_by"].is_object(), "no marking rule: {rule}");
    }
    Ok(())
}

/// Later packets of a flow pass a verdict as well, and are not told.
fn established() -> Result<()> {
    let lab = cast::one_pod("passest", RouteBack::Known).up()?;
    lab.nft(
        "node",
        "table ip real {
            chain forward {
                type filter hook forward priority 0
                ct state established accept
                accept
            }
            chain post {
                type nat hook postrouting priority 100
                masquerade
            }
        }",
    )?;
    let report = traced(&lab, "full", "10.100.0.5:43210")?;
    let forward: Vec<_> = told(&report)
        .into_iter()
        .filter(|line| line.starts_with("forward: nft ip real/forward"))
        .collect();
    same("rules in forward", forward.len(), 1)?;
    ensure!(forward[0].ends_with("(rule 2)"), "{forward:?}");
    Ok(())
}

/// A packet a verdict, more packets than the limit: the probes go, and the report says so.
fn left() -> Result<()> {
    let lab = cast::one_pod("passleft", RouteBack::Known).up()?;
    lab.nft("node", NATIVE)?;
    lab.nft(
        "node",
        "table ip flood { chain forward { type filter hook forward priority 0; accept; }; }",
    )?;
    let _peer = UdpServer::start(&lab, "peer", "10.20.30.40:5353")?;
    let args = ["--dest", PEER, "--observe-rules", "full"];
    let srctrace = Srctrace::new(&lab, &args).env("SRCTRACE_RULE_RATE", "5");
    let report = watch_with(&srctrace, 0, || flood(&lab))?;
    let line = "srctrace: probes on verdicts and marks: they ran ";
    ensure!(report.stderr.contains(line), "not said: {}", report.stderr);
    let summary = report.summary()?;
    let rows = summary["observed_by"]["unavailable"].as_array();
    let row = rows
        .into_iter()
        .flatten()
        .find(|row| row["what"] == "probes on verdicts and marks")
        .with_context(|| format!("not in the summary: {summary}"))?;
    let why = row["why"].as_str().unwrap_or_default();
    ensure!(why.contains("more often than 5,"), "{why}");
    // With the limit as it is, this is not much.
    let report = watch(&lab, &args, 0, || flood(&lab))?;
    ensure!(!report.stderr.contains(line), "left: {}", report.stderr);
    let kept = report.summary()?["observed_by"]["kprobe"].as_u64();
    let few = summary["observed_by"]["kprobe"].as_u64();
    ensure!(few < kept, "probes after: {few:?}, with room: {kept:?}");
    Ok(())
}

/// A second of requests, each answered.
fn flood(lab: &Lab) -> Result<()> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(2);
    let mut port = 20_000;
    while std::time::Instant::now() < end {
        for _ in 0..20 {
            UdpCall::new("pod", port, "10.20.30.40:5353").run(lab)?;
        }
        port += 1;
    }
    Ok(())
}
