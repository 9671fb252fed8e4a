//! Programs that take packets past the node's own path, as CNIs without iptables do: what is not seen there is not lost.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};

use super::steps::{A_MOMENT, MASQUERADED, answered, hold, masquerade, same, watch};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, EXEMPT, PEER, RouteBack};
use crate::lab::netkit::Mode;
use crate::lab::redirect::{Act, Side, attach_tc};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "reply_redirected_to_the_peer",
        &["B2"],
        reply_redirected_to_the_peer,
    )
    .on(WITH_TCX),
    Case::new(
        "reply_redirected_to_the_neighbour",
        &["B2"],
        reply_redirected_to_the_neighbour,
    )
    .on(WITH_TCX),
    Case::new(
        "request_redirected_past_netfilter",
        &[],
        request_redirected_past_netfilter,
    )
    .on(WITH_TCX),
    Case::new("reply_taken_for_a_beginning", &["B2"], reply_begins).on(WITH_TCX),
    Case::new("netkit_l2_masqueraded", &[], || {
        netkit_masqueraded(Mode::L2, "netkit_l2_masqueraded")
    })
    .on(WITH_NETKIT),
    Case::new("netkit_l3_masqueraded", &[], || {
        netkit_masqueraded(Mode::L3, "netkit_l3_masqueraded")
    })
    .on(WITH_NETKIT),
    Case::new("netkit_exempt", &[], netkit_exempt).on(WITH_NETKIT),
    Case::new("netkit_redirects_both_ways", &["B2"], netkit_redirects).on(WITH_NETKIT),
    Case::new("netkit_program_drops", &["B9"], netkit_program_drops).on(WITH_NETKIT),
];

const WITH_TCX: &[Kernel] = &[Kernel::Native, Kernel::V6_12, Kernel::V7];
const WITH_NETKIT: &[Kernel] = &[Kernel::V6_12, Kernel::V7];

/// A node's rule for requests of its pods.
const FROM_PODS: &str = "-t nat -A POSTROUTING -s 10.12.0.0/16 -o eth0 -j MASQUERADE";

/// The pod's request to an exempt destination, as it must be told.
const KEPT: &str = "tcp 10.12.3.4:43210 > 10.30.0.10:443 from pod pod
    exempt-by-rule: iptables-legacy nat/IP-MASQ 1
    source-preserved, on the wire 10.12.3.4, completed";

/// A node that masquerades all but requests to the exempt address.
fn exempting(net: &crate::lab::Topology) -> Result<Lab> {
    let lab = net.up()?;
    masquerade(&lab, &["10.30.0.10/32"])?;
    Ok(lab)
}

/// A program at the device of the node that sends on by another of its devices.
fn redirect(lab: &Lab, at: &str, side: Side, act: fn(u32) -> Act, by: &str) -> Result<OwnedFd> {
    let index = |name: &str| {
        nix::net::if_::if_nametoindex(name).with_context(|| format!("the index of {name}"))
    };
    lab.in_ns("node", || {
        attach_tc(index(at)?, side, "fast_path", act(index(by)?))
    })?
}

/// One request to `to`, whose source must be seen as `source`, and the whole report.
fn one_request(
    lab: &Lab,
    name: &str,
    (to, source): (&str, &str),
    claims: &str,
    findings: &[(usize, &str)],
) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", &format!("{to}:443"), Behaviour::Answer)?;
    let report = watch(lab, &["--dest", to], 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", &format!("{to}:443"), 43_210).run(lab)?,
            answered(&format!("{source}:43210"))?,
        )
    })?;
    hold(lab, &report, name, &[claims], findings)
}

const TO_EXEMPT: (&str, &str) = (EXEMPT, "10.12.3.4");

fn reply_redirected_to_the_peer() -> Result<()> {
    let lab = exempting(&cast::one_pod("peer", RouteBack::Known))?;
    let _there = redirect(&lab, "eth0", Side::Ingress, Act::RedirectPeer, "veth-pod")?;
    one_request(&lab, "reply_redirected_to_the_peer", TO_EXEMPT, KEPT, &[])
}

