//! Rows B and C: replies that do not come home, and those that only seem not to.

use anyhow::Result;

use super::Case;
use super::steps::{A_MOMENT, answered, hold, masquerade, reset_without_entry, same, watch};
use crate::lab::Lab;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer, UdpCall, UdpServer};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "b2_reply_dropped_by_policy",
        &["B2", "B6"],
        reply_dropped_by_policy,
    ),
    Case::new("b2_reply_without_route", &["B2", "D2"], reply_without_route),
    Case::new("b2_udp_reply_dropped", &["B2"], udp_reply_dropped),
    Case::new("b4_reply_on_another_device", &["B2", "B4"], || {
        other_device("1", "b4_reply_on_another_device")
    }),
    Case::new("b2_asymmetric_reply_is_no_loss", &["B2"], || {
        other_device("0", "b2_asymmetric_reply_is_no_loss")
    }),
    Case::new(
        "b7_reset_left_untranslated",
        &["B7"],
        reset_left_untranslated,
    ),
    Case::new("b8_small_mtu_on_the_node", &["B8"], small_mtu_here),
    Case::new("b8_small_mtu_beyond", &["B8"], small_mtu_beyond),
    Case::new("c26_hairpin_not_masqueraded", &[], hairpin),
];

const REQUEST: &str = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod";

/// A request to a server that answers, where the answer must not come home.
fn unheard(lab: &Lab, name: &str, claims: &str, findings: &[(usize, &str)]) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(lab, &["--dest", PEER], 0, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(lab)?, Outcome::Silence)
    })?;
    hold(lab, &report, name, &[claims], findings)
}

fn reply_dropped_by_policy() -> Result<()> {
    let lab = cast::one_pod("b2", RouteBack::Known).up()?;
    lab.iptables_legacy("node", "-A FORWARD -i eth0 -o veth-pod -j DROP")?;
    let claims = format!(
        "{REQUEST}
         dropped: NETFILTER_DROP
         policy-drop: iptables-legacy filter/FORWARD 1
         source-preserved, on the wire 10.12.3.4, reply-lost"
    );
    unheard(
        &lab,
        "b2_reply_dropped_by_policy",
        &claims,
        &[(0, "policy-drop")],
    )
}

/// The node knows the way to the peer, and none back to the pods.
fn reply_without_route() -> Result<()> {
    let lab = cast::one_pod("b2route", RouteBack::Known).up()?;
    lab.ip(
        "node",
        "route add 10.20.30.40 via 10.100.0.1\nroute del default\naddr del 10.12.3.1/24 dev veth-pod\n\
         addr add 10.12.3.1/32 dev veth-pod",
    )?;
    let claims = format!(
        "{REQUEST}
         dropped: IP_INNOROUTES
         source-preserved, on the wire 10.12.3.4, reply-lost"
    );
    unheard(&lab, "b2_reply_without_route", &claims, &[(0, "no-route")])
}

fn udp_reply_dropped() -> Result<()> {
    let lab = cast::one_pod("b2udp", RouteBack::Known).up()?;
    lab.iptables_legacy("node", "-A FORWARD -i eth0 -o veth-pod -j DROP")?;
    let _peer = UdpServer::start(&lab, "peer", "10.20.30.40:53")?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
        dropped: NETFILTER_DROP
        policy-drop: iptables-legacy filter/FORWARD 1
        source-preserved, on the wire 10.12.3.4, reply-lost";
    hold(
        &lab,
        &report,
        "b2_udp_reply_dropped",
        &[claims],
        &[(0, "policy-drop")],
    )
}

/// The node translates to the address of its second device, so replies come back by that one. (The peer's neighbour entry is
/// permanent: where the check is strict, the node would not even answer its question.)
fn other_device(rp_filter: &str, name: &str) -> Result<()> {
    let mut net = cast::one_pod("nics", RouteBack::Missing);
    net.veth(("node", "eth1"), ("peer", "eth1"))
        .ip("node", "link set eth1 address 02:00:00:00:00:05")
        .addr("node", "eth1", "10.101.0.5/24")
        .addr("peer", "eth1", "10.101.0.1/24")
        .ip(
            "peer",
            "neigh add 10.101.0.5 lladdr 02:00:00:00:00:05 dev eth1 nud permanent",
        );
    let lab = net.up()?;
    lab.sysctl("node", "ipv4/conf/all/rp_filter", rp_filter)?;
    lab.iptables_legacy(
        "node",
        "-t nat -A POSTROUTING -s 10.12.0.0/16 -o eth0 -j SNAT --to-source 10.101.0.5",
    )?;
    if rp_filter == "0" {
        let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
        let report = watch(&lab, &["--dest", PEER], 1, || {
            let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
            same(
                "the request",
                call.run(&lab)?,
                answered("10.101.0.5:43210")?,
            )
        })?;
        let claims = format!(
            "{REQUEST}
             request src 10.12.3.4:43210 > 10.101.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
             rule iptables-legacy nat/POSTROUTING 1
             unowned-rule: iptables-legacy nat/POSTROUTING 1
             source-rewritten, on the wire 10.101.0.5, completed"
        );
        return hold(&lab, &report, name, &[&claims], &[]);
    }
    let claims = format!(
        "{REQUEST}
         request src 10.12.3.4:43210 > 10.101.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/POSTROUTING 1
         dropped: IP_RPFILTER
         unowned-rule: iptables-legacy nat/POSTROUTING 1
         source-rewritten, on the wire 10.101.0.5, reply-lost"
    );
    unheard(&lab, name, &claims, &[(0, "rp-filter")])
}

