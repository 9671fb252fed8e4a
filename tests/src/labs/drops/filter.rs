//! Deaths by netfilter and conntrack: which rule, which policy, or none at all.

use anyhow::Result;

use super::super::NATIVE;
use super::super::steps::{A_MOMENT, hold, same, watch};
use super::{Case, DROPPED, one_request, one_request6, spoofing};
use crate::lab::Lab;
use crate::lab::bpf;
use crate::lab::cast::{self, PEER, RouteBack};
use crate::trace::Report;
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer, UdpCall};

pub(in super::super) const CASES: &[Case] = &[
    Case::new("b6_policy_drop", &["B6"], policy_drop),
    Case::new("b6_policy_drop_ipv6", &["B6"], policy_drop_ipv6),
    Case::new("loopback_source_translated", &[], loopback_source),
    Case::new("b6_dropped_by_the_pod_itself", &["B6"], dropped_by_itself),
    Case::new("c49_no_port_left", &[], no_port_left),
    Case::new(
        "d5_policy_sees_the_translated_source",
        &["D5"],
        policy_after_masquerade,
    ),
    Case::new("b6_source_check_of_a_cni", &["B6"], source_check).on(NATIVE),
    Case::new("b6_source_check_on_a_bridge", &["B6"], bridge_check).on(NATIVE),
    Case::new("b6_queued_for_nobody", &["B6"], queued_for_nobody).on(NATIVE),
    Case::new("b6_dropped_by_no_rule", &["B6"], no_rule).on(NATIVE),
];

fn policy_drop() -> Result<()> {
    let lab = cast::one_pod("b6", RouteBack::Known).up()?;
    lab.iptables_legacy("node", "-A FORWARD -s 10.12.0.0/16 -j DROP")?;
    one_request(
        &lab,
        "b6_policy_drop",
        Outcome::Silence,
        "NETFILTER_DROP",
        "policy-drop: iptables-legacy filter/FORWARD 1",
    )
}

/// It dies before any tap sees it.
fn dropped_by_itself() -> Result<()> {
    let lab = cast::one_pod("b6own", RouteBack::Known).up()?;
    lab.nft(
        "pod",
        "table ip t { chain c { type filter hook output priority 0; tcp dport 443 drop; }; }",
    )?;
    one_request(
        &lab,
        "b6_dropped_by_the_pod_itself",
        Outcome::Silence,
        "NETFILTER_DROP",
        "policy-drop: nft t/c handle 2",
    )
}

/// The masquerade may use one port only, and that is taken: the second connection's packet is translated to it all the same,
/// and dies when its entry is to be made.
fn no_port_left() -> Result<()> {
    let lab = cast::one_pod("c49", RouteBack::Missing).up()?;
    lab.iptables_legacy(
        "node",
        "-t nat -A POSTROUTING -o eth0 -p tcp -j MASQUERADE --to-ports 5000-5000",
    )?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let first = StreamCall::new("pod", "10.20.30.40:443", 40_000).open(&lab)?;
    let report = watch(&lab, &["--dest", PEER, "--src", "10.12.3.4"], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the second request", call.run(&lab)?, Outcome::Silence)
    })?;
    drop(first);
    let claims = format!(
        "{DROPPED}
         dropped: NETFILTER_DROP
         source-unknown, on the wire null, dropped"
    );
    hold(
        &lab,
        &report,
        "c49_no_port_left",
        &[&claims],
        &[(0, "conntrack-failed")],
    )
}

/// A policy that was written for the pod's own address, where the pod's namespace masquerades: it sees another one.
fn policy_after_masquerade() -> Result<()> {
    let lab = cast::one_pod("d5", RouteBack::Known).up()?;
    lab.ip("pod", "addr add 10.12.3.9/24 dev eth0")?;
    lab.nft(
        "pod",
        "table ip t { chain c { type nat hook postrouting priority srcnat; snat to 10.12.3.9; }; }",
    )?;
    lab.nft(
        "node",
        "table ip t { chain c { type filter hook forward priority 0; policy drop;
            ip saddr 10.12.3.4 accept; ip daddr 10.12.3.4 accept; }; }",
    )?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = format!(
        "{DROPPED}
         request src 10.12.3.4:43210 > 10.12.3.9:43210 at pod, postrouting, netfilter, by conntrack
         rule nft t/c handle 2
         dropped: NETFILTER_DROP
         policy-drop: nft t/c policy
         unowned-rule: nft t/c handle 2
         source-rewritten, on the wire 10.12.3.9, dropped"
    );
    hold(
        &lab,
        &report,
        "d5_policy_sees_the_translated_source",
        &[&claims],
        &[(0, "policy-drop")],
    )
}

