//! Rows D: a VPN pod as a router, where it does not route.

use anyhow::Result;

use super::Case;
use super::steps::{A_MOMENT, hold, same, watch};
use crate::lab::cast::{self, PEER, RouteBack};
use crate::lab::{Lab, Topology};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, Outcome, StreamCall, StreamServer};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "d1_gateway_does_not_forward",
        &["D1"],
        gateway_does_not_forward,
    ),
    Case::new("d2_client_pool_without_route", &["D2"], pool_without_route),
    Case::new("d6_gateway_replaced", &["D6"], gateway_replaced).alone(),
];

/// A VPN pod with its client behind `tun0`, on the node.
pub(super) fn vpn(name: &str) -> Topology {
    let mut net = cast::one_pod(name, RouteBack::Known);
    cast::pod(&mut net, "vpn", 9);
    gateway(&mut net, "vpn");
    net.route("peer", "10.8.0.0/24 via 10.100.0.5");
    net
}

/// The client `10.8.0.2` behind a gateway's `tun0`.
fn gateway(net: &mut Topology, gateway: &str) {
    net.veth((gateway, "tun0"), ("peer-client", "tun0"))
        .addr(gateway, "tun0", "10.8.0.1/24")
        .addr("peer-client", "tun0", "10.8.0.2/24")
        .route("peer-client", "default via 10.8.0.1");
}

const CLIENT: &str = "tcp 10.8.0.2:43210 > 10.20.30.40:443";

fn client_call(lab: &Lab) -> Result<()> {
    let call = StreamCall::new("peer-client", "10.20.30.40:443", 43_210).patience(A_MOMENT);
    same("the client's request", call.run(lab)?, Outcome::Silence)
}

fn gateway_does_not_forward() -> Result<()> {
    let lab = vpn("d1").up()?;
    lab.sysctl("vpn", "ipv4/ip_forward", "0")?;
    let report = watch(&lab, &["--dest", PEER], 1, || client_call(&lab))?;
    let claims = format!(
        "{CLIENT} from gateway vpn
         dropped: IP_INADDRERRORS
         source-unknown, on the wire null, dropped"
    );
    hold(
        &lab,
        &report,
        "d1_gateway_does_not_forward",
        &[&claims],
        &[(0, "forwarding-disabled")],
    )
}

/// The VPN pod forwards, and nobody in the cluster knows its clients.
fn pool_without_route() -> Result<()> {
    let mut net = vpn("d2");
    net.forward("vpn");
    let lab = net.up()?;
    lab.ip(
        "node",
        "route add 10.20.30.40 via 10.100.0.1\nroute del default",
    )?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let report = watch(&lab, &["--dest", PEER], 0, || client_call(&lab))?;
    let claims = format!(
        "{CLIENT} from gateway vpn
         dropped: IP_INNOROUTES
         source-preserved, on the wire 10.8.0.2, reply-lost"
    );
    hold(
        &lab,
        &report,
        "d2_client_pool_without_route",
        &[&claims],
        &[(0, "no-route")],
    )
}

/// A gateway pod comes again as this namespace, with new devices and the addresses that it had.
pub(super) fn comes_again(lab: &mut Lab, ns: &str, forwards: &str) -> Result<()> {
    lab.add_ns(ns)?;
    lab.sysctl(ns, "ipv4/ip_forward", forwards)?;
    let (new, client) = (lab.netns(ns), lab.netns("peer-client"));
    lab.ip(
        "node",
        &format!(
            "link add veth-new type veth peer name eth0 netns {new}\nlink set veth-new up\n\
             addr add 10.12.9.1/24 dev veth-new"
        ),
    )?;
    lab.ip(
        ns,
        &format!(
            "link set eth0 up\naddr add 10.12.9.4/24 dev eth0\nroute add default via 10.12.9.1\n\
             link add tun0 type veth peer name tun0 netns {client}\nlink set tun0 up\n\
             addr add 10.8.0.1/24 dev tun0"
        ),
    )?;
    lab.ip(
        "peer-client",
        "link set tun0 up\naddr add 10.8.0.2/24 dev tun0\nroute add default via 10.8.0.1",
    )?;
    for (ns, ifname) in [(ns, "eth0"), (ns, "tun0"), ("peer-client", "tun0")] {
        lab.settle(ns, ifname)?;
    }
    Ok(())
}

/// The gateway pod is deleted and comes again, without what somebody had set in it by hand.
fn gateway_replaced() -> Result<()> {
    let mut net = cast::one_pod("d6", RouteBack::Known);
    net.forward("vpn-old")
        .veth(("vpn-old", "eth0"), ("node", "veth-old"))
        .addr("vpn-old", "eth0", "10.12.9.4/24")
        .addr("node", "veth-old", "10.12.9.1/24")
        .route("vpn-old", "default via 10.12.9.1");
    gateway(&mut net, "vpn-old");
    let mut lab = net.up()?;
    let trace = Srctrace::new(&lab, &["--dest", PEER])
        .whole_machine()
        .start()?;
    lab.delete_ns("vpn-old");
    comes_again(&mut lab, "vpn-new", "0")?;
    client_call(&lab)?;
    trace.wait_flows(1)?;
    let report = trace.stop()?;
    let claims = format!(
        "{CLIENT} from external peer-client
         dropped: IP_INADDRERRORS
         source-unknown, on the wire null, dropped"
    );
    hold(
        &lab,
        &report,
        "d6_gateway_replaced",
        &[&claims],
        &[(0, "forwarding-lost")],
    )
}