/// Conntrack forgets the connection before its client resets it.
fn reset_left_untranslated() -> Result<()> {
    let lab = cast::one_pod("b7", RouteBack::Known).up()?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 1, || reset_without_entry(&lab))?;
    let claims = format!(
        "{REQUEST}
         request src 10.12.3.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
         rule iptables-legacy nat/IP-MASQ 1
         source-rewritten, on the wire 10.100.0.5, completed"
    );
    hold(
        &lab,
        &report,
        "b7_reset_left_untranslated",
        &[&claims],
        &[(0, "invalid-not-translated")],
    )
}

/// A request of several full-size segments to a server that says nothing before it has all of it.
fn stuck(lab: &Lab, name: &str, claims: &str) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Silent)?;
    let report = watch(lab, &["--dest", PEER], 0, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210)
            .payload(vec![b'x'; 2_800])
            .patience(A_MOMENT);
        same("the request", call.run(lab)?, Outcome::Silence)
    })?;
    hold(lab, &report, name, &[claims], &[(0, "mtu-suspected")])
}

/// The node's way out takes less than the pod sends, and the pod does not hear of it.
fn small_mtu_here() -> Result<()> {
    let mut net = cast::one_pod("mtu", RouteBack::Known);
    net.ip("node", "link set eth0 mtu 1300");
    let lab = net.up()?;
    lab.nft(
        "pod",
        "table ip t { chain c { type filter hook input priority 0; ip protocol icmp drop; }; }",
    )?;
    let claims = format!(
        "{REQUEST}
         dropped: PKT_TOO_BIG
         dropped: NETFILTER_DROP
         policy-drop: nft t/c handle 2
         source-preserved, on the wire 10.12.3.4, in-progress"
    );
    stuck(&lab, "b8_small_mtu_on_the_node", &claims)
}

/// A link beyond the node takes less, and nobody says so.
fn small_mtu_beyond() -> Result<()> {
    let lab = cast::one_pod("mtu2", RouteBack::Known).up()?;
    lab.nft(
        "peer",
        "table ip t { chain c { type filter hook input priority 0; ip length > 1300 drop; }; }",
    )?;
    let claims = format!(
        "{REQUEST}
         source-preserved, on the wire 10.12.3.4, in-progress"
    );
    stuck(&lab, "b8_small_mtu_beyond", &claims)
}

/// A Service that the pod itself serves, without the rule that masquerades hairpins.
fn hairpin() -> Result<()> {
    let lab = cast::one_pod("c26", RouteBack::Known).up()?;
    lab.sysctl("node", "ipv4/conf/veth-pod/send_redirects", "0")?;
    lab.sysctl("node", "ipv4/conf/all/send_redirects", "0")?;
    lab.iptables_legacy(
        "node",
        "-t nat -A PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j DNAT --to-destination 10.12.3.4:8080",
    )?;
    let _backend = StreamServer::start(&lab, "pod", "10.12.3.4:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["10.96.0.10:80"], 1, || {
        let call = StreamCall::new("pod", "10.96.0.10:80", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "tcp 10.12.3.4:43210 > 10.96.0.10:80 from pod pod
        request dst 10.96.0.10:80 > 10.12.3.4:8080 at node, prerouting, netfilter, by conntrack
        rule iptables-legacy nat/PREROUTING 1
        dropped: IP_LOCAL_SOURCE
        source-preserved, on the wire 10.12.3.4, dropped";
    hold(
        &lab,
        &report,
        "c26_hairpin_not_masqueraded",
        &[claims],
        &[(0, "hairpin-unmasked")],
    )
}
