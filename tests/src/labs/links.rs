//! What lies between pod and wire: VLAN, bond, loopback, XDP - and pods that come and go while the trace runs.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::steps::{MASQUERADED, answered, hold, masquerade, same, wait_for, watch};
use super::{Case, Kernel};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Lab, Topology, bpf};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("pod_deleted_during_the_trace", &[], pod_deleted),
    Case::new("pod_born_during_the_trace", &["C7"], pod_born).alone(),
    Case::new("vlan_on_the_way_out", &[], vlan)
        .on(VIRTUAL)
        .needs(&["8021q"]),
    Case::new("bond_on_the_way_out", &[], bond)
        .on(VIRTUAL)
        .needs(&["bonding"]),
    Case::new("loopback", &[], loopback),
    Case::new("xdp_on_the_veth_peer", &[], xdp_on_veth_peer),
];

/// The machine's own kernel may lack VLAN and bond.
const VIRTUAL: &[Kernel] = &[Kernel::V5_10, Kernel::V6_1, Kernel::V6_12, Kernel::V7];

/// One request from the pod that must leave as the node, and the whole report on it.
fn one_masqueraded_request(lab: &Lab, name: &str) -> Result<()> {
    masquerade(lab, &[])?;
    let _peer = StreamServer::start(lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(lab, &["--dest", PEER], 1, || {
        same(
            "what the far side saw",
            StreamCall::new("pod", "10.20.30.40:443", 43_210).run(lab)?,
            answered("10.100.0.5:43210")?,
        )
    })?;
    hold(lab, &report, name, &[MASQUERADED], &[])
}

fn interface_there(lab: &Lab, ns: &str, ifname: &str) -> bool {
    let table = lab.in_ns(ns, || std::fs::read_to_string("/proc/thread-self/net/dev"));
    table.is_ok_and(|table| table.is_ok_and(|table| table.contains(&format!("{ifname}:"))))
}

/// A pod's namespace is deleted while its flow is followed: nothing of srctrace's may keep it, so the node's end of its veth
/// is gone at once. What was seen of it is still reported, with its name.
fn pod_deleted() -> Result<()> {
    let lab = cast::two_pods("deleted", RouteBack::Missing).up()?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let call = |pod: &str, sport: u16| StreamCall::new(pod, "10.20.30.40:443", sport).run(&lab);
    let report = watch(&lab, &["--dest", PEER], 2, || {
        same(
            "before",
            call("pod", 43_210)?,
            answered("10.100.0.5:43210")?,
        )?;
        lab.delete_ns("pod");
        let gone = || !interface_there(&lab, "node", "veth-pod");
        wait_for(
            "the node's veth goes with the pod",
            Duration::from_secs(1),
            gone,
        )?;
        same(
            "afterwards",
            call("pod2", 43_220)?,
            answered("10.100.0.5:43220")?,
        )
    })?;
    let second = "tcp 10.12.4.4:43220 > 10.20.30.40:443 from pod pod2
        request src 10.12.4.4:43220 > 10.100.0.5:43220 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/IP-MASQ 1
        source-rewritten, on the wire 10.100.0.5, completed";
    hold(
        &lab,
        &report,
        "pod_deleted_during_the_trace",
        &[MASQUERADED, second],
        &[],
    )
}

/// A pod that did not exist when the trace began, and its first packet as soon as its link carries one.
fn pod_born() -> Result<()> {
    let mut lab = cast::one_pod("born", RouteBack::Missing).up()?;
    masquerade(&lab, &[])?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER])
        .whole_machine()
        .start()?;
    lab.add_ns("late")?;
    let late = lab.netns("late");
    lab.ip(
        "node",
        &format!("link add veth-late type veth peer name eth0 netns {late}\nlink set veth-late up"),
    )?;
    lab.ip("node", "addr add 10.12.7.1/24 dev veth-late")?;
    lab.ip(
        "late",
        "link set eth0 up\naddr add 10.12.7.4/24 dev eth0\nroute add default via 10.12.7.1",
    )?;
    lab.settle("late", "eth0")?;
    lab.settle("node", "veth-late")?;
    let outcome = StreamCall::new("late", "10.20.30.40:443", 43_210).run(&lab)?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    same(
        "what the far side saw",
        outcome,
        answered("10.100.0.5:43210")?,
    )?;
    let claims = "tcp 10.12.7.4:43210 > 10.20.30.40:443 from pod late
        request src 10.12.7.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
        rule iptables-legacy nat/IP-MASQ 1
        source-rewritten, on the wire 10.100.0.5, completed";
    hold(&lab, &report, "pod_born_during_the_trace", &[claims], &[])
}

