//! Rows C6, C7 and C8: a gateway pod that goes and comes again, and what still points at where it was.

use anyhow::{Result, ensure};

use super::Case;
use super::gateways::{self, vpn};
use super::steps::{A_MOMENT, answered, hold, same, watch};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Lab, Topology};
use crate::trace::{Expected, Names, Srctrace};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("c6_snat_to_an_address_that_went", &["C6"], stale_address),
    Case::new("c7_gateway_comes_again", &["C7"], comes_again).alone(),
    Case::new("c7_gateway_gone_elsewhere", &["C7"], gone_elsewhere),
    Case::new("c8_next_hop_is_a_pod", &["C8"], next_hop_is_a_pod),
    Case::new("c8_next_hop_is_dead", &["C8"], next_hop_is_dead),
];

const MASQUERADE: &str = "-t nat -A POSTROUTING -o eth0 -j MASQUERADE";

/// A node with a VPN pod that forwards, and its client.
fn forwarding(name: &str) -> Topology {
    let mut net = vpn(name);
    net.forward("vpn");
    net
}

/// The client asks the peer, which sees it as `seen`.
fn ask(lab: &Lab, sport: u16, seen: &str) -> Result<()> {
    let outcome = StreamCall::new("peer-client", "10.20.30.40:443", sport).run(lab)?;
    same("what the far side saw", outcome, answered(seen)?)
}

/// The claims of a flow that the VPN pod masquerades.
fn through_vpn(sport: u16, origin: &str) -> String {
    format!(
        "tcp 10.8.0.2:{sport} > 10.20.30.40:443 from {origin}
         request src 10.8.0.2:{sport} > 10.12.9.4:{sport} at gateway, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.4, completed"
    )
}

/// The pod's script pins the address that the pod had before.
fn stale_address() -> Result<()> {
    let lab = forwarding("c6").up()?;
    let pinned = "-t nat -A POSTROUTING -o eth0 -j SNAT --to-source 10.12.9.77";
    lab.iptables_legacy("vpn", pinned)?;
    lab.ip("peer", "route del 10.12.0.0/16")?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("peer-client", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the client's request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "tcp 10.8.0.2:43210 > 10.20.30.40:443 from gateway vpn
         request src 10.8.0.2:43210 > 10.12.9.77:43210 at gateway, postrouting, netfilter, by conntrack
         rule iptables-legacy nat/POSTROUTING 1
         stale-nat-address: iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.77, no-reply";
    hold(
        &lab,
        &report,
        "c6_snat_to_an_address_that_went",
        &[claims],
        &[(0, "stale-nat-address")],
    )
}

/// The VPN pod is deleted and comes again on this node, with new devices in a new namespace: the same trace goes on, and its
/// points too.
fn comes_again() -> Result<()> {
    let mut lab = forwarding("c7").up()?;
    lab.iptables_legacy("vpn", MASQUERADE)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let at = |name: &str, ifname: &str| format!("{name}={ifname}@{}", lab.netns("vpn"));
    let (tun, pod) = (at("tun", "tun0"), at("pod", "eth0"));
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--point", &tun, "--point", &pod])
        .whole_machine()
        .start()?;
    ask(&lab, 43_210, "10.12.9.4:43210")?;
    trace.wait_flows(1)?;
    lab.delete_ns("vpn");
    gateways::comes_again(&mut lab, "vpn", "1")?;
    lab.iptables_legacy("vpn", MASQUERADE)?;
    ask(&lab, 43_211, "10.12.9.4:43211")?;
    trace.wait_flows(2)?;
    let report = trace.stop()?;
    let origin = "external peer-client";
    hold(
        &lab,
        &report,
        "c7_gateway_comes_again",
        &[&through_vpn(43_210, origin), &through_vpn(43_211, origin)],
        &[(0, "changed-between-points"), (1, "changed-between-points")],
    )
}

/// The VPN pod is deleted and comes again on another node: here it is gone, which makes the answer uncertain.
fn gone_elsewhere() -> Result<()> {
    let lab = forwarding("c7gone").up()?;
    lab.iptables_legacy("vpn", MASQUERADE)?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        ask(&lab, 43_210, "10.12.9.4:43210")?;
        Ok(())
    });
    same("the status while it is there", report?.status, Some(0))?;

    let trace = Srctrace::new(&lab, &["--dest", PEER]).start()?;
    ask(&lab, 43_211, "10.12.9.4:43211")?;
    trace.wait_flows(1)?;
    lab.delete_ns("vpn");
    let report = trace.stop()?;
    let names = Names::of(&[(&lab, "")]);
    let summary = crate::trace::normal::normal(
        "text",
        report.summary()?["observed_by"]["unavailable"].clone(),
        &names,
    );
    let row = serde_json::json!({
        "what": "vpn",
        "why": "its network namespace went away while the trace ran, and nothing that is looked at (--scope) took its \
                place: it was deleted, or rescheduled to another node",
        "effect": "what goes through it from then on is not seen here; trace on the node that it is on now",
    });
    let rows = summary.as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(rows.contains(&row), "{summary:#}");
    let claims = through_vpn(43_211, "gateway vpn");
    let expected = Expected {
        name: "c7_gateway_gone_elsewhere",
        status: 5,
        flows: &[&claims],
        findings: &[],
    };
    expected.hold(&report, &names)
}

