//! What it means that a host did not see a request that had left another: lost on the way there, or nothing.

use super::{Member, Scene};
use crate::event::Dir;
use crate::inventory::Inventory;
use crate::join::joiner::Host;
use crate::join::links::Certainty;
use crate::join::shown::Nearness;
use crate::join::witness::{Sight, unix};
use crate::journey::Direction;
use crate::report::{Code, DeliveryCode, Finding, Flow, Severity};
use crate::verdict::{finding, utc};
use serde_json::json;
use std::net::IpAddr;

/// By how much two clocks may differ where only requests could be compared, nanoseconds.
const UNSURE_NS: i64 = 1_000_000_000;

/// What the hosts say that did not see an unanswered request.
pub(super) fn unseen(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(last) = scene.members.last() else {
        return Vec::new();
    };
    let unanswered = last.flow.delivery.code == DeliveryCode::NoReply;
    let left = last.witness.way(Direction::Request).last();
    let Some(left) = left.filter(|left| unanswered && (left.dir == Dir::Egress || !left.sided))
    else {
        return Vec::new();
    };
    let hosts = scene.hosts.iter().enumerate();
    let others = hosts.filter(|(source, _)| scene.members.iter().all(|m| m.source != *source));
    others
        .filter_map(|(source, host)| match host.header.captured {
            Some(_) => in_capture(scene, last, left, (source, host)),
            None => would_see(scene, last, source, host, left.tuple.dst)
                .then(|| not_seen(scene, last, host, left.tuple.dst)),
        })
        .collect()
}

/// The far side never had it: it cannot lack a route back.
pub(super) fn instead_of_route(flow: &mut Flow, unseen: &[Finding]) {
    let sure = |f: &Finding| f.code == Code::NotSeenAtPeer && f.severity == Severity::Error;
    if unseen.iter().any(sure) {
        flow.findings.retain(|f| f.code != Code::PeerRouteSuspected);
    }
}

/// It has the destination's address, was asked to look for it, and looked at the time.
fn would_see(
    scene: &Scene<'_>,
    member: &Member,
    source: usize,
    host: &Host<'_>,
    dst: IpAddr,
) -> bool {
    let offset = host.header.clock.offset_ns();
    let began = scene
        .clocks
        .align(source, unix(host.header.clock.monotonic_ns, offset));
    let ended = scene.clocks.align(source, unix(host.now_ns, offset));
    let (from, to) = lasted(scene, member);
    let asked = &host.header.requested;
    let looked = asked.dests.is_empty() || asked.dests.iter().any(|net| net.contains(&dst));
    owns(host.inventory, dst)
        && !asked.narrowed
        && looked
        && began <= from
        && to <= ended
        && scene.secret(source) == scene.secret(member.source)
}

/// When a part lasted, by the first source's clock.
fn lasted(scene: &Scene<'_>, member: &Member) -> (i64, i64) {
    let (from, to) = member.witness.lasted;
    let align = |at| scene.clocks.align(member.source, at);
    (align(from), align(to))
}

fn owns(inventory: &Inventory, addr: IpAddr) -> bool {
    let mut all = inventory.namespaces.keys();
    all.any(|netns| inventory.owns(*netns, addr))
}

fn not_seen(scene: &Scene<'_>, last: &Member, host: &Host<'_>, dst: IpAddr) -> Finding {
    let peer = &host.header.host;
    let here = scene.host(scene.members.len() - 1);
    Finding {
        text: format!(
            "it left {here}{} and never came to {peer}, which has {dst} and was looking: lost on the way there",
            as_source(last)
        ),
        fix: Some(between(here, peer)),
        data: json!({"from": here, "to": peer, "certainty": Certainty::Likely.word()}),
        ..finding(Code::NotSeenAtPeer, Severity::Error)
    }
}

fn as_source(last: &Member) -> String {
    let source = last.flow.verdict.source_on_wire;
    source.map_or_else(String::new, |source| format!(" as {source}"))
}

fn between(here: &str, peer: &str) -> String {
    format!(
        "look between {here} and {peer}: tunnel selectors, firewalls and routes that pass only other sources"
    )
}

