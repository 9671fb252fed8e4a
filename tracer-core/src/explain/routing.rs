//! Deaths where the kernel decides which way a packet goes.

use super::{Explanation, Scene};
use crate::attribute::original;
use crate::inventory::{Refusal, Role, RouteAnswer};
use crate::journey::Direction;
use crate::report::Code;
use serde_json::json;

/// What makes forwarding last in a pod: by hand it is gone with the pod.
const LASTING: &str = "what lasts is the chart's own switch; or the pod's securityContext.sysctls \
     with the kubelet's list of allowed sysctls (a CNI may set it back); or a privileged init \
     container, which a restricted policy refuses; never `sysctl -w` by hand";

pub(super) fn forwarding_off(scene: &Scene<'_>) -> Explanation {
    let (space, dst) = (scene.space(), scene.tuple().dst);
    let device = scene.device_word(scene.came_by());
    let all_name = match scene.family() {
        "ipv4" => "ipv4.ip_forward",
        _ => "ipv6.conf.all.forwarding",
    };
    let own_name = format!("{}.conf.{device}.forwarding", scene.family());
    let (all, own) = (scene.setting(all_name), scene.device_setting("forwarding"));
    let what = match (all, own) {
        (Some(0), _) if scene.role() == Some(Role::Pod) => format!(
            "forwarding is off in {space} itself (net.{all_name}=0 there; the node's value says \
             nothing about it)"
        ),
        (Some(0), _) => format!("forwarding is off in {space} (net.{all_name}=0 there)"),
        (_, Some(0)) => {
            format!(
                "forwarding is off for {device} in {space} (net.{own_name}=0, net.{all_name}=1)"
            )
        }
        (Some(_), _) => format!("forwarding was off in {space} when it died, and is on now"),
        (None, _) => format!("forwarding is off in {space}, or for {device} there"),
    };
    let setting = if own == Some(0) && all != Some(0) {
        own_name
    } else {
        all_name.to_owned()
    };
    let text = format!("{what}: what came in by {device} for {dst} was not passed on");
    let fix = match scene.role() {
        Some(Role::Pod) => format!("net.{setting}=1 in that pod's namespace: {LASTING}"),
        _ => format!(
            "net.{setting}=1 where the host's sysctl settings are kept, and look for what sets it \
             back (a hardening profile, a network restart)"
        ),
    };
    let data = json!({"setting": format!("net.{setting}"), "value": 0, "device": device});
    Explanation::new(text)
        .fix(fix)
        .data(data)
        .code(Code::ForwardingDisabled)
}

pub(super) fn reverse_path(scene: &Scene<'_>) -> Explanation {
    let src = scene.tuple().src;
    let device = scene.device_word(scene.came_by());
    let own = scene.device_setting("rp_filter");
    let all = scene.setting("ipv4.conf.all.rp_filter");
    let effective = scene.rp_filter();
    let check = match (effective, all, own) {
        (Some(value), Some(all), Some(own)) => {
            format!(
                "rp_filter={value} counts for {device}, the larger of all={all} and {device}={own}"
            )
        }
        _ => format!("the reverse-path check of {device}"),
    };
    let expected = match scene.way_back() {
        Some(RouteAnswer::Out { ifindex, .. }) => Some(scene.device_word(Some(ifindex))),
        _ => None,
    };
    let by_source = scene.way_back() != scene.plain_way_back();
    let why = match (&expected, scene.way_back()) {
        (Some(other), _) if by_source => format!(
            "answers from {}, where it was going, leave for {src} by {other}, not by {device} (`ip rule`)",
            scene.tuple().dst
        ),
        (Some(other), _) => format!("the route to {src} is by {other}, not by {device}"),
        (None, Some(RouteAnswer::Refused(_))) => format!("there is no route to {src}"),
        (None, Some(RouteAnswer::Local)) => format!("{src} is an address of {}", scene.space()),
        (None, _) => format!("a packet to {src} would not leave by {device}"),
    };
    let fix = format!(
        "if that asymmetry is wanted, net.ipv4.conf.{device}.rp_filter=2 (loose) in {}; else \
         correct the route to {src} there",
        scene.space()
    );
    Explanation::new(format!(
        "the source {src} may not come in by {device}: {why} ({check})"
    ))
    .fix(fix)
    .data(json!({"device": device, "rp_filter": effective, "expected": expected}))
    .code(Code::RpFilter)
}

