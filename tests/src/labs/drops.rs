//! Rows B and D: where a request died, and why.

use anyhow::{Context as _, Result};

use super::steps::{A_MOMENT, hold, same, watch};
use super::{Case, Kernel};
use crate::lab::Lab;
use crate::lab::bpf::{self, Act, Side};
use crate::lab::cast::{self, PEER, PEER6, RouteBack};
use crate::traffic::{Outcome, SocketOption, StreamCall, UdpCall};

pub(super) const CASES: &[Case] = &[
    Case::new("b6_policy_drop", &["B6"], policy_drop),
    Case::new("b6_no_route", &["B6"], no_route),
    Case::new("b6_blackhole", &["B6"], || {
        refusing_route("blackhole", Outcome::Silence)
    }),
    Case::new("b6_prohibit", &["B6"], || {
        refusing_route("prohibit", Outcome::Refused)
    }),
    Case::new("b6_prohibited_by_an_ip_rule", &["B6"], prohibited_by_rule),
    Case::new("b6_no_route_ipv6", &["B6"], no_route_ipv6),
    Case::new("c45_forwarding_off_ipv6", &[], forwarding_off_ipv6).on(NAMED_FOR_IPV6),
    Case::new("loopback_source_translated", &[], loopback_source),
    Case::new("ttl_used_up", &["B5"], ttl_used_up),
    Case::new("b6_dropped_by_the_pod_itself", &["B6"], dropped_by_itself),
    Case::new("c45_forwarding_off_on_the_node", &[], forwarding_off),
    Case::new(
        "c45_forwarding_off_for_a_device",
        &[],
        device_does_not_forward,
    ),
    Case::new("b9_program_drops", &["B9"], program_drops).on(WITH_TCX),
    Case::new("c49_no_port_left", &[], no_port_left),
    Case::new("next_hop_is_silent", &[], next_hop_is_silent),
    Case::new(
        "d5_policy_sees_the_translated_source",
        &["D5"],
        policy_after_masquerade,
    ),
];

const WITH_TCX: &[Kernel] = &[Kernel::Native, Kernel::V6_12, Kernel::V7];

/// 6.1 and 6.12 give no reason for it; 5.10 gives none for anything.
const NAMED_FOR_IPV6: &[Kernel] = &[Kernel::Native, Kernel::V5_10];

const DROPPED: &str = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod";

/// One request that must end so, and the whole report on it. The finding's code may have its rule behind it.
fn one_request(lab: &Lab, name: &str, ends: Outcome, reason: &str, why: &str) -> Result<()> {
    let report = watch(lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(lab)?, ends)
    })?;
    let (code, by) = match why.split_once(':') {
        Some((code, _)) => (code, format!("\n{why}")),
        None => (why, String::new()),
    };
    let claims = format!(
        "{DROPPED}
         dropped: {reason}{by}
         source-unknown, on the wire null, dropped"
    );
    hold(lab, &report, name, &[&claims], &[(0, code)])
}

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

fn no_route() -> Result<()> {
    let lab = cast::one_pod("b6route", RouteBack::Known).up()?;
    lab.ip("node", "route del default")?;
    one_request(
        &lab,
        "b6_no_route",
        Outcome::Refused,
        "IP_INNOROUTES",
        "no-route",
    )
}

fn refusing_route(kind: &str, ends: Outcome) -> Result<()> {
    let lab = cast::one_pod("b6kind", RouteBack::Known).up()?;
    lab.ip("node", &format!("route add {kind} {PEER}"))?;
    one_request(
        &lab,
        &format!("b6_{kind}"),
        ends,
        "NOT_SPECIFIED",
        "no-route",
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
        "policy-drop",
    )
}

fn forwarding_off() -> Result<()> {
    let lab = cast::one_pod("fwd", RouteBack::Known).up()?;
    lab.sysctl("node", "ipv4/ip_forward", "0")?;
    one_request(
        &lab,
        "c45_forwarding_off_on_the_node",
        Outcome::Silence,
        "IP_INADDRERRORS",
        "forwarding-disabled",
    )
}

fn device_does_not_forward() -> Result<()> {
    let lab = cast::one_pod("fwddev", RouteBack::Known).up()?;
    lab.sysctl("node", "ipv4/conf/veth-pod/forwarding", "0")?;
    one_request(
        &lab,
        "c45_forwarding_off_for_a_device",
        Outcome::Silence,
        "IP_INADDRERRORS",
        "forwarding-disabled",
    )
}

