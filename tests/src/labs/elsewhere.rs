//! Replies that come from another address than was asked.

use anyhow::Result;

use super::Case;
use super::steps::{A_MOMENT, hold, masqueraded_pod, same, watch};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Lab, Topology};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer, UdpCall, UdpServer};

pub(super) const CASES: &[Case] = &[
    Case::new("udp_answered_by_another_address", &[], another_address),
    Case::new(
        "udp_answered_by_another_address_behind_nat",
        &[],
        another_address_behind_nat,
    ),
    Case::new("reply_rewritten_on_its_way", &[], rewritten_on_its_way),
    Case::new("service_reply_past_conntrack", &[], past_conntrack).needs(&["br_netfilter"]),
];

/// What the pod's connected socket makes of such an answer.
fn in_vain(lab: &Lab) -> Result<()> {
    let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").patience(A_MOMENT);
    same("the request", call.run(lab)?, Outcome::Silence)
}

/// The far side has two addresses, and its server answers with the other one.
fn another_address() -> Result<()> {
    let lab = cast::one_pod("elsewhere", RouteBack::Known).up()?;
    let peer = UdpServer::answering_from(&lab, "peer", "10.20.30.40:53", "10.30.0.10:53")?;
    let report = watch(&lab, &["10.0.0.0/8", "--port", "53"], 0, || in_vain(&lab))?;
    drop(peer);
    hold(
        &lab,
        &report,
        "udp_answered_by_another_address",
        &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
           source-preserved, on the wire 10.12.3.4, reply-lost"],
        &[(0, "reply-bypassed-conntrack")],
    )
}

/// Behind the node's masquerade that answer has no way to the pod: the node takes it for its own.
fn another_address_behind_nat() -> Result<()> {
    let lab = masqueraded_pod("elsewherenat", RouteBack::Missing)?;
    let peer = UdpServer::answering_from(&lab, "peer", "10.20.30.40:53", "10.30.0.10:53")?;
    let report = watch(&lab, &["10.0.0.0/8", "--port", "53"], 0, || in_vain(&lab))?;
    drop(peer);
    hold(&lab, &report, "udp_answered_by_another_address_behind_nat", &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack
                  rule iptables-legacy nat/IP-MASQ 1
                  source-rewritten, on the wire 10.100.0.5, reply-lost"], &[(0, "reply-bypassed-conntrack")])
}

/// A rule of the node that knows no connections writes another source into the answer.
fn rewritten_on_its_way() -> Result<()> {
    let lab = cast::one_pod("replywrong", RouteBack::Known).up()?;
    lab.nft(
        "node",
        "table ip t { chain c {
            type filter hook forward priority 0
            ip saddr 10.20.30.40 udp sport 53 ip saddr set 10.20.30.99
        }
        }",
    )?;
    let peer = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let report = watch(&lab, &["--dest", PEER], 0, || in_vain(&lab))?;
    drop(peer);
    hold(
        &lab,
        &report,
        "reply_rewritten_on_its_way",
        &["udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
                  reply src 10.20.30.40:53 > 10.20.30.99:53 at node, null, unknown, by between
                  source-preserved, on the wire 10.12.3.4, reply-lost"],
        &[(0, "reply-rewritten-wrong")],
    )
}

/// Client and backend of a Service hang on one bridge, and bridged packets do not pass netfilter: the
/// request is translated on its way through the node, and the answer is switched past it.
fn past_conntrack() -> Result<()> {
    let mut net = Topology::new("pastct");
    net.forward("node")
        .ip("node", "link add cni0 type bridge")
        .ip("node", "link set cni0 up")
        .addr("node", "cni0", "10.12.3.1/24")
        .sysctl("node", "bridge/bridge-nf-call-iptables", "0");
    for (pod, addr) in [("pod", "10.12.3.4/24"), ("pod2", "10.12.3.5/24")] {
        let veth = format!("veth-{pod}");
        net.veth((pod, "eth0"), ("node", &veth))
            .ip("node", &format!("link set {veth} master cni0"))
            .addr(pod, "eth0", addr)
            .route(pod, "default via 10.12.3.1");
    }
    let lab = net.up()?;
    lab.iptables_legacy(
        "node",
        "-t nat -A PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j DNAT --to-destination 10.12.3.5:8080",
    )?;
    let _backend = StreamServer::start(&lab, "pod2", "10.12.3.5:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["10.96.0.10:80"], 0, || {
        let call = StreamCall::new("pod", "10.96.0.10:80", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    hold(&lab, &report, "service_reply_past_conntrack", &["tcp 10.12.3.4:43210 > 10.96.0.10:80 from pod pod
                  request dst 10.96.0.10:80 > 10.12.3.5:8080 at node, prerouting, netfilter, by conntrack
                  rule iptables-legacy nat/PREROUTING 1
                  dropped: NO_SOCKET
                  source-preserved, on the wire 10.12.3.4, reply-lost"], &[(0, "reply-bypassed-conntrack")])
}
