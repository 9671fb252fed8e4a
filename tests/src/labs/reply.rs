//! Rows B: what came back, and what did not.

use anyhow::Result;

use super::Case;
use super::steps::{
    A_MOMENT, MASQUERADED, answered, hold, masquerade, masqueraded_pod, same, watch,
};
use crate::lab::cast::{self, PEER, RouteBack};
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
    Case::new("b5_refused_by_the_node", &["B5"], refused_by_the_node),
    Case::new("b1_retransmitted_request", &["B1"], retransmitted_request),
];

/// The node's agent exempts the destination.
const SILENCE: &str = "
    tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
    exempt-by-rule: iptables-legacy nat/IP-MASQ 1
    source-preserved, on the wire 10.12.3.4, no-reply";

fn no_route_back() -> Result<()> {
    let lab = cast::one_pod("b1", RouteBack::Missing).up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 0, || {
        same(
            "the request",
            StreamCall::new("pod", "10.20.30.40:443", 43_210)
                .patience(A_MOMENT)
                .run(&lab)?,
            Outcome::Silence,
        )
    })?;
    hold(
        &lab,
        &report,
        "b1_no_route_back",
        &[SILENCE],
        &[(0, "peer-route-suspected")],
    )
}

fn udp_no_reply() -> Result<()> {
    let lab = cast::one_pod("b1udp", RouteBack::Missing).up()?;
    let report = watch(&lab, &["--dest", PEER], 0, || {
        same(
            "the request",
            UdpCall::new("pod", 43_210, "10.20.30.40:53")
                .patience(A_MOMENT)
                .run(&lab)?,
            Outcome::Silence,
        )
    })?;
    hold(
        &lab,
        &report,
        "b1_udp_no_reply",
        &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  source-preserved, on the wire 10.12.3.4, no-reply"],
        &[(0, "peer-route-suspected")],
    )
}

fn silent_peer() -> Result<()> {
    let lab = masqueraded_pod("b3", RouteBack::Known)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Silent)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "the request",
            StreamCall::new("pod", "10.20.30.40:443", 43_210)
                .patience(A_MOMENT)
                .run(&lab)?,
            Outcome::Silence,
        )
    })?;
    hold(&lab, &report, "b3_silent_peer", &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/IP-MASQ 1
                  source-rewritten, on the wire 10.100.0.5, handshake-only"], &[])
}

fn closed_after_first_data() -> Result<()> {
    let lab = masqueraded_pod("b3close", RouteBack::Known)?;
    let _peer = StreamServer::start(
        &lab,
        "peer",
        "10.20.30.40:443",
        Behaviour::CloseAfterFirstData,
    )?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "the request",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?,
            Outcome::Closed,
        )
    })?;
    hold(&lab, &report, "b3_closed_after_first_data", &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
                  rule iptables-legacy nat/IP-MASQ 1
                  source-rewritten, on the wire 10.100.0.5, handshake-only"], &[(0, "peer-closed-early")])
}

fn refused_by_reset() -> Result<()> {
    let lab = cast::one_pod("b5", RouteBack::Known).up()?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "the request",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?,
            Outcome::Refused,
        )
    })?;
    hold(
        &lab,
        &report,
        "b5_refused_by_reset",
        &["tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
                  source-preserved, on the wire 10.12.3.4, refused"],
        &[],
    )?;
    let by = report.only_flow()?["delivery"]["refused_by"].clone();
    same(
        "who refused",
        (by["addr"].as_str(), by["kind"].as_str()),
        (Some(PEER), Some("rst")),
    )
}

/// The router in front of the peer says no, through the node's masquerade: the error quotes the translated packet.
fn refused_by_icmp() -> Result<()> {
    let lab = masqueraded_pod("b5icmp", RouteBack::Known)?;
    lab.nft(
        "peer",
        "table ip t { chain c { type filter hook input priority 0; udp dport 53 reject; }; }",
    )?;
    let report = watch(&lab, &["--dest", PEER], 0, || {
        same(
            "the request",
            UdpCall::new("pod", 43_210, "10.20.30.40:53").run(&lab)?,
            Outcome::Refused,
        )
    })?;
    hold(&lab, &report, "b5_refused_by_icmp", &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
                  rule iptables-legacy nat/IP-MASQ 1
                  source-rewritten, on the wire 10.100.0.5, refused"], &[])?;
    let by = report.only_flow()?["delivery"]["refused_by"].clone();
    same("who refused", by["addr"].as_str(), Some("10.20.30.40"))
}

/// The node's own rules say no: by an ICMP error from one of its addresses, and by a reset in the far side's name.
fn refused_by_the_node() -> Result<()> {
    let lab = cast::one_pod("b5node", RouteBack::Known).up()?;
    lab.iptables_legacy("node", "-A FORWARD -p udp --dport 53 -j REJECT")?;
    lab.iptables_legacy(
        "node",
        "-A FORWARD -p tcp --dport 443 -j REJECT --reject-with tcp-reset",
    )?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let udp = UdpCall::new("pod", 43_210, "10.20.30.40:53").run(&lab)?;
        let tcp = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
        same("the requests", [udp, tcp], [Outcome::Refused; 2])
    })?;
    hold(
        &lab,
        &report,
        "b5_refused_by_the_node",
        &[
            "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
             dropped: NETFILTER_DROP
             policy-drop: iptables-legacy filter/FORWARD 2
             source-unknown, on the wire null, refused",
            "udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
             dropped: NETFILTER_DROP
             policy-drop: iptables-legacy filter/FORWARD 1
             source-unknown, on the wire null, refused",
        ],
        &[],
    )?;
    for flow in report.flows()? {
        let by = flow["delivery"]["refused_by"].clone();
        same("who refused", by["where"].as_str(), Some("node"))?;
    }
    Ok(())
}

/// The first SYN is lost on the way; the second one, a second later, gets through. It stays one flow.
fn retransmitted_request() -> Result<()> {
    let lab = masqueraded_pod("b1again", RouteBack::Known)?;
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
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "the request",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(
        &lab,
        &report,
        "b1_retransmitted_request",
        &[MASQUERADED],
        &[],
    )
}