/// The node asks itself for a port that is translated to a pod: a loopback source goes nowhere.
fn loopback_source() -> Result<()> {
    let lab = cast::one_pod("localnet", RouteBack::Known).up()?;
    lab.iptables_legacy(
        "node",
        "-t nat -A OUTPUT -d 127.0.0.1 -p tcp --dport 30080 -j DNAT --to-destination 10.12.3.4:8080",
    )?;
    let report = watch(&lab, &["--dest", "10.12.3.4"], 1, || {
        let call = StreamCall::new("node", "127.0.0.1:30080", 43_210).patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "tcp 127.0.0.1:43210 > 127.0.0.1:30080 from node node
        dropped: NETFILTER_DROP
        source-unknown, on the wire null, dropped";
    hold(
        &lab,
        &report,
        "loopback_source_translated",
        &[claims],
        &[(0, "martian-source")],
    )
}

fn policy_drop_ipv6() -> Result<()> {
    let lab = cast::one_pod("b6pol6", RouteBack::Known).up()?;
    lab.restore(
        "node",
        "ip6tables-legacy-restore",
        "*filter\n-A FORWARD -s fd12:3::/64 -p tcp -j DROP\nCOMMIT\n",
    )?;
    one_request6(
        &lab,
        "b6_policy_drop_ipv6",
        Outcome::Silence,
        "NETFILTER_DROP",
        "policy-drop: iptables-legacy filter/FORWARD 1",
    )
}

/// A datagram with this source from the pod, which must end in silence.
fn spoofed(lab: &Lab) -> Result<Report> {
    watch(lab, &["--dest", PEER], 1, || {
        let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").patience(A_MOMENT);
        same("the request", call.run(lab)?, Outcome::Silence)
    })
}

/// A CNI's rule that a pod may only send with an address to which the route is by its device.
fn source_check() -> Result<()> {
    let lab = spoofing("b6cni", "10.55.0.1")?;
    lab.restore(
        "node",
        "iptables-legacy-restore",
        "*raw\n-A PREROUTING -d 10.99.0.0/16 -j DROP\n-A PREROUTING -i veth-pod -m rpfilter --invert -j DROP\nCOMMIT\n",
    )?;
    let report = spoofed(&lab)?;
    let claims = "udp 10.55.0.1:43210 > 10.20.30.40:53 from pod pod
        dropped: NETFILTER_DROP
        policy-drop: iptables-legacy raw/PREROUTING 2
        source-unknown, on the wire null, dropped";
    hold(
        &lab,
        &report,
        "b6_source_check_of_a_cni",
        &[claims],
        &[(0, "policy-drop")],
    )
}

/// The same on a bridge. Its rules are not walked, and none is named.
fn bridge_check() -> Result<()> {
    let mut net = cast::one_pod("b6br", RouteBack::Known);
    net.ip("node", "link add cni0 type bridge")
        .ip("node", "link set veth-pod master cni0")
        .ip("node", "addr del 10.12.3.1/24 dev veth-pod")
        .ip("node", "addr add 10.12.3.1/24 dev cni0")
        .ip("node", "link set cni0 up")
        .ip("pod", "addr add 10.55.0.1/32 dev lo")
        .ip("pod", "route replace default via 10.12.3.1 src 10.55.0.1");
    let lab = net.up()?;
    lab.nft(
        "node",
        "table bridge cni { chain pre { type filter hook prerouting priority 0
            iifname veth-pod ip saddr != 10.12.3.4 drop
        }; }",
    )?;
    let report = spoofed(&lab)?;
    let claims = "udp 10.55.0.1:43210 > 10.20.30.40:53 from pod pod
        dropped: NETFILTER_DROP
        source-unknown, on the wire null, dropped";
    hold(
        &lab,
        &report,
        "b6_source_check_on_a_bridge",
        &[claims],
        &[(0, "policy-drop")],
    )
}

/// A rule hands it to a program that does not run.
fn queued_for_nobody() -> Result<()> {
    let lab = cast::one_pod("b6queue", RouteBack::Known).up()?;
    lab.iptables_legacy(
        "node",
        "-A FORWARD -p tcp --dport 443 -j NFQUEUE --queue-num 9",
    )?;
    one_request(
        &lab,
        "b6_queued_for_nobody",
        Outcome::Silence,
        "NOT_SPECIFIED",
        "policy-drop: iptables-legacy filter/FORWARD 1",
    )
}

/// A BPF program at netfilter's hook: no rule says DROP, and the one that there is would not.
fn no_rule() -> Result<()> {
    let lab = cast::one_pod("b6none", RouteBack::Known).up()?;
    lab.iptables_legacy("node", "-A FORWARD -p tcp --dport 444 -j DROP")?;
    let program = lab.in_ns("node", || bpf::attach_netfilter_drop("policy_engine"))??;
    one_request(
        &lab,
        "b6_dropped_by_no_rule",
        Outcome::Silence,
        "NETFILTER_DROP",
        "policy-drop",
    )?;
    drop(program);
    Ok(())
}
