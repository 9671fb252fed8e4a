//! Every kind of rule in every store: the report names the one that ran, as `observed`, and without
//! an observer the same one as `replayed`.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::forms::{Act, Addrs, REDIRECTED, Store, V4, V6};
use super::{PROBED, PROBES, TRACE, TRACED};
use crate::lab::Lab;
use crate::lab::cast::{self, RouteBack};
use crate::labs::Case;
use crate::labs::steps::{answered, same, watch};
use crate::trace::Report;
use crate::traffic::{Behaviour, StreamCall, StreamServer};

use Act::{Accept, Dnat, Masquerade, Redirect, Return, Snat};
use Store::{IptablesNft, Legacy, Nft};

pub(in crate::labs) const CASES: &[Case] = &[
    Case::new("rule_traced_exempt_legacy", &["A2"], || {
        traced(Legacy, Return, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_exempt_iptables_nft", &["A2"], || {
        traced(IptablesNft, Return, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_exempt_nft", &["A2"], || {
        traced(Nft, Return, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_accept_legacy", &["A2"], || {
        traced(Legacy, Accept, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_accept_iptables_nft", &["A2"], || {
        traced(IptablesNft, Accept, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_accept_nft", &["A2"], || {
        traced(Nft, Accept, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_exempt_legacy_ipv6", &["A2"], || {
        traced(Legacy, Return, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_exempt_iptables_nft_ipv6", &["A2"], || {
        traced(IptablesNft, Return, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_exempt_nft_ipv6", &["A2"], || {
        traced(Nft, Return, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_legacy_ipv6", &["A1"], || {
        traced(Legacy, Masquerade, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_iptables_nft_ipv6", &["A1"], || {
        traced(IptablesNft, Masquerade, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_nft_ipv6", &["A1"], || {
        traced(Nft, Masquerade, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_snat_legacy", &[], || traced(Legacy, Snat, &V4)).on(TRACED),
    Case::new("rule_traced_snat_iptables_nft", &[], || {
        traced(IptablesNft, Snat, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_snat_nft", &[], || traced(Nft, Snat, &V4)).on(TRACED),
    Case::new("rule_traced_dnat_legacy", &[], || traced(Legacy, Dnat, &V4)).on(TRACED),
    Case::new("rule_traced_dnat_iptables_nft", &[], || {
        traced(IptablesNft, Dnat, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_dnat_nft", &[], || traced(Nft, Dnat, &V4)).on(TRACED),
    Case::new("rule_traced_redirect_legacy", &[], || {
        traced(Legacy, Redirect, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_redirect_iptables_nft", &[], || {
        traced(IptablesNft, Redirect, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_redirect_nft", &[], || {
        traced(Nft, Redirect, &V4)
    })
    .on(TRACED),
    Case::new("rule_traced_dnat_legacy_ipv6", &[], || {
        traced(Legacy, Dnat, &V6)
    })
    .on(TRACED),
    Case::new("rule_traced_redirect_nft_ipv6", &[], || {
        traced(Nft, Redirect, &V6)
    })
    .on(TRACED),
    Case::new("rule_probed_legacy_masquerade", &[], || {
        probed(Legacy, Masquerade)
    })
    .on(PROBED),
    Case::new("rule_probed_legacy_snat", &[], || probed(Legacy, Snat)).on(PROBED),
    Case::new("rule_probed_legacy_dnat", &[], || probed(Legacy, Dnat)).on(PROBED),
    Case::new("rule_probed_legacy_redirect", &[], || {
        probed(Legacy, Redirect)
    })
    .on(PROBED),
    Case::new("rule_probed_iptables_nft_masquerade", &[], || {
        probed(IptablesNft, Masquerade)
    })
    .on(PROBED),
    Case::new("rule_probed_iptables_nft_snat", &[], || {
        probed(IptablesNft, Snat)
    })
    .on(PROBED),
    Case::new("rule_probed_iptables_nft_dnat", &[], || {
        probed(IptablesNft, Dnat)
    })
    .on(PROBED),
    Case::new("rule_probed_iptables_nft_redirect", &[], || {
        probed(IptablesNft, Redirect)
    })
    .on(PROBED),
    Case::new("rule_probed_nft_masquerade", &[], || {
        probed(Nft, Masquerade)
    })
    .on(PROBED),
    Case::new("rule_probed_nft_snat", &[], || probed(Nft, Snat)).on(PROBED),
    Case::new("rule_probed_nft_dnat", &[], || probed(Nft, Dnat)).on(PROBED),
    Case::new("rule_probed_nft_redirect", &[], || probed(Nft, Redirect)).on(PROBED),
];

/// A rule as a report tells it: its place, how it is known, and the way to it.
pub(super) type Told = (String, String, Vec<String>);

/// Reads a rule of a report.
pub(super) fn told(rule: &Value) -> Told {
    let text = |key: &str| rule[key].as_str().unwrap_or("-").to_owned();
    let place = format!(
        "{} {}/{} {}",
        text("backend"),
        text("table"),
        text("chain"),
        rule["index"]
    );
    let path = rule["path"].as_array().into_iter().flatten();
    let path = path.filter_map(|step| step.as_str().map(str::to_owned));
    (place, text("evidence"), path.collect())
}

fn traced(store: Store, act: Act, addrs: &'static Addrs) -> Result<()> {
    told_as(
        store,
        act,
        addrs,
        &[(TRACE, "observed"), ("none", "replayed")],
    )
}

/// Both families, one after the other. What is replayed depends on no probe: that it is the same is shown without a machine.
fn probed(store: Store, act: Act) -> Result<()> {
    [&V4, &V6].into_iter().try_for_each(|addrs| {
        let what = || format!("{act:?} of {store:?} to {}", addrs.asked(act));
        told_as(store, act, addrs, &[(PROBES, "observed")]).with_context(what)
    })
}

/// Watched so, the rule is told with that evidence: with an observer and without one the same rule.
fn told_as(store: Store, act: Act, addrs: &Addrs, ways: &[(&str, &str)]) -> Result<()> {
    let lab = cast::one_pod("acts", RouteBack::Known).up()?;
    store.load(&lab, act, addrs)?;
    let path = store.path(&lab, act, addrs)?;
    for (how, evidence) in ways {
        let report = watched(&lab, act, addrs, how)?;
        let should = (
            store.decides().to_owned(),
            (*evidence).to_owned(),
            path.clone(),
        );
        let is = rule_of(&report, act)?;
        same("the rule in the report", is, should).with_context(|| report.stderr.clone())?;
    }
    Ok(())
}

/// Traces one connection of the pod.
fn watched(lab: &Lab, act: Act, addrs: &Addrs, how: &str) -> Result<Report> {
    let (at, port) = match act {
        Redirect if addrs.pod.contains(':') => ("node", Addrs::socket("::", REDIRECTED)),
        Redirect => ("node", Addrs::socket("0.0.0.0", REDIRECTED)),
        _ => ("peer", Addrs::socket(addrs.peer, 443)),
    };
    let _server = StreamServer::start(lab, at, &port, Behaviour::Answer)?;
    let asked = Addrs::socket(addrs.asked(act), 443);
    let seen = match act {
        Masquerade | Snat => addrs.node,
        _ => addrs.pod,
    };
    let args = ["--dest", addrs.asked(act), "--observe-rules", how, "-vv"];
    let report = watch(lab, &args, 1, || {
        let outcome = StreamCall::new("pod", &asked, 43_210).run(lab)?;
        let should = answered(&Addrs::socket(seen, 43_210))?;
        same("what the far side saw", outcome, should)
    })?;
    same("exit status", report.status, Some(0)).with_context(|| report.stderr.clone())?;
    Ok(report)
}

/// The rule that decided about the only flow.
fn rule_of(report: &Report, act: Act) -> Result<Told> {
    let flow = report.only_flow()?;
    if act.keeps() {
        let findings = flow["findings"].as_array().into_iter().flatten();
        let mut kept = findings.filter(|finding| finding["code"] == "exempt-by-rule");
        return Ok(told(&kept.next().context("no exempt-by-rule")?["rule"]));
    }
    let field = if act.is_of_destination() {
        "dst"
    } else {
        "src"
    };
    let rewrites = flow["rewrites"].as_array().into_iter().flatten();
    let mut requests = rewrites.filter(|rewrite| rewrite["direction"] == "request");
    match (requests.next(), requests.next()) {
        (Some(one), None) if one["field"] == field => Ok(told(&one["rule"])),
        _ => bail!("rewrites are {:#}", flow["rewrites"]),
    }
}
