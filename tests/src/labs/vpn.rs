//! A VPN pod with a real OpenVPN server: its clients' packets come out of `tun0`, by the hand of a process.
//!
//! ```text
//! peer-client 10.8.0.2 tun0 == (through peer, the node's port 1194 and veth-vpn) == tun0 10.8.0.1 vpn
//! vpn 10.12.9.4 eth0 -- veth-vpn  node 10.100.0.5 eth0 -- eth0 10.100.0.1 peer: 10.20.30.40
//! ```

use anyhow::Result;

use super::Case;
use super::steps::{A_MOMENT, answered, hold, same, watch};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::openvpn::{Client, OpenVpn};
use crate::lab::{Lab, Topology};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("c1_openvpn_kept", &["C1"], || play(&KEPT)).needs(NEEDS),
    Case::new("c4_openvpn_outer_masqueraded", &["C4"], || play(&OUTER)).needs(NEEDS),
    Case::new("c1_openvpn_masqueraded_in_the_pod", &["C1"], || play(&POD)).needs(NEEDS),
    Case::new("c1_openvpn_masqueraded_twice", &["C1", "C2"], || {
        play(&TWICE)
    })
    .needs(NEEDS),
    Case::new("c2_openvpn_masqueraded_on_the_node", &["C1", "C2"], || {
        play(&NODE)
    })
    .needs(NEEDS),
    Case::new("c1_openvpn_by_tcp", &["C1"], by_tcp).needs(NEEDS),
    Case::new("c1_openvpn_two_clients", &["C1"], two_clients).needs(NEEDS),
    Case::new(
        "c4_openvpn_asked_for_by_its_own_address",
        &["C4"],
        outer_asked,
    )
    .needs(NEEDS),
    Case::new("d1_openvpn_does_not_forward", &["D1"], || play(&STUCK)).needs(NEEDS),
    Case::new("d2_openvpn_pool_without_route", &["D2"], || play(&LOST)).needs(NEEDS),
    Case::new("d5_openvpn_policy_for_the_pool", &["D5"], || play(&DENIED)).needs(NEEDS),
];

/// The second: conntrack is asked which flow carries the tunnel.
pub(super) const NEEDS: &[&str] = &["tun", "nf_conntrack_netlink"];
const BY_TCP_443: &str = "tcp 10.8.0.2:43210 > 10.20.30.40:443 from gateway vpn";

/// One thing that may be right or wrong about a VPN pod.
struct Story {
    name: &'static str,
    /// `net.ipv4.ip_forward` in the pod.
    forwards: &'static str,
    /// Whether the node knows the way to the pod's clients.
    node_knows_pool: bool,
    /// `iptables-restore` scripts: in the pod, and on the node.
    pod: &'static str,
    node: &'static str,
    /// What the client got.
    truth: Option<&'static str>,
    /// Behind the headline.
    claims: &'static str,
    findings: &'static [(usize, &'static str)],
}

const KEPT: Story = Story {
    name: "c1_openvpn_kept",
    forwards: "1",
    node_knows_pool: true,
    pod: "",
    node: "",
    truth: Some("10.8.0.2:43210"),
    claims: "source-preserved, on the wire 10.8.0.2, completed",
    findings: CARRIED,
};

const CARRIED: &[(usize, &str)] = &[(0, "carried-inside")];
const IN_THE_POD: &str = "*nat\n-A POSTROUTING -s 10.8.0.0/24 -o eth0 -j MASQUERADE\nCOMMIT\n";
const ON_THE_NODE: &str = "*nat\n-A POSTROUTING -o eth0 -j MASQUERADE\nCOMMIT\n";

const POD: Story = Story {
    name: "c1_openvpn_masqueraded_in_the_pod",
    pod: IN_THE_POD,
    truth: Some("10.12.9.4:43210"),
    claims: "request src 10.8.0.2:43210 > 10.12.9.4:43210 at gateway, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.4, completed",
    ..KEPT
};

