//! The cast of most labs: pods on a node, and a peer behind the node's router.
//!
//! ```text
//! pod 10.12.3.4 eth0 -- veth-pod  node 10.100.0.5 eth0 -- eth0 10.100.0.1 peer: 10.20.30.40, 10.30.0.10
//! pod2 10.12.4.4 eth0 - veth-pod2
//! ```

use super::Topology;
use super::netkit::Mode;

/// The pod's address.
pub const POD: &str = "10.12.3.4";
/// The second pod's address.
pub const POD2: &str = "10.12.4.4";
/// The node's own address, on its `eth0`.
pub const NODE: &str = "10.100.0.5";
/// The far side that everybody asks about.
pub const PEER: &str = "10.20.30.40";
/// Another address of the far side, the one that agents exempt.
pub const EXEMPT: &str = "10.30.0.10";
/// The pod's IPv6 address.
pub const POD6: &str = "fd12:3::4";
/// The node's IPv6 address.
pub const NODE6: &str = "fd10:100::5";
/// The far side's IPv6 address.
pub const PEER6: &str = "fd50::20";

/// Whether the far side knows a way to the pods' own addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteBack {
    /// Replies to a pod's own address come back through the node.
    Known,
    /// Only the node's address is known there: a preserved source gets no answer.
    Missing,
}

/// Node, one pod and the peer.
#[must_use]
pub fn one_pod(name: &str, back: RouteBack) -> Topology {
    let mut net = outside(name, back);
    pod(&mut net, "pod", 3);
    net
}

/// Node, two pods and the peer.
#[must_use]
pub fn two_pods(name: &str, back: RouteBack) -> Topology {
    let mut net = one_pod(name, back);
    pod(&mut net, "pod2", 4);
    net
}

/// Adds a pod `10.12.N.4` (and `fd12:N::4`) to the node.
pub fn pod(net: &mut Topology, name: &str, n: u8) {
    let veth = format!("veth-{name}");
    net.veth((name, "eth0"), ("node", &veth));
    pod_behind(net, name, &veth, n);
}

/// Node, one pod that hangs on the node's netkit device `nk-pod`, and the peer.
#[must_use]
pub fn netkit_pod(name: &str, back: RouteBack, mode: Mode) -> Topology {
    let mut net = outside(name, back);
    net.netkit(mode, ("node", "nk-pod"), ("pod", "eth0"));
    pod_behind(&mut net, "pod", "nk-pod", 3);
    net
}

/// The addresses of a pod's `eth0` and of the node's device at its other end.
fn pod_behind(net: &mut Topology, name: &str, device: &str, n: u8) {
    net.addr(name, "eth0", &format!("10.12.{n}.4/24"))
        .addr("node", device, &format!("10.12.{n}.1/24"))
        .route(name, &format!("default via 10.12.{n}.1"))
        .addr(name, "eth0", &format!("fd12:{n}::4/64"))
        .addr("node", device, &format!("fd12:{n}::1/64"))
        .route(name, &format!("default via fd12:{n}::1"));
}

/// The node and the peer behind its `eth0`.
fn outside(name: &str, back: RouteBack) -> Topology {
    let mut net = Topology::new(name);
    net.forward("node")
        .veth(("peer", "eth0"), ("node", "eth0"))
        .addr("node", "eth0", "10.100.0.5/24")
        .addr("peer", "eth0", "10.100.0.1/24")
        .addr("node", "eth0", "fd10:100::5/64")
        .addr("peer", "eth0", "fd10:100::1/64")
        .addr("peer", "lo", "10.20.30.40/32")
        .addr("peer", "lo", "10.30.0.10/32")
        .addr("peer", "lo", "fd50::20/128")
        .route("node", "default via 10.100.0.1")
        .route("node", "default via fd10:100::1");
    if back == RouteBack::Known {
        net.route("peer", "10.12.0.0/16 via 10.100.0.5")
            .route("peer", "fd12::/16 via fd10:100::5");
    }
    net
}