fn reply_redirected_to_the_neighbour() -> Result<()> {
    let lab = exempting(&cast::one_pod("neigh", RouteBack::Known))?;
    let _there = redirect(&lab, "eth0", Side::Ingress, Act::RedirectNeigh, "veth-pod")?;
    one_request(
        &lab,
        "reply_redirected_to_the_neighbour",
        TO_EXEMPT,
        KEPT,
        &[],
    )
}

/// The node's rule would masquerade it, but a program sends it out at once.
fn request_redirected_past_netfilter() -> Result<()> {
    let lab = cast::one_pod("fast", RouteBack::Known).up()?;
    lab.iptables_legacy("node", FROM_PODS)?;
    let _there = redirect(&lab, "veth-pod", Side::Ingress, Act::RedirectNeigh, "eth0")?;
    one_request(
        &lab,
        "request_redirected_past_netfilter",
        (PEER, "10.12.3.4"),
        "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
         source-preserved, on the wire 10.12.3.4, completed",
        &[],
    )
}

/// The same, and the rule names no source: to the node, which saw no request, the far side's data begin a connection, and the
/// rule gives them the node's address. The client gets no answer.
fn reply_begins() -> Result<()> {
    let lab = cast::one_pod("begins", RouteBack::Known).up()?;
    lab.iptables_legacy("node", "-t nat -A POSTROUTING -j MASQUERADE")?;
    let _there = redirect(&lab, "veth-pod", Side::Ingress, Act::RedirectNeigh, "eth0")?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        let got = call.run(&lab)?;
        same("an answer", matches!(got, Outcome::Answered(_)), false)
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        source-preserved, on the wire 10.12.3.4, reply-lost";
    hold(
        &lab,
        &report,
        "reply_taken_for_a_beginning",
        &[claims],
        &[(0, "reply-rewritten-wrong")],
    )
}

fn netkit_masqueraded(mode: Mode, name: &str) -> Result<()> {
    let lab = cast::netkit_pod("netkit", RouteBack::Missing, mode).up()?;
    masquerade(&lab, &[])?;
    one_request(&lab, name, (PEER, "10.100.0.5"), MASQUERADED, &[])
}

fn netkit_exempt() -> Result<()> {
    let lab = exempting(&cast::netkit_pod("netkit", RouteBack::Known, Mode::L3))?;
    one_request(&lab, "netkit_exempt", TO_EXEMPT, KEPT, &[])
}

/// Both ways past the node's path, as Cilium does with netkit: the reply from the node's device into the pod at once, the
/// request from the pod's end out at once.
fn netkit_redirects() -> Result<()> {
    let lab = cast::netkit_pod("netkit", RouteBack::Known, Mode::L3).up()?;
    lab.iptables_legacy("node", FROM_PODS)?;
    let _reply = redirect(&lab, "eth0", Side::Ingress, Act::RedirectPeer, "nk-pod")?;
    let _request = redirect(&lab, "nk-pod", Side::NetkitPeer, Act::RedirectNeigh, "eth0")?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        source-preserved, on the wire 10.12.3.4, completed";
    one_request(
        &lab,
        "netkit_redirects_both_ways",
        (PEER, "10.12.3.4"),
        claims,
        &[],
    )
}

/// A policy engine's program at the pod's end of the pair says no.
fn netkit_program_drops() -> Result<()> {
    let lab = cast::netkit_pod("netkit", RouteBack::Known, Mode::L3).up()?;
    let _program = redirect(&lab, "nk-pod", Side::NetkitPeer, |_| Act::Drop, "nk-pod")?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        dropped: NOT_SPECIFIED
        source-unknown, on the wire null, dropped";
    hold(
        &lab,
        &report,
        "netkit_program_drops",
        &[claims],
        &[(0, "dropped-by-program")],
    )
}
