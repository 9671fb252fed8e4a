//! Deaths on the way out: the next hop, sizes, queues.

use super::{Explanation, Scene};
use crate::inventory::RouteAnswer;
use crate::report::Code;
use serde_json::json;

pub(super) fn neighbour(scene: &Scene<'_>) -> Explanation {
    let device = scene.loss.first.ifindex;
    let dst = scene.tuple().dst;
    let next = match scene.plain_way() {
        Some(RouteAnswer::Out { via, .. }) => via.unwrap_or(dst),
        _ => dst,
    };
    let state = device
        .zip(scene.facts)
        .and_then(|(device, facts)| facts.neighbours.get(&(device, next)))
        .filter(|state| !matches!(state.as_str(), "FAILED" | "INCOMPLETE"))
        .map_or(String::new(), |state| format!(" (but is {state} now)"));
    let device = scene.device_word(device);
    let space = scene.space();
    let route = scene.route_by(next);
    let led = route.as_ref().map_or_else(String::new, |route| {
        let former = scene.holder(next);
        let former = former.map_or_else(String::new, |name| {
            format!(" ({name} has that address, or had it)")
        });
        format!("; its route {route} leads there{former}")
    });
    Explanation::new(format!(
        "nobody on {device} of {space} answered for the next hop {next}{state}{led}"
    ))
    .fix(format!(
        "`ip neigh show dev {device}` in {space}: is {next} up, and on that link? A strict \
         rp_filter there also keeps it from answering"
    ))
    .data(json!({"device": device, "next_hop": next, "route": route}))
    .code(Code::NeighbourFailed)
}

pub(super) fn hop_limit(scene: &Scene<'_>) -> Explanation {
    let space = scene.space();
    Explanation::new(format!(
        "its TTL was used up in {space} (it came with {})",
        scene.loss.first.print.ttl
    ))
    .fix("a loop between routers, or a sender that uses a small TTL: `traceroute` tells which")
    .code(Code::HopLimit)
}

pub(super) fn too_big(scene: &Scene<'_>) -> Explanation {
    let size = scene.wire_size();
    let out = match scene.way().or_else(|| scene.plain_way()) {
        Some(RouteAnswer::Out { ifindex, .. }) => Some(ifindex),
        _ => None,
    };
    let device = scene.device_word(out);
    let mtu = out.and_then(|dev| scene.mtu(dev));
    let fits = mtu.map_or(String::new(), |mtu| format!(" (MTU {mtu})"));
    let what = match scene.loss.first.print.wire_packets {
        0 | 1 => format!("a packet of {size} bytes does not fit"),
        _ => format!("segments of about {size} bytes do not fit"),
    };
    Explanation::new(format!(
        "{what} {device}{fits} in {}, and may not be cut",
        scene.space()
    ))
    .fix(
        "let ICMP \"fragmentation needed\" (IPv6: \"packet too big\") through to the sender, or \
         lower the MTU there, or clamp TCP's MSS on the way",
    )
    .data(json!({"size": size, "mtu": mtu, "device": device}))
    .code(Code::MtuSuspected)
}

pub(super) fn queue_full(scene: &Scene<'_>) -> Explanation {
    let device = scene.device_word(scene.loss.first.ifindex);
    Explanation::new(format!("a queue was full at {device} of {}", scene.space())).fix(format!(
        "`tc -s qdisc show dev {device}` and `ip -s link show {device}` there"
    ))
}

pub(super) fn other_host(scene: &Scene<'_>) -> Explanation {
    let device = scene.device_word(scene.loss.first.ifindex);
    Explanation::new(format!(
        "the frame that came to {device} of {} was addressed to another host's link-layer address",
        scene.space()
    ))
    .fix("a stale neighbour entry on the host that sent it, or an address that moved")
}