const NODE: Story = Story {
    name: "c2_openvpn_masqueraded_on_the_node",
    node: ON_THE_NODE,
    truth: Some("10.100.0.5:43210"),
    claims: "request src 10.8.0.2:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.100.0.5, completed",
    ..KEPT
};

/// The Service in front of the pod masquerades its clients, as policy Cluster does: that concerns the tunnel's own flow.
const OUTER: Story = Story {
    name: "c4_openvpn_outer_masqueraded",
    node: "*nat\n-A POSTROUTING -o veth-vpn -p udp -m udp --dport 1194 -j MASQUERADE\nCOMMIT\n",
    ..KEPT
};

const TWICE: Story = Story {
    name: "c1_openvpn_masqueraded_twice",
    pod: IN_THE_POD,
    node: ON_THE_NODE,
    truth: Some("10.100.0.5:43210"),
    claims: "request src 10.8.0.2:43210 > 10.12.9.4:43210 at gateway, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         request src 10.12.9.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.100.0.5, completed",
    findings: &[(0, "carried-inside"), (0, "double-rewrite")],
    ..KEPT
};

const STUCK: Story = Story {
    name: "d1_openvpn_does_not_forward",
    forwards: "0",
    truth: None,
    claims: "dropped: IP_INADDRERRORS
         source-unknown, on the wire null, dropped",
    findings: &[(0, "carried-inside"), (0, "forwarding-disabled")],
    ..KEPT
};

const LOST: Story = Story {
    name: "d2_openvpn_pool_without_route",
    node_knows_pool: false,
    truth: None,
    claims: "dropped: IP_INNOROUTES
         source-preserved, on the wire 10.8.0.2, reply-lost",
    findings: &[(0, "carried-inside"), (0, "no-route")],
    ..KEPT
};

/// The policy lets the clients' pool pass and nothing else of the pods; the pod makes itself of the client.
const DENIED: Story = Story {
    name: "d5_openvpn_policy_for_the_pool",
    pod: IN_THE_POD,
    node: "*filter\n-A FORWARD -s 10.8.0.0/24 -j ACCEPT\n-A FORWARD -s 10.12.0.0/16 -d 10.20.0.0/16 -j DROP\nCOMMIT\n",
    truth: None,
    claims: "request src 10.8.0.2:43210 > 10.12.9.4:43210 at gateway, postrouting, netfilter, by conntrack
         rule iptables-legacy nat/POSTROUTING 1
         dropped: NETFILTER_DROP
         policy-drop: iptables-legacy filter/FORWARD 2
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.12.9.4, dropped",
    findings: &[(0, "carried-inside"), (0, "policy-drop")],
    ..KEPT
};

/// The VPN pod, and its client behind `peer`.
fn ground(story: &Story) -> Topology {
    let mut net = cast::one_pod("vpn", RouteBack::Known);
    cast::pod(&mut net, "vpn", 9);
    net.sysctl("vpn", "ipv4/ip_forward", story.forwards)
        .forward("peer")
        .veth(("peer-client", "c0"), ("peer", "c0"))
        .addr("peer-client", "c0", "192.168.90.2/24")
        .addr("peer", "c0", "192.168.90.1/24")
        .route("peer-client", "10.100.0.5 via 192.168.90.1")
        .route("peer", "10.8.0.0/24 via 10.100.0.5")
        .route("node", "192.168.90.0/24 via 10.100.0.1")
        .route("node", "10.20.30.40 via 10.100.0.1")
        // The tunnel's own port of the node.
        .ip("node", "route del default");
    if story.node_knows_pool {
        net.route("node", "10.8.0.0/24 via 10.12.9.4");
    }
    net
}

const TO_THE_POD: &str = "*nat\n-A PREROUTING -i eth0 -p udp --dport 1194 -j DNAT --to-destination 10.12.9.4:1194\nCOMMIT\n";
const CLIENT: Client<'_> = Client {
    ns: "peer-client",
    port: 41_194,
    remote: "10.100.0.5 1194",
    route: "10.20.30.40 255.255.255.255",
};

