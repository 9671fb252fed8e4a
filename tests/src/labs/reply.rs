//! Rows B: what came back, and what did not.

use anyhow::Result;

use super::Case;
use super::steps::{A_MOMENT, answered, masquerade, same};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::{Expected, Names, Srctrace};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer, UdpCall};

pub(super) const CASES: &[Case] = &[
    Case::new("b1_no_route_back", &["B1"], no_route_back),
    Case::new("b1_udp_no_reply", &["B1"], udp_no_reply),
    Case::new("b3_silent_peer", &["B3"], silent_peer),
    Case::new(
        "b3_closed_after_first_data",
        &["B3"],
        closed_after_first_data,
    ),
    Case::new("b5_refused_by_reset", &["B5"], refused_by_reset),
    Case::new("b5_refused_by_icmp", &["B5"], refused_by_icmp),
    Case::new("b1_retransmitted_request", &["B1"], retransmitted_request),
];

const SILENCE: &str = "
    tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
    source-preserved, on the wire 10.12.3.4, no-reply";

fn no_route_back() -> Result<()> {
    let lab = cast::one_pod("b1", RouteBack::Missing).up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    let names = Names::of(&[(&lab, "")]);
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443")
        .sport(43_210)
        .patience(A_MOMENT)
        .run(&lab)?;
    let report = trace.stop()?;
    same("the request", outcome, Outcome::Silence)?;
    let findings = &[(0, "peer-route-suspected")];
    Expected {
        name: "b1_no_route_back",
        status: 0,
        flows: &[SILENCE],
        findings,
    }
    .hold(&report, &names)
}

fn udp_no_reply() -> Result<()> {
    let lab = cast::one_pod("b1udp", RouteBack::Missing).up()?;
    let names = Names::of(&[(&lab, "")]);
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = UdpCall::new("pod", 43_210, "10.20.30.40:53")
        .patience(A_MOMENT)
        .run(&lab)?;
    let report = trace.stop()?;
    same("the request", outcome, Outcome::Silence)?;
    let expected = Expected {
        name: "b1_udp_no_reply",
        status: 0,
        flows: &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  source-preserved, on the wire 10.12.3.4, no-reply"],
        findings: &[(0, "peer-route-suspected")],
    };
    expected.hold(&report, &names)
}

fn silent_peer() -> Result<()> {
    let lab = cast::one_pod("b3", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    let names = Names::of(&[(&lab, "")]);
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Silent)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443")
        .sport(43_210)
        .patience(A_MOMENT)
        .run(&lab)?;
    let report = trace.stop()?;
    same("the request", outcome, Outcome::Silence)?;
    let expected = Expected {
        name: "b3_silent_peer",
        status: 0,
        flows: &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
                  source-rewritten, on the wire 10.100.0.5, handshake-only"],
        findings: &[],
    };
    expected.hold(&report, &names)
}

fn closed_after_first_data() -> Result<()> {
    let lab = cast::one_pod("b3close", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    let names = Names::of(&[(&lab, "")]);
    let _peer = StreamServer::start(
        &lab,
        "peer",
        "10.20.30.40:443",
        Behaviour::CloseAfterFirstData,
    )?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443")
        .sport(43_210)
        .run(&lab)?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    same("the request", outcome, Outcome::Closed)?;
    let expected = Expected {
        name: "b3_closed_after_first_data",
        status: 0,
        flows: &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
                  source-rewritten, on the wire 10.100.0.5, handshake-only"],
        findings: &[(0, "peer-closed-early")],
    };
    expected.hold(&report, &names)
}

fn refused_by_reset() -> Result<()> {
    let lab = cast::one_pod("b5", RouteBack::Known).up()?;
    let names = Names::of(&[(&lab, "")]);
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443")
        .sport(43_210)
        .run(&lab)?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    same("the request", outcome, Outcome::Refused)?;
    let expected = Expected {
        name: "b5_refused_by_reset",
        status: 0,
        flows: &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  source-preserved, on the wire 10.12.3.4, refused"],
        findings: &[],
    };
    expected.hold(&report, &names)?;
    let by = report.only_flow()?["delivery"]["refused_by"].clone();
    same(
        "who refused",
        (by["addr"].as_str(), by["kind"].as_str()),
        (Some(PEER), Some("rst")),
    )
}

/// The router in front of the peer says no, through the node's masquerade: the error quotes the translated packet.
fn refused_by_icmp() -> Result<()> {
    let lab = cast::one_pod("b5icmp", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    lab.nft(
        "peer",
        "table ip t { chain c { type filter hook input priority 0; udp dport 53 reject; }; }",
    )?;
    let names = Names::of(&[(&lab, "")]);
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = UdpCall::new("pod", 43_210, "10.20.30.40:53").run(&lab)?;
    let report = trace.stop()?;
    same("the request", outcome, Outcome::Refused)?;
    let expected = Expected {
        name: "b5_refused_by_icmp",
        status: 0,
        flows: &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
                  source-rewritten, on the wire 10.100.0.5, refused"],
        findings: &[],
    };
    expected.hold(&report, &names)?;
    let by = report.only_flow()?["delivery"]["refused_by"].clone();
    same("who refused", by["addr"].as_str(), Some("10.20.30.40"))
}

/// The first SYN is lost on the way; the second one, a second later, gets through. It stays one flow.
fn retransmitted_request() -> Result<()> {
    let lab = cast::one_pod("b1again", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    // Lets the set's element through only when an earlier packet has put it there: the first SYN is dropped.
    lab.nft(
        "peer",
        "table ip t {
            set again { type inet_service; flags dynamic; size 16; }
            chain c {
                type filter hook input priority 0;
                tcp dport 443 tcp flags & (syn|ack) == syn tcp sport != @again add @again { tcp sport } drop
            }
        }",
    )?;
    let names = Names::of(&[(&lab, "")]);
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443")
        .sport(43_210)
        .run(&lab)?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    same("the request", outcome, answered("10.100.0.5:43210")?)?;
    let expected = Expected {
        name: "b1_retransmitted_request",
        status: 0,
        flows: &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
                  source-rewritten, on the wire 10.100.0.5, completed"],
        findings: &[],
    };
    expected.hold(&report, &names)
}
