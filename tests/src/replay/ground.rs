//! The lab of the comparison, IPv4 or IPv6, and how the evaluator is told of it.

use super::six;
use crate::lab::{Lab, Topology};
use anyhow::{Context as _, Result};
use std::net::{IpAddr, Ipv4Addr};
use tracer_core::inventory::{Link, Namespace, Route};

/// No IPv6, which would talk of itself.
pub(super) const QUIET_V4: &[(&str, &str)] = &[("ipv6/conf/all/disable_ipv6", "1")];
/// No asking for routers.
pub(super) const QUIET_V6: &[(&str, &str)] = &[
    ("ipv6/conf/all/router_solicitations", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
];

/// The router behind the node's `eth0`.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 1);
/// The pod's router: the node.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 12, 3, 1);

/// A pod behind the node, and a peer that answers nothing.
pub(super) fn net(is_six: bool) -> Topology {
    let of = |four: &str| match is_six {
        true => six::text(four),
        false => four.to_owned(),
    };
    let mut net = Topology::new(if is_six { "replay6" } else { "replay" });
    net.forward("node")
        .veth(("pod", "eth0"), ("node", "veth-pod"))
        .veth(("peer", "eth0"), ("node", "eth0"))
        .addr("pod", "eth0", &of("10.12.3.4/24"))
        .addr("node", "veth-pod", &of("10.12.3.1/24"))
        .addr("node", "eth0", &of("10.100.0.5/24"))
        .addr("peer", "eth0", &of("10.100.0.1/24"))
        .route("pod", &of("default via 10.12.3.1"))
        .route("node", &of("default via 10.100.0.1"));
    if is_six {
        // Where IPv4 drops what is for nobody there, IPv6 would tell the sender.
        net.route("peer", "blackhole ::/0");
    }
    net
}

/// Nobody needs to ask for a neighbour's address: in IPv6 that would pass the rules.
pub(super) fn know_neighbours(lab: &Lab) -> Result<()> {
    let known = [
        ("pod", "eth0", GATEWAY, "node", "veth-pod"),
        ("node", "eth0", ROUTER, "peer", "eth0"),
    ];
    for (ns, device, router, at, its_device) in known {
        let link = lab.run(at, &format!("ip -br link show dev {its_device}"))?;
        let words = link.split_whitespace();
        let mut mac = words.filter(|word| word.matches(':').count() == 5);
        let mac = mac.next_back().context("no link address")?;
        let line = format!(
            "neigh replace {} lladdr {mac} nud permanent dev {device}",
            six::addr(router)
        );
        lab.ip(ns, &line)?;
    }
    Ok(())
}

/// The node as the evaluator is told of it.
pub(super) fn node(is_six: bool) -> Namespace {
    let of = |four: &str| match is_six {
        true => six::text(four),
        false => four.to_owned(),
    };
    let link = |name: &str, addr: &str| Link {
        name: name.to_owned(),
        addrs: addr.parse().into_iter().collect(),
        loopback: name == "lo",
        up: true,
        ..Link::default()
    };
    let loopback = if is_six { "::1/128" } else { "127.0.0.1/8" };
    let links = [
        (1, link("lo", loopback)),
        (2, link("veth-pod", &of("10.12.3.1/24"))),
        (3, link("eth0", &of("10.100.0.5/24"))),
    ];
    let (to, via) = match is_six {
        true => (
            ipnet::Ipv6Net::default().into(),
            IpAddr::V6(six::addr(ROUTER)),
        ),
        false => (ipnet::Ipv4Net::default().into(), IpAddr::V4(ROUTER)),
    };
    let default = Route {
        to,
        via: Some(via),
        ifindex: 3,
    };
    Namespace {
        links: links.into(),
        routes: vec![default],
        ..Namespace::default()
    }
}