fn play(story: &Story) -> Result<()> {
    let lab = ground(story).up()?;
    for (ns, script) in [
        ("vpn", story.pod),
        ("node", TO_THE_POD),
        ("node", story.node),
    ] {
        if !script.is_empty() {
            lab.restore(ns, "iptables-legacy-restore", script)?;
        }
    }
    let _vpn = OpenVpn::start(&lab, "vpn", "udp", &[CLIENT])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let closes = usize::from(story.truth.is_some());
    let report = watch(&lab, &["--dest", PEER], closes, || call(&lab, story))?;
    let claims = format!("{BY_TCP_443}\n{}", story.claims);
    hold(&lab, &report, story.name, &[&claims], story.findings)
}

/// A VPN pod that changes no source, and its connected client.
pub(super) fn kept() -> Result<(Lab, OpenVpn)> {
    let lab = ground(&KEPT).up()?;
    lab.restore("node", "iptables-legacy-restore", TO_THE_POD)?;
    let vpn = OpenVpn::start(&lab, "vpn", "udp", &[CLIENT])?;
    Ok((lab, vpn))
}

/// By TCP the server's socket itself names its peer.
fn by_tcp() -> Result<()> {
    let lab = ground(&KEPT).up()?;
    let to_the_pod = TO_THE_POD.replace("-p udp", "-p tcp");
    lab.restore("node", "iptables-legacy-restore", &to_the_pod)?;
    let _vpn = OpenVpn::start(&lab, "vpn", "tcp", &[CLIENT])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || call(&lab, &KEPT))?;
    let claims = format!("{BY_TCP_443}\n{}", KEPT.claims);
    hold(&lab, &report, "c1_openvpn_by_tcp", &[&claims], CARRIED)
}

/// With two clients nobody can tell whose packets carried which, for they are encrypted.
fn two_clients() -> Result<()> {
    let mut net = ground(&KEPT);
    net.veth(("peer-client2", "c0"), ("peer", "c1"))
        .addr("peer-client2", "c0", "192.168.91.2/24")
        .addr("peer", "c1", "192.168.91.1/24")
        .route("peer-client2", "10.100.0.5 via 192.168.91.1")
        .route("node", "192.168.91.0/24 via 10.100.0.1");
    let lab = net.up()?;
    lab.restore("node", "iptables-legacy-restore", TO_THE_POD)?;
    let second = Client {
        ns: "peer-client2",
        ..CLIENT
    };
    let _vpn = OpenVpn::start(&lab, "vpn", "udp", &[CLIENT, second])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || call(&lab, &KEPT))?;
    let claims = format!("{BY_TCP_443}\n{}", KEPT.claims);
    hold(&lab, &report, "c1_openvpn_two_clients", &[&claims], CARRIED)
}

/// Whoever asks for the VPN server's address gets the tunnel's own flow, and is told that others are in it.
fn outer_asked() -> Result<()> {
    let lab = ground(&POD).up()?;
    lab.restore("vpn", "iptables-legacy-restore", POD.pod)?;
    lab.restore("node", "iptables-legacy-restore", TO_THE_POD)?;
    let _vpn = OpenVpn::start(&lab, "vpn", "udp", &[CLIENT])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["10.100.0.5:1194"], 0, || call(&lab, &POD))?;
    let claims = "udp 192.168.90.2:41194 > 10.100.0.5:1194 from external null
        request dst 10.100.0.5:1194 > 10.12.9.4:1194 at node, prerouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/PREROUTING 1
        source-preserved, on the wire 192.168.90.2, completed";
    hold(
        &lab,
        &report,
        "c4_openvpn_asked_for_by_its_own_address",
        &[claims],
        &[(0, "carries-flows")],
    )
}

fn call(lab: &Lab, story: &Story) -> Result<()> {
    let call = StreamCall::new("peer-client", "10.20.30.40:443", 43_210).patience(A_MOMENT);
    let should = match story.truth {
        Some(seen) => answered(seen)?,
        None => Outcome::Silence,
    };
    same("what the client got", call.run(lab)?, should)
}
