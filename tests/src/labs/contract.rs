//! Rows A: who rewrites the source, and who does not.

use anyhow::{Context as _, Result};

use super::Case;
use super::steps::{
    A_MOMENT, answered, decoys, hold, masqueraded_by, masqueraded_pod, same, watch,
};
use crate::lab::cast::{self, NODE, PEER, POD, RouteBack};
use crate::lab::{Agent, Lab};
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
    Case::new("a2_exempt", &["A2"], exempt_legacy),
    Case::new("a2_exempt_iptables_nft", &["A2"], exempt_iptables_nft),
    Case::new("a2_exempt_nft", &["A2"], exempt_nft),
    Case::new("a3_no_rule", &["A3"], no_rule),
    Case::new("a4_node_answered_pod_not", &["A4"], node_answered_pod_not),
    Case::new(
        "a14_open_before_the_trace",
        &["A14", "C10"],
        open_before_the_trace,
    ),
];

/// One TCP request from the pod to the peer, which the far side must see as `seen`, and the whole report on it.
fn one_request(
    lab: &Lab,
    name: &str,
    seen: &str,
    claims: &str,
    findings: &[(usize, &str)],
) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?,
            answered(seen)?,
        )
    })?;
    hold(lab, &report, name, &[claims], findings)
}

const PRESERVED: &str = "
    tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
    source-preserved, on the wire 10.12.3.4, completed";

/// [`PRESERVED`], with the line that says why.
fn kept(why: &str) -> String {
    PRESERVED.replace("source-preserved", &format!("{why}\nsource-preserved"))
}

fn masquerade_legacy() -> Result<()> {
    masqueraded_among_decoys(
        "a1_masquerade_legacy",
        "iptables-legacy-restore",
        "iptables-legacy nat/IP-MASQ",
    )
}

fn masquerade_iptables_nft() -> Result<()> {
    masqueraded_among_decoys(
        "a1_masquerade_iptables_nft",
        "iptables-nft-restore",
        "iptables-nft nat/IP-MASQ",
    )
}

/// The agent's last rule but the decoys does it.
fn masqueraded_among_decoys(name: &str, program: &str, chain: &str) -> Result<()> {
    let lab = cast::one_pod("a1", RouteBack::Missing).up()?;
    agent(&lab, program, &["10.30.0.0/16"])?;
    let claims = masqueraded_by(&[
        &format!("rule {chain} 3"),
        &format!("rule-shadowed: {chain} 4"),
    ]);
    one_request(&lab, name, "10.100.0.5:43210", &claims, &[])
}

/// The node's agent, and decoys beside its rules.
fn agent(lab: &Lab, program: &str, exempt: &[&str]) -> Result<()> {
    let agent = Agent {
        chain: "IP-MASQ",
        exempt,
    };
    lab.restore("node", program, &agent.restore_script())?;
    decoys(lab, program)
}

/// Decoys: other ranges in the same chain, what comes after it, a chain that nobody jumps to, and one that comes later.
fn masquerade_nft() -> Result<()> {
    let lab = cast::one_pod("a1native", RouteBack::Missing).up()?;
    lab.nft(
        "node",
        "table ip late { chain post { type nat hook postrouting priority 110; masquerade; }; }
        table ip agent {
            set exempt { type ipv4_addr; flags interval; elements = { 10.30.0.0/16 }; }
            chain masq {
                ip daddr @exempt return
                ip daddr 10.98.0.0/16 masquerade
                oifname \"eth0\" masquerade comment \"everything else\"
                masquerade
            }
            chain unused { masquerade; }
            chain post { type nat hook postrouting priority srcnat; jump masq; masquerade; }
        }",
    )?;
    let claims = masqueraded_by(&[
        "rule nft agent/masq handle 7",
        "unowned-rule: nft agent/masq handle 7",
        "rule-shadowed: nft agent/masq handle 8",
    ]);
    one_request(&lab, "a1_masquerade_nft", "10.100.0.5:43210", &claims, &[])
}

fn snat_other_port() -> Result<()> {
    let lab = cast::one_pod("a1port", RouteBack::Missing).up()?;
    for to in ["-p udp", "-p tcp", "-d 10.20.30.40 -p tcp"] {
        let rule = "-s 10.12.0.0/16 -j SNAT --to-source 10.100.0.5:27391";
        lab.iptables_legacy("node", &format!("-t nat -A POSTROUTING {to} {rule}"))?;
    }
    one_request(
        &lab,
        "a1_snat_other_port",
        "10.100.0.5:27391",
        "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
         request src 10.12.3.4:43210 > 10.100.0.5:27391 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 2
         unowned-rule: iptables-legacy nat/POSTROUTING 2
         rule-shadowed: iptables-legacy nat/POSTROUTING 3
         source-rewritten, on the wire 10.100.0.5, completed",
        &[],
    )
}

fn exempt_legacy() -> Result<()> {
    exempt_among_decoys(
        "a2_exempt",
        "iptables-legacy-restore",
        "iptables-legacy nat/IP-MASQ 3",
    )
}

fn exempt_iptables_nft() -> Result<()> {
    exempt_among_decoys(
        "a2_exempt_iptables_nft",
        "iptables-nft-restore",
        "iptables-nft nat/IP-MASQ 3",
    )
}

/// Of three exemptions the first does not match, and the last one is not reached.
fn exempt_among_decoys(name: &str, program: &str, rule: &str) -> Result<()> {
    let lab = cast::one_pod("a2", RouteBack::Known).up()?;
    agent(
        &lab,
        program,
        &["10.30.0.0/16", "10.20.0.0/16", "10.0.0.0/8"],
    )?;
    let claims = kept(&format!("exempt-by-rule: {rule}"));
    one_request(&lab, name, "10.12.3.4:43210", &claims, &[])
}

/// One member of the agent's set holds the destination; another set and another rule do as well, and are not asked.
fn exempt_nft() -> Result<()> {
    let lab = cast::one_pod("a2native", RouteBack::Known).up()?;
    lab.nft(
        "node",
        "table ip agent {
            set other { type ipv4_addr; flags interval; elements = { 10.98.0.0/16, 10.99.0.0/16 }; }
            set exempt { type ipv4_addr; flags interval; elements = { 10.20.0.0/16, 10.30.0.0/16 }; }
            set later { type ipv4_addr; flags interval; elements = { 10.20.30.0/24 }; }
            chain masq {
                ip daddr @other return
                ip daddr @exempt return
                ip daddr @later return
                ip daddr 10.20.30.40 return
                oifname \"eth0\" masquerade
            }
            chain post { type nat hook postrouting priority srcnat; jump masq; }
        }",
    )?;
    let claims = kept("exempt-by-set: nft agent/masq handle 7");
    one_request(&lab, "a2_exempt_nft", "10.12.3.4:43210", &claims, &[])
}

fn no_rule() -> Result<()> {
    let lab = cast::one_pod("a3", RouteBack::Known).up()?;
    let found = [(0, "no-rule-matches")];
    one_request(&lab, "a3_no_rule", "10.12.3.4:43210", PRESERVED, &found)
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
        &[
            (0, "no-rule-matches"),
            (1, "no-rule-matches"),
            (1, "peer-route-suspected"),
        ],
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
            &masqueraded_by(&[]),
            "tcp 10.12.3.4:43211 > 10.20.30.40:443 from pod pod
             exempt-by-rule: iptables-legacy nat/IP-MASQ 1
             source-preserved, on the wire 10.12.3.4, completed",
        ],
        &[(0, "mapping-predates-trace"), (0, "no-rule-explains")],
    )
}