/// What a capture says in which it is not.
fn in_capture(
    scene: &Scene<'_>,
    last: &Member,
    left: &Sight,
    (source, host): (usize, &Host<'_>),
) -> Option<Finding> {
    let (peer, dst) = (&host.header.host, left.tuple.dst);
    if scene.secret(last.source).is_some() {
        return Some(inconclusive(
            peer,
            &format!(
                "addresses of {peer} and of the recording cannot be compared: those were replaced"
            ),
        ));
    }
    let Some(span) = host.shown.and_then(|shown| shown.span) else {
        return Some(inconclusive(peer, "it has no packets"));
    };
    let nearness = host
        .shown
        .map_or(Nearness::Nothing, |shown| shown.nearness(&left.tuple));
    if nearness == Nearness::Nothing {
        return Some(inconclusive(peer, &format!("it shows no packet to {dst}")));
    }
    let (compared, unsure_ns) = compared(scene, [last.source, source]);
    let align = |at| scene.clocks.align(source, at);
    let (began, ended) = (
        align(span.0).saturating_add(unsure_ns),
        align(span.1).saturating_sub(unsure_ns),
    );
    let (from, to) = lasted(scene, last);
    if from < began || ended < to {
        let time = |ns: i64| utc(u64::try_from(ns).unwrap_or(0), 0);
        let why = format!(
            "it covers {} to {} (by the first source's clock), and the flow lasted from {} to {}",
            time(align(span.0)),
            time(align(span.1)),
            time(from),
            time(to)
        );
        return Some(inconclusive(peer, &why));
    }
    let certainty = match (nearness, compared) {
        (Nearness::Port, true) => Certainty::Likely,
        _ => Certainty::Weak,
    };
    Some(not_in_capture(
        scene,
        last,
        left,
        peer,
        (certainty, nearness, compared),
    ))
}

fn not_in_capture(
    scene: &Scene<'_>,
    last: &Member,
    left: &Sight,
    peer: &str,
    (certainty, nearness, compared): (Certainty, Nearness, bool),
) -> Finding {
    let here = scene.host(scene.members.len() - 1);
    let Sight { tuple, .. } = left;
    let shows = match nearness {
        Nearness::Port => format!("shows other packets to {}", tuple.destination()),
        _ => format!("shows packets to {}, to other ports", tuple.dst),
    };
    let doubt = match compared {
        true => "",
        false => "; the clocks could not be compared",
    };
    Finding {
        text: format!(
            "it left {here}{} and is not in {peer}, which covers that time and {shows}: {} ({}: what the capture's filter left out is not known{doubt})",
            as_source(last),
            match certainty {
                Certainty::Weak => "perhaps lost on the way there",
                _ => "lost on the way there",
            },
            certainty.word()
        ),
        fix: Some(between(here, peer)),
        data: json!({"from": here, "to": peer, "certainty": certainty.word()}),
        ..finding(
            Code::NotSeenAtPeer,
            match certainty {
                Certainty::Weak => Severity::Warning,
                _ => Severity::Error,
            },
        )
    }
}

/// Whether the clocks of two sources were compared, and by how much they may still differ.
fn compared(scene: &Scene<'_>, sources: [usize; 2]) -> (bool, i64) {
    let clocks = sources.map(|source| scene.clocks.0.get(source).copied().unwrap_or_default());
    let known = |at: usize| sources[at] == 0 || clocks[at].flows > 0;
    let error = |at: usize| match sources[at] {
        0 => 0,
        _ => clocks[at]
            .error_ns
            .and_then(|ns| i64::try_from(ns).ok())
            .unwrap_or(UNSURE_NS),
    };
    let all = known(0) && known(1);
    (
        all,
        if all {
            error(0).saturating_add(error(1))
        } else {
            UNSURE_NS
        },
    )
}

fn inconclusive(peer: &str, why: &str) -> Finding {
    Finding {
        text: format!("it is not in {peer}, which proves nothing: {why}"),
        fix: Some(format!(
            "capture on {peer}'s host again, before the request and until seconds after it, with no filter but the destination's address"
        )),
        data: json!({"to": peer}),
        ..finding(Code::CaptureInconclusive, Severity::Info)
    }
}
