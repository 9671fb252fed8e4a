//! What the kernel frees as dropped and is no loss: none of it is told.

use anyhow::{Context as _, Result};
use socket2::{Domain, Protocol, Socket, Type};

use super::super::steps::{answered, hold, masquerade, same, watch};
use super::{Case, DROPPED};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(in super::super) const CASES: &[Case] = &[
    Case::new("copies_are_no_losses", &["B6"], copies),
    Case::new("redirects_are_no_losses", &["B6"], redirects),
];

/// Sockets that get a copy of each packet and have room for none: the kernel drops those copies.
fn listeners(lab: &Lab, ns: &str) -> Result<[Socket; 2]> {
    const ALL_PROTOCOLS: i32 = 0x0300; // htons(ETH_P_ALL)
    let open = || -> std::io::Result<[Socket; 2]> {
        let packets = Socket::new(
            Domain::PACKET,
            Type::RAW,
            Some(Protocol::from(ALL_PROTOCOLS)),
        )?;
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP))?;
        for socket in [&packets, &raw] {
            socket.set_recv_buffer_size(1)?;
        }
        Ok([packets, raw])
    };
    lab.in_ns(ns, open)?
        .with_context(|| format!("raw sockets in {ns}"))
}

fn copies() -> Result<()> {
    let lab = cast::one_pod("copies", RouteBack::Known).up()?;
    let sockets: Vec<_> = ["pod", "node", "peer"]
        .iter()
        .map(|ns| listeners(&lab, ns))
        .collect::<Result<_>>()?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
        let outcome = call.run(&lab)?;
        same(
            "what the far side saw",
            outcome,
            answered("10.12.3.4:43210")?,
        )
    })?;
    drop(sockets);
    let claims = format!(
        "{DROPPED}
         source-preserved, on the wire 10.12.3.4, completed"
    );
    hold(&lab, &report, "copies_are_no_losses", &[&claims], &[])
}

/// A Service that the pod itself serves: the node sends the packets back to where they came from, and says so by an ICMP
/// redirect, which NAT swallows.
fn redirects() -> Result<()> {
    let lab = cast::one_pod("redirects", RouteBack::Known).up()?;
    for device in ["all", "veth-pod"] {
        lab.sysctl("node", &format!("ipv4/conf/{device}/send_redirects"), "1")?;
    }
    masquerade(&lab, &[])?;
    lab.iptables_legacy(
        "node",
        "-t nat -A PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j DNAT --to-destination 10.12.3.4:8080",
    )?;
    let _backend = StreamServer::start(&lab, "pod", "10.12.3.4:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["10.96.0.10:80"], 1, || {
        let call = StreamCall::new("pod", "10.96.0.10:80", 43_210);
        same(
            "whom the backend saw",
            call.run(&lab)?,
            answered("10.12.3.1:43210")?,
        )
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.96.0.10:80 from pod pod
        request dst 10.96.0.10:80 > 10.12.3.4:8080 at node, prerouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/PREROUTING 1
        request src 10.12.3.4:43210 > 10.12.3.1:43210 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/IP-MASQ 1
        source-rewritten, on the wire 10.12.3.1, completed";
    hold(&lab, &report, "redirects_are_no_losses", &[claims], &[])
}
