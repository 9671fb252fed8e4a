//! The rule that ran, as the kernel shows it: each store holds a decoy that would do the same.

pub(super) mod acts;
mod forms;
pub(super) mod marked;

use anyhow::{Context as _, Result, bail};

use super::steps::{answered, decoys, same, watch};
use super::{Case, Kernel};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Agent, Lab};
use crate::trace::Report;
use crate::traffic::{Behaviour, StreamCall, StreamServer};

/// Where kprobes are, and what describes the tables of iptables-legacy.
const PROBED_LEGACY: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];
/// Where kprobes are, and BTF that describes every rule store.
const PROBED: &[Kernel] = &[Kernel::V6_1, Kernel::V6_12, Kernel::V7];
/// Where a socket may own a table.
const TRACED: &[Kernel] = &[Kernel::Native, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

const PROBES: &str = "auto";
const TRACE: &str = "nftrace";

pub(super) const CASES: &[Case] = &[
    Case::new("rule_probed_legacy", &[], || legacy(PROBES)).on(PROBED_LEGACY),
    Case::new("rule_probed_iptables_nft", &[], || iptables_nft(PROBES)).on(PROBED),
    Case::new("rule_probed_nft", &[], || native(PROBES)).on(PROBED),
    Case::new("rule_probed_many_chains", &[], many_chains).on(PROBED),
    Case::new("rule_of_nft_undescribed", &[], undescribed).on(&[Kernel::V5_10]),
    Case::new("rule_traced_legacy", &[], || legacy(TRACE)).on(TRACED),
    Case::new("rule_traced_iptables_nft", &[], || iptables_nft(TRACE)).on(TRACED),
    Case::new("rule_traced_nft", &[], || native(TRACE)).on(TRACED),
    Case::new("rule_not_looked_for", &[], not_looked_for),
    Case::new("rule_trace_refused_without_nat", &[], refused).on(TRACED),
];

fn lab(name: &str) -> Result<Lab> {
    cast::one_pod(name, RouteBack::Known).up()
}

fn agent(lab: &Lab, program: &str) -> Result<()> {
    let agent = Agent {
        chain: "IP-MASQ",
        exempt: &["10.30.0.0/16"],
    };
    lab.restore("node", program, &agent.restore_script())?;
    decoys(lab, program)
}

/// The rule in the report of the only flow: its place, and how it is known.
fn named(report: &Report) -> Result<(String, String)> {
    let flows = report.flows()?;
    let [flow] = flows.as_slice() else {
        bail!("{} flows", flows.len());
    };
    let rule = &flow["rewrites"][0]["rule"];
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

/// The report names this rule as observed; without an observer it names the same one as replayed.
fn named_either_way(lab: &Lab, how: &str, rule: &str) -> Result<()> {
    for (how, evidence) in [(how, "observed"), ("none", "replayed")] {
        let report = traced(lab, how)?;
        let should = (rule.to_owned(), evidence.to_owned());
        same("the rule in the report", named(&report)?, should).context(report.stderr)?;
    }
    Ok(())
}

/// Traces one connection of the pod, and returns the rules told for it: hook and rule, without the
/// path to it.
fn rules_seen(lab: &Lab, how: &str) -> Result<Vec<String>> {
    let report = traced(lab, how)?;
    let told = report.stderr.lines().filter_map(|line| {
        let (flow, rule) = line
            .strip_prefix("srctrace: rule observed: flow ")?
            .split_once(" at ")?;
        let (_, flow) = flow.split_once(' ')?;
        let rule = rule.split(" ← ").next().unwrap_or(rule);
        flow.starts_with("tcp 10.12.3.4:43210 → 10.20.30.40:443")
            .then(|| rule.to_owned())
    });
    // Policies of other hooks are seen by the trace alone.
    let mut told: Vec<String> = told.filter(|rule| !rule.ends_with(" policy")).collect();
    told.sort_unstable();
    Ok(told)
}

/// Traces one connection of the pod.
fn traced(lab: &Lab, how: &str) -> Result<Report> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let args = ["--dest", PEER, "--observe-rules", how, "-vv"];
    let report = watch(lab, &args, 1, || {
        let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?;
        same(
            "what the far side saw",
            outcome,
            answered("10.100.0.5:43210")?,
        )
    })?;
    same("exit status", report.status, Some(0)).context(report.stderr.clone())?;
    Ok(report)
}

/// The handle that nft shows for the only rule of a chain that begins with `text`.
fn handle(lab: &Lab, chain: &str, text: &str) -> Result<String> {
    let list = lab.run("node", &format!("nft -a list chain {chain}"))?;
    let line = list
        .lines()
        .find(|line| line.trim_start().starts_with(text));
    let handle = line.and_then(|line| line.split("# handle ").nth(1));
    Ok(handle
        .with_context(|| format!("no rule {text} in {list}"))?
        .trim()
        .to_owned())
}

fn legacy(how: &str) -> Result<()> {
    let lab = lab("obslegacy")?;
    agent(&lab, "iptables-legacy-restore")?;
    let rule = "postrouting: iptables-legacy ip nat/IP-MASQ rule 3".to_owned();
    same("rules", rules_seen(&lab, how)?, vec![rule])?;
    named_either_way(&lab, how, "iptables-legacy nat/IP-MASQ 3")
}

fn iptables_nft(how: &str) -> Result<()> {
    let lab = lab("obsinft")?;
    agent(&lab, "iptables-nft-restore")?;
    let handle = handle(
        &lab,
        "ip nat IP-MASQ",
        "counter packets 0 bytes 0 masquerade",
    )
    .or_else(|_| handle(&lab, "ip nat IP-MASQ", "xt target MASQUERADE"))?;
    let rule = if how == PROBES {
        format!("postrouting: iptables-nft ip nat/IP-MASQ handle {handle} (rule 3)")
    } else {
        format!("a hook: nft ip nat/IP-MASQ handle {handle}")
    };
    same("rules", rules_seen(&lab, how)?, vec![rule])?;
    named_either_way(&lab, how, "iptables-nft nat/IP-MASQ 3")
}

/// The deciding rule stands in a chain that a verdict map leads to.
const NATIVE: &str = "
    table ip decoy {
        chain post {
            type nat hook postrouting priority 110
            masquerade
        }
    }
    table inet real {
        map ways {
            type ipv4_addr : verdict
            elements = { 10.20.30.40 : goto masq }
        }
        chain masq {
            ip daddr 10.30.0.0/16 return
            ip daddr 10.99.0.0/16 masquerade
            meta l4proto tcp masquerade
            masquerade
        }
        chain post {
            type nat hook postrouting priority 100
            ip daddr vmap @ways
            masquerade
        }
    }";

fn native(how: &str) -> Result<()> {
    let lab = lab("obsnft")?;
    lab.nft("node", NATIVE)?;
    let handle = handle(&lab, "inet real masq", "meta l4proto tcp masquerade")?;
    let rule = if how == PROBES {
        format!("postrouting: nft inet real/masq handle {handle} (rule 3)")
    } else {
        format!("a hook: nft inet real/masq handle {handle}")
    };
    same("rules", rules_seen(&lab, how)?, vec![rule])?;
    named_either_way(&lab, how, "nft real/masq 3")
}

/// A kube-proxy's worth of chains before the deciding one.
fn many_chains() -> Result<()> {
    let lab = lab("obsmany")?;
    let chains = (0..400).map(|n| format!("chain svc{n} {{\n counter\n masquerade\n }}\n"));
    let chains: String = chains.collect();
    lab.nft(
        "node",
        &NATIVE.replace("chain masq {", &format!("{chains}chain masq {{")),
    )?;
    let handle = handle(&lab, "inet real masq", "meta l4proto tcp masquerade")?;
    let rule = format!("postrouting: nft inet real/masq handle {handle} (rule 3)");
    same("rules", rules_seen(&lab, PROBES)?, vec![rule])
}

/// No BTF of modules: nothing is read by a layout that nobody vouches for, and the report says so.
fn undescribed() -> Result<()> {
    let lab = lab("obsbare")?;
    lab.nft("node", NATIVE)?;
    same("rules", rules_seen(&lab, PROBES)?, Vec::new())?;
    let report = watch(&lab, &["--dest", PEER], 0, || Ok(()))?;
    let summary = report.summary()?;
    let rows = summary["observed_by"]["unavailable"].as_array();
    let row = rows
        .into_iter()
        .flatten()
        .find(|row| row["what"] == "NAT expressions of nftables");
    let why = row.map(|row| &row["why"]);
    let should = "this kernel's BTF does not describe its rule stores".into();
    same("why not observed", why, Some(&should))
}

/// The other labs would fail without their observers.
fn not_looked_for() -> Result<()> {
    let lab = lab("obsnone")?;
    agent(&lab, "iptables-legacy-restore")?;
    same("rules", rules_seen(&lab, "none")?, Vec::new())
}

/// The trace's own rule would switch connection tracking on.
fn refused() -> Result<()> {
    let lab = lab("obsrefused")?;
    let srctrace = crate::trace::Srctrace::new(&lab, &["--dest", PEER, "--observe-rules", TRACE]);
    let report = srctrace.run_to_end()?;
    same("exit status", report.status, Some(2)).context(report.stderr.clone())?;
    same("nft tables", lab.run("node", "nft list tables")?.trim(), "")
}
