//! Rewrites that are no NAT: programs on the node's devices (field case C40), told from netfilter by asking its conntrack, and
//! from each other by where they sit.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};

use super::steps::{answered, hold, masquerade, same, watch};
use super::{Case, Kernel};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::rewriter::{Field, Rewriter, Side};
use crate::lab::{Lab, Topology, bpf};
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("c40_tcx_at_egress", &[], tcx_at_egress).on(WITH_TCX),
    Case::new("c40_clsact_beside_conntrack", &[], clsact_beside_conntrack).needs(&[
        "sch_ingress",
        "cls_bpf",
        "nf_conntrack_netlink",
    ]),
    Case::new(
        "c40_clsact_before_masquerade",
        &[],
        clsact_before_masquerade,
    )
    .needs(&["sch_ingress", "cls_bpf", "nf_conntrack_netlink"]),
    Case::new("c40_one_of_two_programs", &[], one_of_two).on(WITH_TCX),
    Case::new("c40_xdp_at_the_pods_device", &[], xdp),
];

const WITH_TCX: &[Kernel] = &[Kernel::Native, Kernel::V6_12, Kernel::V7];

const POD: Ipv4Addr = Ipv4Addr::new(10, 12, 3, 4);
/// What the pod leaves as: an address that no interface has.
const ALIAS: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 99);

const OUT: Rewriter = Rewriter {
    name: "rewrite_src",
    field: Field::Source,
    from: POD,
    to: ALIAS,
};
const BACK: Rewriter = Rewriter {
    name: "rewrite_dst",
    field: Field::Destination,
    from: ALIAS,
    to: POD,
};

/// One pod, whose alias the far side finds behind the node.
fn ground(name: &str) -> Topology {
    let mut net = cast::one_pod(name, RouteBack::Missing);
    net.route("peer", "10.100.0.99/32 via 10.100.0.5");
    net
}

/// One request of the pod's, answered to whom the far side saw, and the whole report on it.
fn one_request(lab: &Lab, name: &str, seen: &str, claims: &str, findings: &[&str]) -> Result<()> {
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(lab, &["--dest", PEER], 1, || {
        let call = StreamCall::new("pod", "10.20.30.40:443", 43_210);
        same("what the far side saw", call.run(lab)?, answered(seen)?)
    })?;
    let findings: Vec<_> = findings.iter().map(|code| (0, *code)).collect();
    hold(lab, &report, name, &[claims], &findings)
}

/// Both programs at the node's uplink by tcx links, where conntrack is off.
fn tcx_at_egress() -> Result<()> {
    let lab = ground("c40tcx").up()?;
    let links = lab.in_ns("node", || {
        let back = BACK.attach_tcx("eth0", Side::Ingress)?;
        Ok::<_, anyhow::Error>([OUT.attach_tcx("eth0", Side::Egress)?, back])
    })??;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        request src 10.12.3.4:43210 > 10.100.0.99:43210 at node, tc-egress, tc-bpf, by between, and back
        program rewrite_src
        program rewrite_dst
        source-rewritten, on the wire 10.100.0.99, completed";
    one_request(&lab, "c40_tcx_at_egress", "10.100.0.99:43210", claims, &[])?;
    drop(links);
    Ok(())
}

/// Filters of the clsact qdisc, on a node that tracks connections and translates others' sources.
fn clsact_beside_conntrack() -> Result<()> {
    let lab = ground("c40cls").up()?;
    masquerade(&lab, &["10.20.0.0/16"])?;
    add_filters(
        &lab,
        &[(OUT, "eth0", Side::Egress), (BACK, "eth0", Side::Ingress)],
    )?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        request src 10.12.3.4:43210 > 10.100.0.99:43210 at node, tc-egress, tc-bpf, by between, and back
        program rewrite_src
        program rewrite_dst
        source-rewritten, on the wire 10.100.0.99, completed";
    let name = "c40_clsact_beside_conntrack";
    one_request(&lab, name, "10.100.0.99:43210", claims, &[])
}

/// At the pod's device, before conntrack sees the packet; what it made is then masqueraded.
fn clsact_before_masquerade() -> Result<()> {
    const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 12, 3, 9);
    let mut net = cast::one_pod("c40early", RouteBack::Missing);
    net.ip("pod", "link set eth0 address 02:00:00:00:03:04").ip(
        "node",
        "neigh add 10.12.3.9 lladdr 02:00:00:00:03:04 dev veth-pod nud permanent",
    );
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    let out = Rewriter {
        to: NEIGHBOUR,
        ..OUT
    };
    let back = Rewriter {
        from: NEIGHBOUR,
        ..BACK
    };
    add_filters(
        &lab,
        &[
            (out, "veth-pod", Side::Ingress),
            (back, "veth-pod", Side::Egress),
        ],
    )?;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        request src 10.12.3.4:43210 > 10.12.3.9:43210 at node, tc-ingress, tc-bpf, by between, and back
        program rewrite_src
        request src 10.12.3.9:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/IP-MASQ 1
        program rewrite_dst
        source-rewritten, on the wire 10.100.0.5, completed";
    let name = "c40_clsact_before_masquerade";
    one_request(&lab, name, "10.100.0.5:43210", claims, &["double-rewrite"])
}

/// Two programs at one place: which of them it was is not said.
fn one_of_two() -> Result<()> {
    let lab = ground("c40two").up()?;
    let links = lab.in_ns("node", || {
        let index = nix::net::if_::if_nametoindex("eth0").context("the index of eth0")?;
        let watcher = bpf::attach_tcx(index, "watch_only", true, false)?;
        let back = BACK.attach_tcx("eth0", Side::Ingress)?;
        Ok::<_, anyhow::Error>([watcher, OUT.attach_tcx("eth0", Side::Egress)?, back])
    })??;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        request src 10.12.3.4:43210 > 10.100.0.99:43210 at node, tc-egress, tc-bpf, by between, and back
        program rewrite_dst
        source-rewritten, on the wire 10.100.0.99, completed";
    let name = "c40_one_of_two_programs";
    one_request(
        &lab,
        name,
        "10.100.0.99:43210",
        claims,
        &["rewriter-uncertain"],
    )?;
    drop(links);
    Ok(())
}

/// In the driver of the node's end of the pod's pair: between the pod's egress and the node's ingress. What the one at the
/// uplink turns back is so when it is sighted first.
fn xdp() -> Result<()> {
    let lab = ground("c40xdp").up()?;
    let links = lab.in_ns("node", || {
        let back = BACK.attach_xdp("eth0")?;
        Ok::<_, anyhow::Error>([OUT.attach_xdp("veth-pod")?, back])
    })??;
    let claims = "tcp 10.12.3.4:43210 > 10.20.30.40:443 from pod pod
        request src 10.12.3.4:43210 > 10.100.0.99:43210 at node, xdp, tc-bpf, by between
        program rewrite_src
        source-rewritten, on the wire 10.100.0.99, completed";
    let name = "c40_xdp_at_the_pods_device";
    one_request(&lab, name, "10.100.0.99:43210", claims, &[])?;
    drop(links);
    Ok(())
}

fn add_filters(lab: &Lab, filters: &[(Rewriter, &str, Side)]) -> Result<()> {
    let (_, device, _) = filters.first().context("no filter")?;
    lab.run("node", &format!("tc qdisc add dev {device} clsact"))?;
    lab.in_ns("node", || {
        let mut all = filters.iter();
        all.try_for_each(|(rewriter, device, side)| rewriter.add_filter(device, *side))
    })?
}