/// A policy engine's program at the pod's device says no.
fn program_drops() -> Result<()> {
    let lab = cast::one_pod("b9", RouteBack::Known).up()?;
    let program = lab.in_ns("node", || {
        let index = nix::net::if_::if_nametoindex("veth-pod").context("the index of veth-pod")?;
        bpf::attach_tc(index, Side::Ingress, "policy_engine", Act::Drop)
    })??;
    one_request(
        &lab,
        "b9_program_drops",
        Outcome::Silence,
        "TC_INGRESS",
        "dropped-by-program",
    )?;
    drop(program);
    Ok(())
}

/// The masquerade may use one port only, and that is taken: the second connection's packet is translated to it all the same,
/// and dies when its entry is to be made.
fn no_port_left() -> Result<()> {
    let lab = cast::one_pod("c49", RouteBack::Missing).up()?;
    lab.iptables_legacy(
        "node",
        "-t nat -A POSTROUTING -o eth0 -p tcp -j MASQUERADE --to-ports 5000-5000",
    )?;
    let _peer = crate::traffic::StreamServer::start(
        &lab,
        "peer",
        "10.20.30.40:443",
        crate::traffic::Behaviour::Answer,
    )?;
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

fn next_hop_is_silent() -> Result<()> {
    let lab = cast::one_pod("arp", RouteBack::Known).up()?;
    lab.ip("node", "route add 10.20.30.40 via 10.100.0.77")?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
        same("the request", call.run(&lab)?, Outcome::Refused)
    })?;
    let claims = format!(
        "{DROPPED}
         dropped: NEIGH_FAILED
         source-unknown, on the wire null, dropped"
    );
    hold(
        &lab,
        &report,
        "next_hop_is_silent",
        &[&claims],
        &[(0, "neighbour-failed")],
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

fn prohibited_by_rule() -> Result<()> {
    let lab = cast::one_pod("b6rule", RouteBack::Known).up()?;
    lab.ip("node", &format!("rule add to {PEER} prohibit"))?;
    one_request(
        &lab,
        "b6_prohibited_by_an_ip_rule",
        Outcome::Refused,
        "NOT_SPECIFIED",
        "no-route",
    )
}

/// One IPv6 request that must end so, and the whole report on it.
fn one_request6(lab: &Lab, name: &str, ends: Outcome, reason: &str, code: &str) -> Result<()> {
    let report = watch(lab, &["--dest", PEER6], 1, || {
        let call = StreamCall::new("pod", "[fd50::20]:443", 43_210).patience(A_MOMENT);
        same("the request", call.run(lab)?, ends)
    })?;
    let claims = format!(
        "tcp [fd12:3::4]:43210 > [fd50::20]:443 from pod pod
         dropped: {reason}
         source-unknown, on the wire null, dropped"
    );
    hold(lab, &report, name, &[&claims], &[(0, code)])
}

fn no_route_ipv6() -> Result<()> {
    let lab = cast::one_pod("b6six", RouteBack::Known).up()?;
    lab.ip("node", "route del default via fd10:100::1")?;
    one_request6(
        &lab,
        "b6_no_route_ipv6",
        Outcome::Refused,
        "IP_INNOROUTES",
        "no-route",
    )
}

fn forwarding_off_ipv6() -> Result<()> {
    let lab = cast::one_pod("fwdsix", RouteBack::Known).up()?;
    lab.sysctl("node", "ipv6/conf/all/forwarding", "0")?;
    one_request6(
        &lab,
        "c45_forwarding_off_ipv6",
        Outcome::Silence,
        "IP_INADDRERRORS",
        "forwarding-disabled",
    )
}

fn ttl_used_up() -> Result<()> {
    let lab = cast::one_pod("ttl", RouteBack::Known).up()?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").option(SocketOption::ttl(1));
        same(
            "the request",
            call.patience(A_MOMENT).run(&lab)?,
            Outcome::Silence,
        )
    })?;
    let claims = "udp 10.12.3.4:43210 > 10.20.30.40:53 from pod pod
        dropped: IP_INHDR
        source-unknown, on the wire null, refused";
    hold(&lab, &report, "ttl_used_up", &[claims], &[(0, "hop-limit")])
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
