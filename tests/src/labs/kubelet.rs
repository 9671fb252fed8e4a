//! A node as a kubelet leaves it: namespaces with CNI names, containers in kubepods cgroups with host names of their own,
//! log folders that name the pods. Pods are named without an API server, also where they share the node's network.

use anyhow::{Context as _, Result};

use super::Case;
use super::steps::{hold, masquerade, same, watch_with};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Container, Lab, Running, Topology};
use crate::trace::{Report, Srctrace};
use crate::traffic::{Behaviour, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new("pod_by_its_log_folder", &["C7"], by_log_folder),
    Case::new("pod_by_its_host_name", &[], by_host_name),
    Case::new("pod_selected_by_name", &[], selected),
    Case::new("host_network_pod", &["A4"], host_network),
];

/// As CNI plugins name a pod's namespace.
const CNI: &str = "cni-5f1c2b7a-90d4-4e1b-8c55-1d2e3f405162";
pub(super) const WEB: Container = Container {
    uid: "0f4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b",
    id: "3f2a8c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    hostname: Some("web-7d9f"),
};
const DB: Container = Container {
    uid: "1a2b3c4d-5e6f-4a0b-9c8d-7e6f5a4b3c2d",
    id: "00aa8c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    hostname: Some("db-0"),
};
/// On the node's network, so with the node's host name.
pub(super) const PROXY: Container = Container {
    uid: "77777777-5e6f-4a0b-9c8d-7e6f5a4b3c2d",
    id: "77778c0d9e1b4f5a6c7d8e9f0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    hostname: None,
};

/// The kubelet's folders, where nobody but srctrace sees them.
pub(super) const LOGS: &str = "mkdir -p /var/log
mount -t tmpfs none /var/log
mkdir -p /var/log/pods
cd /var/log/pods
mkdir shop_web-7d9f_0f4e2c1a-9b3d-4e5f-8a7b-1c2d3e4f5a6b
mkdir shop_db-0_1a2b3c4d-5e6f-4a0b-9c8d-7e6f5a4b3c2d
mkdir kube-system_proxy-x2x_77777777-5e6f-4a0b-9c8d-7e6f5a4b3c2d
cd /";

const REWRITTEN: &str = "
    tcp 10.12.9.4:43210 > 10.20.30.40:443 from pod cni-5f1c2b7a-90d4-4e1b-8c55-1d2e3f405162
    request src 10.12.9.4:43210 > 10.100.0.5:43210 at node, postrouting, netfilter, by conntrack, and back
    rule iptables-legacy nat/IP-MASQ 1
    source-rewritten, on the wire 10.100.0.5, completed";

/// A node that masquerades, a server behind it, and a pod with a CNI name, whose clients have one port to begin from.
fn node(name: &str) -> Result<(Lab, StreamServer)> {
    let mut net: Topology = cast::two_pods(name, RouteBack::Known);
    net.veth((CNI, "eth0"), ("node", "veth1a2b"))
        .addr(CNI, "eth0", "10.12.9.4/24")
        .addr("node", "veth1a2b", "10.12.9.1/24")
        .route(CNI, "default via 10.12.9.1");
    let lab = net.up()?;
    masquerade(&lab, &[])?;
    let peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    Ok((lab, peer))
}

/// The pod's request, traced behind this script.
fn traced(
    lab: &Lab,
    script: &str,
    args: &[&str],
    calls: impl FnOnce() -> Result<()>,
) -> Result<Report> {
    let mut all = vec!["--dest", PEER];
    all.extend(args);
    watch_with(&Srctrace::new(lab, &all).around(script), 1, calls)
}

/// The container's request is answered, and the far side saw the node.
fn answers(what: &str, container: &mut Running, sport: u16) -> Result<()> {
    let should = format!("seen 10.100.0.5:{sport}");
    same(what, container.call("10.20.30.40:443", sport)?, should)
}

fn origin(report: &Report, key: &str) -> Result<String> {
    let flow = report.only_flow()?;
    let value = flow["origin"][key].as_str();
    value
        .map(str::to_owned)
        .with_context(|| format!("no origin.{key}: {flow:#}"))
}

fn by_log_folder() -> Result<()> {
    let (lab, _peer) = node("logs")?;
    let mut web = WEB.start(&lab, CNI)?;
    let report = traced(&lab, LOGS, &[], || {
        answers("whom the far side saw", &mut web, 43_210)
    })?;
    same(
        "the pod",
        origin(&report, "pod")?,
        "shop/web-7d9f".to_owned(),
    )?;
    hold(&lab, &report, "pod_by_its_log_folder", &[REWRITTEN], &[])
}

/// Where no log folder can be seen, as in a container without the node's files, its host name is what is known.
fn by_host_name() -> Result<()> {
    let (lab, _peer) = node("hostname")?;
    let mut web = WEB.start(&lab, CNI)?;
    let report = traced(&lab, "", &[], || {
        answers("whom the far side saw", &mut web, 43_210)
    })?;
    same("the pod", origin(&report, "pod")?, "web-7d9f".to_owned())?;
    hold(&lab, &report, "pod_by_its_host_name", &[REWRITTEN], &[])
}

/// Two pods ask the same; only the one that was named is reported, by its whole name or by the shorter one.
fn selected() -> Result<()> {
    let (lab, _peer) = node("selected")?;
    let mut web = WEB.start(&lab, CNI)?;
    let mut db = DB.start(&lab, "pod")?;
    let _proxy = PROXY.start(&lab, "node")?;
    for name in ["shop/web-7d9f", "web-7d9f"] {
        let report = traced(&lab, LOGS, &["--pod", name], || {
            answers("whom it saw of db", &mut db, 43_220)?;
            answers("whom it saw of web", &mut web, 43_210)
        })?;
        same(
            "the pod",
            origin(&report, "pod")?,
            "shop/web-7d9f".to_owned(),
        )?;
        hold(&lab, &report, "pod_selected_by_name", &[REWRITTEN], &[])?;
    }
    for (name, line) in [
        (
            "shop/web-1",
            "pod \"shop/web-1\" does not run on this node; there are: shop/web-7d9f, shop/db-0; accepted: [NAMESPACE/]NAME",
        ),
        (
            "kube-system/proxy-x2x",
            "pod \"kube-system/proxy-x2x\" is on the host's network and has no network namespace of its own; leave --pod \
             out and filter by --src",
        ),
    ] {
        let report = Srctrace::new(&lab, &["--dest", PEER, "--pod", name])
            .around(LOGS)
            .run_to_end()?;
        same("what it says", report.stderr, format!("srctrace: {line}"))?;
        same("exit status", report.status, Some(2))?;
    }
    Ok(())
}

/// A pod on the node's network has the node's namespace and address: its process's cgroup names it.
fn host_network() -> Result<()> {
    let (lab, _peer) = node("hostnet")?;
    let mut proxy = PROXY.start(&lab, "node")?;
    let report = traced(&lab, LOGS, &[], || {
        answers("whom the far side saw", &mut proxy, 43_210)
    })?;
    let flow = report.only_flow()?;
    let process = &flow["origin"]["process"];
    same(
        "the pod",
        origin(&report, "pod")?,
        "kube-system/proxy-x2x".to_owned(),
    )?;
    same("its process", process["comm"].as_str(), Some("socat"))?;
    same(
        "its cgroup",
        process["cgroup"].as_str(),
        Some(proxy.cgroup().as_str()),
    )?;
    let claims = "tcp 10.100.0.5:43210 > 10.20.30.40:443 from node node
        source-preserved, on the wire 10.100.0.5, completed";
    hold(&lab, &report, "host_network_pod", &[claims], &[])
}