/// Node and peer without the link between them; `link` adds it and gives the node's and the peer's interface for it.
fn other_way_out(
    name: &str,
    link: impl FnOnce(&mut Topology) -> (&'static str, &'static str),
) -> Topology {
    let mut net = Topology::new(name);
    cast::pod(&mut net, "pod", 3);
    net.forward("node");
    let (node, peer) = link(&mut net);
    net.addr("node", node, "10.100.0.5/24")
        .addr("peer", peer, "10.100.0.1/24")
        .addr("peer", "lo", "10.20.30.40/32")
        .route("node", "default via 10.100.0.1");
    net
}

fn vlan() -> Result<()> {
    let net = other_way_out("vlan", |net| {
        net.veth(("node", "eth0"), ("peer", "eth0"));
        for ns in ["node", "peer"] {
            net.ip(ns, "link add link eth0 name eth0.100 type vlan id 100")
                .ip(ns, "link set eth0.100 up");
        }
        ("eth0.100", "eth0.100")
    });
    one_masqueraded_request(&net.up()?, "vlan_on_the_way_out")
}

fn bond() -> Result<()> {
    let net = other_way_out("bond", |net| {
        net.veth(("node", "eth0"), ("peer", "eth0"))
            .veth(("node", "eth1"), ("peer", "eth1"));
        net.ip(
            "node",
            "link add bond0 type bond mode active-backup miimon 100",
        );
        for slave in ["eth0", "eth1"] {
            net.ip("node", &format!("link set {slave} down"))
                .ip("node", &format!("link set {slave} master bond0"));
        }
        net.ip("node", "link set bond0 up")
            .ip("peer", "link add br0 type bridge")
            .ip("peer", "link set br0 up");
        net.ip("peer", "link set eth0 master br0")
            .ip("peer", "link set eth1 master br0");
        ("bond0", "br0")
    });
    one_masqueraded_request(&net.up()?, "bond_on_the_way_out")
}

/// The node talks to itself.
fn loopback() -> Result<()> {
    let lab = cast::one_pod("lo", RouteBack::Known).up()?;
    let _server = StreamServer::start(&lab, "node", "127.0.0.1:8080", Behaviour::Answer)?;
    let report = watch(&lab, &["127.0.0.1:8080"], 1, || {
        same(
            "whom the server saw",
            StreamCall::new("node", "127.0.0.1:8080", 43_210).run(&lab)?,
            answered("127.0.0.1:43210")?,
        )
    })?;
    hold(
        &lab,
        &report,
        "loopback",
        &["tcp 127.0.0.1:43210 > 127.0.0.1:8080 from node node
                  source-preserved, on the wire 127.0.0.1, completed"],
        &[],
    )
}

/// With XDP on the node's end of the pod's veth a packet arrives in a new buffer: the chain of buffers breaks there.
fn xdp_on_veth_peer() -> Result<()> {
    let lab = cast::one_pod("xdp", RouteBack::Missing).up()?;
    let attached = lab.in_ns("node", || -> Result<_> {
        let index = nix::net::if_::if_nametoindex("veth-pod").context("the index of veth-pod")?;
        bpf::attach_xdp_pass(index)
    })??;
    let seen = lab.run("node", "ip -d link show dev veth-pod")?;
    ensure!(seen.contains("xdp"), "no XDP program on veth-pod: {seen}");
    let held = one_masqueraded_request(&lab, "xdp_on_the_veth_peer");
    drop(attached);
    held
}
