//! Rows A: who rewrites the source, and who does not.

use anyhow::{Context as _, Result};

use super::Case;
use super::steps::{
    A_MOMENT, MASQUERADED, answered, hold, masquerade, masqueraded_pod, same, watch,
};
use crate::lab::Lab;
use crate::lab::cast::{self, NODE, PEER, POD, RouteBack};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("a1_masquerade_legacy", &["A1"], masquerade_legacy),
    Case::new(
        "a1_masquerade_iptables_nft",
        &["A1"],
        masquerade_iptables_nft,
    ),
    Case::new("a1_masquerade_nft", &["A1"], masquerade_nft),
    Case::new("a1_snat_other_port", &["A1"], snat_other_port),
    Case::new("a2_exempt", &["A2"], exempt),
    Case::new("a3_no_rule", &["A3"], no_rule),
    Case::new("a4_node_answered_pod_not", &["A4"], node_answered_pod_not),
    Case::new(
        "a14_open_before_the_trace",
        &["A14", "C10"],
        open_before_the_trace,
    ),
];

/// One TCP request from the pod to the peer, which the far side must see as `seen`, and the whole report on it.
fn one_request(lab: &Lab, name: &str, seen: &str, claims: &str) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?,
            answered(seen)?,
        )
    })?;
    hold(lab, &report, name, &[claims], &[])
}

const PRESERVED: &str = "
    tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
    source-preserved, on the wire 10.12.3.4, completed";

fn masquerade_legacy() -> Result<()> {
    let lab = cast::one_pod("a1", RouteBack::Missing).up()?;
    masquerade(&lab, &["10.30.0.0/16"])?;
    one_request(
        &lab,
        "a1_masquerade_legacy",
        "10.100.0.5:43210",
        MASQUERADED,
    )
}

fn masquerade_iptables_nft() -> Result<()> {
    let lab = cast::one_pod("a1n", RouteBack::Missing).up()?;
    let agent = crate::lab::Agent {
        chain: "IP-MASQ",
        exempt: &["10.30.0.0/16"],
    };
    lab.restore("node", "iptables-nft-restore", &agent.restore_script())?;
    one_request(
        &lab,
        "a1_masquerade_iptables_nft",
        "10.100.0.5:43210",
        MASQUERADED,
    )
}

fn masquerade_nft() -> Result<()> {
    let lab = cast::one_pod("a1native", RouteBack::Missing).up()?;
    lab.nft(
        "node",
        "table ip agent {
            set exempt { type ipv4_addr; flags interval; elements = { 10.30.0.0/16 }; }
            chain post { type nat hook postrouting priority srcnat; jump masq; }
            chain masq {
                ip daddr @exempt return
                oifname \"eth0\" masquerade comment \"everything else\"
            }
        }",
    )?;
    one_request(&lab, "a1_masquerade_nft", "10.100.0.5:43210", MASQUERADED)
}

fn snat_other_port() -> Result<()> {
    let lab = cast::one_pod("a1port", RouteBack::Missing).up()?;
    let rule = "-t nat -A POSTROUTING -p tcp -s 10.12.0.0/16 -j SNAT --to-source 10.100.0.5:27391";
    lab.iptables_legacy("node", rule)?;
    one_request(
        &lab,
        "a1_snat_other_port",
        "10.100.0.5:27391",
        "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
         request src 10.12.3.4:43210 > 10.100.0.5:27391 at node, postrouting, netfilter, by conntrack, and back
         source-rewritten, on the wire 10.100.0.5, completed",
    )
}

fn exempt() -> Result<()> {
    let lab = cast::one_pod("a2", RouteBack::Known).up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    one_request(&lab, "a2_exempt", "10.12.3.4:43210", PRESERVED)
}

fn no_rule() -> Result<()> {
    let lab = cast::one_pod("a3", RouteBack::Known).up()?;
    one_request(&lab, "a3_no_rule", "10.12.3.4:43210", PRESERVED)
}

fn node_answered_pod_not() -> Result<()> {
    let lab = cast::one_pod("a4", RouteBack::Missing).up()?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let node = StreamCall::new("node", "10.20.30.40:443", 50_000).run(&lab)?;
    let pod = StreamCall::new("pod", "10.20.30.40:443", 43_210);
    let pod = pod.patience(A_MOMENT).run(&lab)?;
    let report = trace.stop()?;
    same("the node's request", node, answered("10.100.0.5:50000")?)?;
    same("the pod's request", pod, Outcome::Silence)?;
    hold(
        &lab,
        &report,
        "a4_node_answered_pod_not",
        &[
            "tcp 10.100.0.5:50000 > 10.20.30.40:443 from node node
             source-preserved, on the wire 10.100.0.5, completed",
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             source-preserved, on the wire 10.12.3.4, no-reply",
        ],
        &[(1, "peer-route-suspected")],
    )?;
    let process = &report.flow(NODE, PEER)?["origin"]["process"];
    same(
        "the node's process",
        process["pid"].as_u64(),
        Some(u64::from(std::process::id())),
    )?;
    same(
        "the pod's process",
        report.flow(POD, PEER)?["origin"]["process"].is_null(),
        true,
    )
}

/// The old flow keeps the binding of a rule that is gone; a new one goes by today's rules.
fn open_before_the_trace() -> Result<()> {
    let lab = masqueraded_pod("a14", RouteBack::Known)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let old = StreamCall::new("pod", "10.20.30.40:443", 43_210).open(&lab)?;
    let old = old.ok().context("no connection before the trace")?;
    same(
        "the old flow before",
        old.ask(b"before")?,
        answered("10.100.0.5:43210")?,
    )?;
    lab.iptables_legacy("node", "-t nat -I IP-MASQ -d 10.20.0.0/16 -j RETURN")?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    same(
        "the old flow during",
        old.finish(b"during")?,
        answered("10.100.0.5:43210")?,
    )?;
    let new = StreamCall::new("pod", "10.20.30.40:443", 43_211).run(&lab)?;
    same("the new flow", new, answered("10.12.3.4:43211")?)?;
    trace.wait_flows(2)?;
    let report = trace.stop()?;
    hold(
        &lab,
        &report,
        "a14_open_before_the_trace",
        &[
            MASQUERADED,
            "tcp 10.12.3.4:43211 > 10.20.30.40:443 from pod pod
             source-preserved, on the wire 10.12.3.4, completed",
        ],
        &[(0, "mapping-predates-trace")],
    )
}
