//! Deaths where the kernel decides which way a packet goes, and on its last steps out.

use anyhow::Result;

use super::super::steps::{A_MOMENT, hold, same, watch};
use super::{Case, DROPPED, Kernel, one_request, one_request6, spoofing};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::traffic::{Outcome, SocketOption, StreamCall, UdpCall};

pub(in super::super) const CASES: &[Case] = &[
    Case::new("b6_no_route", &["B6"], no_route),
    Case::new("b6_blackhole", &["B6"], || {
        refusing_route("blackhole", Outcome::Silence, "NOT_SPECIFIED")
    }),
    Case::new("b6_prohibit", &["B6"], || {
        refusing_route("prohibit", Outcome::Refused, "NOT_SPECIFIED")
    }),
    Case::new("b6_unreachable", &["B6"], || {
        refusing_route("unreachable", Outcome::Refused, "NOT_SPECIFIED")
    }),
    Case::new("b6_throw", &["B6"], || {
        refusing_route("throw", Outcome::Refused, "IP_INNOROUTES")
    }),
    Case::new("b6_prohibited_by_an_ip_rule", &["B6"], prohibited_by_rule),
    Case::new("b6_no_route_ipv6", &["B6"], no_route_ipv6),
    Case::new("b6_blackhole_ipv6", &["B6"], blackhole_ipv6),
    Case::new("c45_forwarding_off_ipv6", &[], forwarding_off_ipv6).on(NAMED_FOR_IPV6),
    Case::new("ttl_used_up", &["B5"], ttl_used_up),
    Case::new("c45_forwarding_off_on_the_node", &[], forwarding_off),
    Case::new(
        "c45_forwarding_off_for_a_device",
        &[],
        device_does_not_forward,
    ),
    Case::new("next_hop_is_silent", &[], next_hop_is_silent),
    Case::new("b6_source_is_the_nodes_own", &["B6"], source_of_the_node),
    Case::new("b6_source_from_elsewhere", &["B6"], source_from_elsewhere),
];

/// 6.1 and 6.12 give no reason for it; 5.10 gives none for anything.
const NAMED_FOR_IPV6: &[Kernel] = &[Kernel::Native, Kernel::V5_10];

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

fn refusing_route(kind: &str, ends: Outcome, reason: &str) -> Result<()> {
    let lab = cast::one_pod("b6kind", RouteBack::Known).up()?;
    lab.ip("node", &format!("route add {kind} {PEER}"))?;
    one_request(&lab, &format!("b6_{kind}"), ends, reason, "no-route")
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

fn blackhole_ipv6() -> Result<()> {
    let lab = cast::one_pod("b6hole6", RouteBack::Known).up()?;
    lab.ip("node", "route add blackhole fd50::20")?;
    one_request6(
        &lab,
        "b6_blackhole_ipv6",
        Outcome::Silence,
        "NOT_SPECIFIED",
        "no-route",
    )
}

/// A pod that uses an address which is the node's: nobody else may send with it.
fn source_of_the_node() -> Result<()> {
    let lab = spoofing("b6own2", "10.100.0.5")?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "udp 10.100.0.5:43210 > 10.20.30.40:53 from pod pod
        dropped: IP_LOCAL_SOURCE
        source-unknown, on the wire null, dropped";
    hold(
        &lab,
        &report,
        "b6_source_is_the_nodes_own",
        &[claims],
        &[(0, "martian-source")],
    )
}

/// What a CNI's source check does by the routing table: a pod may only send with its own address.
fn source_from_elsewhere() -> Result<()> {
    let lab = spoofing("b6spoof", "10.55.0.1")?;
    lab.sysctl("node", "ipv4/conf/veth-pod/rp_filter", "1")?;
    let report = watch(&lab, &["--dest", PEER], 1, || {
        let call = UdpCall::new("pod", 43_210, "10.20.30.40:53").patience(A_MOMENT);
        same("the request", call.run(&lab)?, Outcome::Silence)
    })?;
    let claims = "udp 10.55.0.1:43210 > 10.20.30.40:53 from pod pod
        dropped: IP_RPFILTER
        source-unknown, on the wire null, dropped";
    hold(
        &lab,
        &report,
        "b6_source_from_elsewhere",
        &[claims],
        &[(0, "rp-filter")],
    )
}
