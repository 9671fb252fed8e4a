//! What is to be known about a joined flow.

use super::hops::Numbers;
use super::{Member, Scene};
use crate::event::Dir;
use crate::inventory::Inventory;
use crate::join::joiner::Host;
use crate::join::witness::unix;
use crate::journey::Direction;
use crate::report::{
    Code, DeliveryCode, Finding, Flow, Rewrite, RewriteDirection, RewriteField, Severity,
};
use crate::verdict::{double_rewrite, finding};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The hosts' own findings, each with its host's name, and how sure the join is.
pub(super) fn findings(scene: &Scene<'_>, numbers: &Numbers, rewrites: &[Rewrite]) -> Vec<Finding> {
    let mut all = vec![join(scene)];
    for (at, member) in scene.members.iter().enumerate() {
        for one in &member.flow.findings {
            if outdated(scene, at, one.code) {
                continue;
            }
            all.push(with_host(scene.host(at), numbers, at, one));
        }
    }
    all.extend(double_rewrite(rewrites));
    all
}

/// What only one host says, and all together know better.
fn outdated(scene: &Scene<'_>, at: usize, code: Code) -> bool {
    let last = at + 1 == scene.members.len();
    match code {
        Code::PeerRouteSuspected => !last,
        Code::DoubleRewrite | Code::ExpectationViolated | Code::ChangedBetweenPoints => true,
        _ => false,
    }
}

fn with_host(host: &str, numbers: &Numbers, at: usize, one: &Finding) -> Finding {
    let mut data = one.data.clone();
    if data.is_null() {
        data = json!({});
    }
    if let Value::Object(fields) = &mut data {
        fields.insert("host".to_owned(), json!(host));
    }
    Finding {
        text: format!("{host}: {}", one.text),
        hop: numbers.of(at, one.hop),
        data,
        ..one.clone()
    }
}

/// By what the parts are known to be of one flow, and by what their clocks were compared.
fn join(scene: &Scene<'_>) -> Finding {
    let names: Vec<&str> = (0..scene.members.len()).map(|at| scene.host(at)).collect();
    let link = scene.link();
    let tcp = scene.members[0].flow.flow.proto.0 == crate::packet::Proto::TCP;
    let key = match tcp {
        true => "the initial sequence number",
        false => "the first packet's numbers and length",
    };
    let by = [
        (link.key, key),
        (link.answer, "that of the answer"),
        (link.tuple, "an unbroken tuple"),
    ];
    let by: Vec<&str> = by
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| *word)
        .collect();
    let certainty = link.certainty().word();
    let by_text = match by.is_empty() {
        true => "what each two neighbours have in common".to_owned(),
        false => by.join(" and "),
    };
    let clocks = scene.members.iter().map(|member| {
        let aligned = scene
            .clocks
            .0
            .get(member.source)
            .copied()
            .unwrap_or_default();
        // The first source's clock is the one that all are compared with.
        let error = aligned.error_ns.or((member.source == 0).then_some(0));
        json!({
            "offset_us": aligned.offset_ns / 1000,
            "error_us": error.map(|ns| ns / 1000),
            "flows": aligned.flows,
        })
    });
    Finding {
        text: format!(
            "seen at {}: joined by {by_text} ({certainty})",
            names.join(", then at ")
        ),
        data: json!({
            "hosts": names,
            "certainty": certainty,
            "by": by,
            "clocks": clocks.collect::<Vec<_>>(),
        }),
        ..finding(Code::JoinedAcrossHosts, Severity::Info)
    }
}

/// Hosts that would have seen an unanswered request, had it come there.
pub(super) fn unseen(scene: &Scene<'_>) -> Vec<Finding> {
    let Some(last) = scene.members.last() else {
        return Vec::new();
    };
    let unanswered = matches!(last.flow.delivery.code, DeliveryCode::NoReply);
    let Some(left) = last
        .witness
        .way(Direction::Request)
        .last()
        .filter(|_| unanswered)
    else {
        return Vec::new();
    };
    if left.dir == Dir::Ingress {
        return Vec::new();
    }
    let hosts = scene.hosts.iter().enumerate();
    let others = hosts.filter(|(source, _)| scene.members.iter().all(|m| m.source != *source));
    others
        .filter(|(source, host)| would_see(scene, last, *source, host, left.tuple.dst))
        .map(|(_, host)| not_seen(scene, &last.flow, host, left.tuple.dst))
        .collect()
}

/// It has the destination's address, was asked to look for it, and looked at the time.
fn would_see(
    scene: &Scene<'_>,
    member: &Member,
    source: usize,
    host: &Host<'_>,
    dst: IpAddr,
) -> bool {
    let secret = |source: usize| scene.hosts.get(source).map(|h| h.header.redacted);
    let offset = host.header.clock.offset_ns();
    let align = |source: usize, at| scene.clocks.align(source, at);
    let began = align(source, unix(host.header.clock.monotonic_ns, offset));
    let ended = align(source, unix(host.now_ns, offset));
    let (from, to) = member.witness.lasted;
    let (from, to) = (align(member.source, from), align(member.source, to));
    let asked = &host.header.requested;
    let looked = asked.dests.is_empty() || asked.dests.iter().any(|net| net.contains(&dst));
    owns(host.inventory, dst)
        && !asked.narrowed
        && looked
        && began <= from
        && to <= ended
        && secret(source) == secret(member.source)
}

fn owns(inventory: &Inventory, addr: IpAddr) -> bool {
    let mut all = inventory.namespaces.keys();
    all.any(|netns| inventory.owns(*netns, addr))
}

fn not_seen(scene: &Scene<'_>, flow: &Flow, host: &Host<'_>, dst: IpAddr) -> Finding {
    let peer = &host.header.host;
    let here = scene.host(scene.members.len() - 1);
    let source = flow.verdict.source_on_wire;
    let source = source.map_or_else(String::new, |source| format!(" as {source}"));
    Finding {
        text: format!(
            "it left {here}{source} and never came to {peer}, which has {dst} and was looking: lost on the way there"
        ),
        fix: Some(format!(
            "look between {here} and {peer}: tunnel selectors, firewalls and routes that pass only other sources"
        )),
        data: json!({"from": here, "to": peer}),
        ..finding(Code::NotSeenAtPeer, Severity::Error)
    }
}

/// The far side never had it: it cannot lack a route back.
pub(super) fn instead_of_route(flow: &mut Flow) {
    flow.findings.retain(|f| f.code != Code::PeerRouteSuspected);
}

/// Changes of the request's source address.
pub(super) fn source_changes(rewrites: &[Rewrite]) -> impl Iterator<Item = &Rewrite> {
    rewrites
        .iter()
        .filter(|r| r.direction == RewriteDirection::Request && r.field == RewriteField::Src)
}