pub(super) fn no_route(scene: &Scene<'_>) -> Explanation {
    let (space, dst) = (scene.space(), scene.tuple().dst);
    let refusal = |answer| match answer {
        Some(RouteAnswer::Refused(refusal)) => Some(refusal),
        _ => None,
    };
    // The plain question tells types of routes apart that the other answers alike.
    let refusal = refusal(scene.plain_way()).or_else(|| refusal(scene.way()));
    let by_reason = scene
        .loss
        .first
        .reason
        .as_deref()
        .is_some_and(|r| r.contains("NOROUTES"));
    let what = match refusal {
        _ if by_reason && refusal != Some(Refusal::Unreachable) => {
            format!("{space} has no route to {dst}")
        }
        Some(Refusal::NoRoute) => format!("{space} has no route to {dst}"),
        Some(Refusal::Blackhole) => format!("a blackhole route of {space} covers {dst}"),
        Some(Refusal::Prohibited) => format!("a route or rule of {space} prohibits {dst}"),
        Some(Refusal::Unreachable) => format!("a route of {space} says that {dst} is unreachable"),
        Some(Refusal::ReversePath) | None => format!("{space} had no way to send it to {dst}"),
    };
    let (text, fix) = match scene.loss.direction {
        Direction::Request => (
            what,
            format!("`ip route get {dst}` and `ip rule` in {space}"),
        ),
        Direction::Reply => (
            format!("{what}: the reply has no way back"),
            format!(
                "in {space}, a route to {dst}; or translate that source on the way out, so that \
                 replies come to an address that is routed"
            ),
        ),
    };
    Explanation::new(text)
        .fix(fix)
        .data(json!({"destination": dst, "kind": refusal.map(word)}))
        .code(Code::NoRoute)
}

fn word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NoRoute => "no-route",
        Refusal::Unreachable => "unreachable",
        Refusal::Prohibited => "prohibit",
        Refusal::Blackhole => "blackhole",
        Refusal::ReversePath => "reverse-path",
    }
}

pub(super) fn own_source(scene: &Scene<'_>) -> Explanation {
    let (space, src) = (scene.space(), scene.tuple().src);
    let asked = original(scene.journey);
    let hairpin = scene.loss.direction == Direction::Request
        && asked.src == src
        && asked.dst != scene.tuple().dst;
    if !hairpin {
        return Explanation::new(format!(
            "it came to {space} from outside with {src} as its source, which is an address of \
             {space} itself: the kernel takes it for a forgery"
        ))
        .fix(format!(
            "look for who else uses {src}, or sends packets of {space} back to it"
        ))
        .code(Code::MartianSource);
    }
    Explanation::new(format!(
        "{space} asked {}, which was translated to itself, and its own request came back with its \
         own address {src} as the source: the kernel takes that for a forgery",
        asked.dst
    ))
    .fix(format!(
        "masquerade what is translated back to its sender (kube-proxy does so by its hairpin rule; \
         look for the one of {src})"
    ))
    .data(json!({"source": src, "asked": asked.dst}))
    .code(Code::HairpinUnmasked)
}

pub(super) fn martian(scene: &Scene<'_>) -> Explanation {
    let t = scene.tuple();
    let device = scene.device_word(scene.came_by());
    let local = t.src.is_loopback() || t.dst.is_loopback();
    let why = if local {
        " (route_localnet is off)"
    } else {
        ""
    };
    Explanation::new(format!(
        "a packet from {} to {} may not come in by {device} of {}{why}",
        t.src,
        t.dst,
        scene.space()
    ))
    .fix(format!(
        "net.ipv4.conf.{device}.log_martians=1 makes the kernel log such packets"
    ))
    .code(Code::MartianSource)
}
