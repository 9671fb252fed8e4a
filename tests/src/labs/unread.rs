//! Packets that lack their conntrack entry, or show no tuple at all: the fast path of a flowtable, and IPsec. Virtual machines
//! have the modules.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::steps::{MASQUERADED, answered, hold, masquerade, same, watch};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("offloaded_before_the_trace", &[], offloaded_before)
        .on(VIRTUAL)
        .needs(FLOWTABLE),
    Case::new("offloaded_during_the_trace", &[], offloaded_during)
        .on(VIRTUAL)
        .needs(FLOWTABLE),
    Case::new("encrypted_by_ipsec", &[], encrypted)
        .on(VIRTUAL)
        .needs(IPSEC),
    Case::new("masqueraded_and_encrypted", &[], masqueraded_and_encrypted)
        .on(VIRTUAL)
        .needs(IPSEC),
    Case::new("port_rewritten", &[], port_rewritten),
];

const VIRTUAL: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];
/// How long a connection stays open after its first packet on the fast path. The entry is asked for within a fiftieth of a
/// second of that packet, and loses its mark with the connection's end: nothing tells a lab that it was asked.
const ASKED: Duration = Duration::from_millis(300);
const FLOWTABLE: &[&str] = &[
    "nf_flow_table",
    "nf_flow_table_inet",
    "nft_flow_offload",
    "nf_conntrack_netlink",
];
const IPSEC: &[&str] = &["esp4", "xfrm_user", "authenc", "echainiv"];

/// A masqueraded pod, whose established flows take the fast path.
fn fast_path(name: &str) -> Result<Lab> {
    let lab = cast::one_pod(name, RouteBack::Missing).up()?;
    masquerade(&lab, &[])?;
    lab.nft(
        "node",
        "table inet fast {
            flowtable f { hook ingress priority 0; devices = { veth-pod, eth0 }; }
            chain forward { type filter hook forward priority 0; meta l4proto tcp ct state established flow add @f; }
        }",
    )?;
    Ok(lab)
}

fn call() -> StreamCall {
    StreamCall::new("pod", "10.20.30.40:443", 43_210)
}

/// The first packet that is sighted is on the fast path: it is translated and carries no entry. Conntrack, when asked by tuple,
/// says who did it.
fn offloaded_before() -> Result<()> {
    let lab = fast_path("offold")?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let stream = call()
        .open(&lab)?
        .ok()
        .context("no connection before the trace")?;
    same(
        "before",
        stream.ask(b"before")?,
        answered("10.100.0.5:43210")?,
    )?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let answer = || answered("10.100.0.5:43210");
        same("during", stream.ask(b"during")?, answer()?)?;
        thread::sleep(ASKED);
        same("at last", stream.finish(b"at last")?, answer()?)
    })?;
    let findings = [(0, "mapping-predates-trace"), (0, "flow-offloaded")];
    hold(
        &lab,
        &report,
        "offloaded_before_the_trace",
        &[MASQUERADED],
        &findings,
    )
}

/// The first packets go through the rules, later ones past them.
fn offloaded_during() -> Result<()> {
    let lab = fast_path("offnew")?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let stream = call().open(&lab)?.ok().context("no connection")?;
        same(
            "first",
            stream.ask(b"first")?,
            answered("10.100.0.5:43210")?,
        )?;
        thread::sleep(ASKED);
        same(
            "then",
            stream.finish(b"then")?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    let findings = [(0, "flow-offloaded")];
    hold(
        &lab,
        &report,
        "offloaded_during_the_trace",
        &[MASQUERADED],
        &findings,
    )
}

/// A tunnel between node and peer, static keys, for what goes from `inner` to the far side and back.
fn tunnel(name: &str, inner: &str) -> Result<Lab> {
    let lab = cast::one_pod(name, RouteBack::Known).up()?;
    let keys = "enc cbc(aes) 0x00112233445566778899aabbccddeeff \
                auth-trunc hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 128";
    let (node, peer) = ("10.100.0.5", "10.100.0.1");
    for (from, to, spi) in [(node, peer, 1), (peer, node, 2)] {
        for ns in ["node", "peer"] {
            let state = format!(
                "xfrm state add src {from} dst {to} proto esp spi {spi} reqid 1 mode tunnel {keys}"
            );
            lab.ip(ns, &state)?;
        }
    }
    let policy = |ns: &str, from: &str, to: &str, dir: &str, ends: (&str, &str)| {
        let (src, dst) = ends;
        lab.ip(
            ns,
            &format!("xfrm policy add src {from} dst {to} dir {dir} tmpl src {src} dst {dst} proto esp reqid 1 mode tunnel"),
        )
    };
    let far = "10.20.30.40/32";
    policy("node", inner, far, "out", (node, peer))?;
    policy("node", far, inner, "fwd", (peer, node))?;
    policy("node", far, inner, "in", (peer, node))?;
    policy("peer", far, inner, "out", (peer, node))?;
    policy("peer", inner, far, "in", (node, peer))?;
    Ok(lab)
}

/// What leaves the node cannot be read, so with which source it did is not known.
fn encrypted() -> Result<()> {
    let lab = tunnel("ipsec", "10.12.3.0/24")?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            call().run(&lab)?,
            answered("10.12.3.4:43210")?,
        )
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        source-unknown, on the wire null, completed ?";
    hold(
        &lab,
        &report,
        "encrypted_by_ipsec",
        &[claims],
        &[(0, "point-unavailable")],
    )
}

/// The same, but the answers' entry shows that the source was translated before it was encrypted.
fn masqueraded_and_encrypted() -> Result<()> {
    let lab = tunnel("ipsecmasq", "10.100.0.5/32")?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            call().run(&lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(
        &lab,
        &report,
        "masqueraded_and_encrypted",
        &[MASQUERADED],
        &[],
    )
}

/// A translation to the pod's own address, and another port: the source is kept.
fn port_rewritten() -> Result<()> {
    let lab = cast::one_pod("port", RouteBack::Known).up()?;
    lab.iptables_legacy(
        "node",
        "-t nat -A POSTROUTING -s 10.12.3.4 -p tcp -j SNAT --to-source 10.12.3.4:27391-27391",
    )?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            call().run(&lab)?,
            answered("10.12.3.4:27391")?,
        )
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        request sport 10.12.3.4:43210 > 10.12.3.4:27391 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/POSTROUTING 1
        unowned-rule: iptables-legacy nat/POSTROUTING 1
        source-preserved, on the wire 10.12.3.4, completed";
    hold(
        &lab,
        &report,
        "port_rewritten",
        &[claims],
        &[(0, "port-rewritten")],
    )
}