/// The cluster's route to the clients leads to the VPN pod's own address: it works today.
fn next_hop_is_a_pod() -> Result<()> {
    let mut net = forwarding("c8");
    net.route("node", "10.8.0.0/24 via 10.12.9.4");
    let lab = net.up()?;
    let _client = StreamServer::start(&lab, "peer-client", "10.8.0.2:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", "10.8.0.2"], 1, || {
        let outcome = StreamCall::new("pod", "10.8.0.2:443", 43_210).run(&lab)?;
        same("what the client saw", outcome, answered("10.12.3.4:43210")?)
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.8.0.2:443 from pod pod
         source-preserved, on the wire 10.12.3.4, completed";
    hold(
        &lab,
        &report,
        "c8_next_hop_is_a_pod",
        &[claims],
        &[(0, "unstable-next-hop")],
    )
}

/// The VPN pod came again with another address; the node's route still leads to the one that it had, where nobody is.
fn next_hop_is_dead() -> Result<()> {
    let mut net = cast::one_pod("c8dead", RouteBack::Known);
    net.forward("vpn")
        .ip("node", "link add cni0 type bridge")
        .ip("node", "link set cni0 up")
        .addr("node", "cni0", "10.12.9.1/24")
        .veth(("vpn", "eth0"), ("node", "veth-vpn"))
        .ip("node", "link set veth-vpn master cni0")
        .addr("vpn", "eth0", "10.12.9.5/24")
        .route("vpn", "default via 10.12.9.1")
        .veth(("vpn", "tun0"), ("peer-client", "tun0"))
        .addr("vpn", "tun0", "10.8.0.1/24")
        .addr("peer-client", "tun0", "10.8.0.2/24")
        .route("peer-client", "default via 10.8.0.1")
        .route("node", "10.8.0.0/24 via 10.12.9.4")
        .route("peer", "10.8.0.0/24 via 10.100.0.5");
    let lab = net.up()?;
    for (setting, value) in [("retrans_time_ms", "100"), ("mcast_solicit", "1")] {
        lab.sysctl("node", &format!("ipv4/neigh/cni0/{setting}"), value)?;
    }
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("peer-client", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the client's request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "tcp 10.8.0.2:43210 > 10.20.30.40:443 from gateway vpn
         dropped: NEIGH_FAILED
         source-preserved, on the wire 10.8.0.2, reply-lost";
    hold(
        &lab,
        &report,
        "c8_next_hop_is_dead",
        &[claims],
        &[(0, "neighbour-failed")],
    )
}
