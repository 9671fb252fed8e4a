//! From a judged flow to the layer at which it ended.

use super::{Heard, Told, Tried};
use crate::attribute::is_service;
use crate::report::{
    Code, DeliveryCode, Dir, Finding, Flow, Layer, RefusedBy, Rewrite, RewriteDirection,
    RewriteField, RungBy, RungCode, Severity, SourceCode, Where,
};
use std::net::SocketAddr;

/// What a death here says of the layer, the more telling ones first.
const DEATHS: &[(Code, Layer)] = &[
    (Code::ForwardingLost, Layer::Forwarding),
    (Code::ForwardingDisabled, Layer::Forwarding),
    (Code::PolicyDrop, Layer::Policy),
    (Code::DroppedByProgram, Layer::Policy),
    (Code::HairpinUnmasked, Layer::Service),
    (Code::NoRoute, Layer::Route),
    (Code::RpFilter, Layer::Route),
    (Code::MartianSource, Layer::Route),
    (Code::NeighbourFailed, Layer::Route),
    (Code::HopLimit, Layer::Route),
    (Code::ConntrackFailed, Layer::Forwarding),
];

/// What explains silence without a death here.
const SIGNS: &[(Code, Layer)] = &[
    (Code::ReplyBypassedConntrack, Layer::Route),
    (Code::ReplyRewrittenWrong, Layer::Route),
    (Code::PolicyRouteMissed, Layer::Route),
    (Code::MtuSuspected, Layer::Route),
    (Code::PeerRouteSuspected, Layer::FarSide),
];

pub(super) fn of_delivery(flow: &Flow) -> RungCode {
    match flow.delivery.code {
        DeliveryCode::Completed | DeliveryCode::HandshakeOnly => RungCode::Answered,
        DeliveryCode::InProgress if flow.packets.reply > 0 => RungCode::Answered,
        DeliveryCode::InProgress | DeliveryCode::NoReply => RungCode::NoReply,
        DeliveryCode::ReplyLost => RungCode::ReplyLost,
        DeliveryCode::Refused => RungCode::Refused,
        DeliveryCode::Dropped => RungCode::Dropped,
    }
}

pub(super) fn sighted(flow: &Flow, tried: &Tried) -> Told {
    let code = match (of_delivery(flow), &tried.heard) {
        (_, Some(Heard::Answer)) => RungCode::Answered,
        (RungCode::Answered, Some(Heard::Refusal)) => RungCode::Refused,
        (RungCode::Answered, Some(_)) => RungCode::ReplyLost,
        (code, _) => code,
    };
    let backend = backend(flow);
    let service = tried.service || backend.is_some_and(|to| to.place == Where::Service);
    let (layer, text, fix) = match code {
        RungCode::Answered => (None, answered(flow, backend), None),
        _ => ended(code, flow, tried, service),
    };
    let text = match flow.verdict.complete || code == RungCode::Answered {
        true => text,
        false => format!("{text}; not certain: not everything could be observed here"),
    };
    // Behind the resolver's own address there is nothing but DNS.
    let layer = match layer {
        Some(Layer::FarSide) if tried.by == RungBy::Dns => Some(Layer::Dns),
        layer => layer,
    };
    Told {
        code,
        layer,
        service,
        forwarded: passed_on(flow),
        text,
        fix,
    }
}

/// Whether it came into a namespace and left it again.
fn passed_on(flow: &Flow) -> bool {
    let left = |at: usize, netns| {
        let later = flow.hops.iter().skip(at + 1);
        let mut out = later.filter(|hop| hop.dir == Dir::Egress);
        out.any(|hop| hop.netns == netns)
    };
    let came = flow.hops.iter().enumerate();
    let mut came = came.filter(|(_, hop)| hop.dir == Dir::Ingress && hop.netns.is_some());
    came.any(|(at, hop)| left(at, hop.netns))
}

/// No packet of it was seen anywhere.
pub(super) fn unsighted(tried: &Tried) -> Told {
    let (code, layer, text) = match &tried.heard {
        Some(Heard::Answer) => (
            RungCode::Answered,
            None,
            "answered; no packet of it was sighted".to_owned(),
        ),
        Some(Heard::Refusal) => (
            RungCode::Refused,
            Some(Layer::FarSide),
            format!(
                "{} refused it; no packet of it was sighted: it did not leave the sender's namespace",
                tried.to
            ),
        ),
        Some(Heard::NoWay { forbidden, why }) => (
            RungCode::NotSent,
            Some(match forbidden {
                true => Layer::Policy,
                false => Layer::Route,
            }),
            format!(
                "the sender's own namespace did not send it to {}: {why}",
                tried.to
            ),
        ),
        Some(Heard::Nothing) | None => (
            RungCode::NoReply,
            None,
            "no packet of it was sighted, and no answer came".to_owned(),
        ),
    };
    let fix = (code == RungCode::NotSent).then(|| {
        format!(
            "`ip route get {}` in the sender's namespace, and the rules of its OUTPUT hook",
            tried.to
        )
    });
    Told {
        code,
        layer,
        service: tried.service,
        forwarded: false,
        text,
        fix,
    }
}

/// Where a Service has nobody behind it.
const ENDPOINTS: &str = "the Service's endpoints (`kubectl get endpointslices`), and whether kube-proxy of this node is up to date";

/// The kernel's reasons for packets that came as far as a socket, or found none.
const AT_THE_SOCKET: &[&str] = &["NO_SOCKET", "SOCKET_RCVBUFF"];

/// It died, and not on its way.
fn unheard(flow: &Flow) -> Ended {
    let died = flow
        .drops
        .iter()
        .find(|drop| drop.direction == RewriteDirection::Request);
    let reason = died.and_then(|drop| drop.reason.as_deref());
    let arrived = reason.is_some_and(|reason| AT_THE_SOCKET.contains(&reason));
    let text = match died.and_then(|drop| drop.explain.as_ref()) {
        Some(explain) => format!("{}: {explain}", flow.verdict.text),
        None => flow.verdict.text.clone(),
    };
    (arrived.then_some(Layer::FarSide), text, None)
}

type Ended = (Option<Layer>, String, Option<String>);

fn ended(code: RungCode, flow: &Flow, tried: &Tried, service: bool) -> Ended {
    if let Some((layer, finding)) = death(code, flow) {
        let fix = match layer {
            Layer::Service if finding.rule.is_some() => Some(ENDPOINTS.to_owned()),
            _ => finding.fix.clone(),
        };
        return (Some(layer), said(finding), fix);
    }
    if code == RungCode::Dropped {
        return unheard(flow);
    }
    if code == RungCode::Refused {
        return refused(flow, service);
    }
    let silent = matches!(code, RungCode::NoReply);
    if silent && service && backend(flow).is_none() {
        let text = format!(
            "the Service address {} was not translated to any endpoint: {}",
            tried.to, flow.verdict.text
        );
        return (Some(Layer::Service), text, Some(ENDPOINTS.to_owned()));
    }
    if let Some((layer, finding)) = found(SIGNS, |_| true, flow) {
        return (Some(layer), finding.text.clone(), finding.fix.clone());
    }
    // Of a request that went nowhere nothing is proven.
    let went = silent && flow.verdict.source != SourceCode::SourceUnknown;
    let layer = went.then_some(Layer::FarSide);
    let text = match (code, &tried.heard) {
        (RungCode::ReplyLost, Some(_)) => format!(
            "an answer was seen here, and its sender did not get it: {}",
            flow.verdict.text
        ),
        (RungCode::ReplyLost, None) => format!("the answer was lost: {}", flow.verdict.text),
        _ => format!("{}; nothing came back", flow.verdict.text),
    };
    (layer, text, None)
}

/// The death that ended it, if one did.
fn death(code: RungCode, flow: &Flow) -> Option<(Layer, &Finding)> {
    // What refuses is told as a warning: its sender was told.
    let counts = |finding: &Finding| {
        finding.severity == Severity::Error
            || (code == RungCode::Refused && finding.data["direction"] == "request")
    };
    let (layer, finding) = found(DEATHS, counts, flow)?;
    let layer = match &finding.rule {
        Some(rule) if is_service(rule) => Layer::Service,
        None if !finding.data["ipvs"].is_null() => Layer::Service,
        _ => layer,
    };
    Some((layer, finding))
}

fn found<'a>(
    kinds: &[(Code, Layer)],
    counts: impl Fn(&Finding) -> bool,
    flow: &'a Flow,
) -> Option<(Layer, &'a Finding)> {
    kinds.iter().find_map(|(code, layer)| {
        let of_it = |finding: &&Finding| finding.code == *code && counts(finding);
        Some((*layer, flow.findings.iter().find(of_it)?))
    })
}

/// A finding's sentence; of a rule with what its owner wrote on it.
fn said(finding: &Finding) -> String {
    let comment = finding.rule.as_ref().and_then(|rule| rule.comment.as_ref());
    match comment.filter(|comment| !finding.text.contains(comment.as_str())) {
        Some(comment) => format!("{} (\"{comment}\")", finding.text),
        None => finding.text.clone(),
    }
}

fn refused(flow: &Flow, service: bool) -> Ended {
    let Some(by) = &flow.delivery.refused_by else {
        return (None, flow.verdict.text.clone(), None);
    };
    let layer = match by.kind.as_str() {
        _ if service && by.place == Some(Where::Node) => Layer::Service,
        "net-prohibited" | "host-prohibited" | "admin-prohibited" | "source-policy" => {
            Layer::Policy
        }
        "rst" | "port-unreachable" | "protocol-unreachable" => Layer::FarSide,
        _ => Layer::Route,
    };
    let (text, fix) = why_refused(by, layer, flow);
    (Some(layer), text, Some(fix))
}

fn why_refused(by: &RefusedBy, layer: Layer, flow: &Flow) -> (String, String) {
    let (addr, kind) = (by.addr, &by.kind);
    let verdict = &flow.verdict.text;
    match layer {
        Layer::Service => (
            format!("the node itself refused it ({kind}): the Service has nobody to hand it to"),
            ENDPOINTS.to_owned(),
        ),
        Layer::Policy => (
            format!("{addr} says that it is prohibited ({kind}): {verdict}"),
            format!("the rules of {addr}"),
        ),
        Layer::FarSide => (
            format!(
                "{addr} was reached and refused it ({kind}): nobody listens there, or a rule there says so; \
                 the way there and back works"
            ),
            format!("what listens on that port of {addr}"),
        ),
        _ => (
            format!("{addr} has no way to it ({kind}): {verdict}"),
            format!("the routes of {addr}"),
        ),
    }
}

/// The last translation of the destination on the way there.
fn backend(flow: &Flow) -> Option<&Rewrite> {
    let there = |one: &&Rewrite| {
        one.direction == RewriteDirection::Request && one.field == RewriteField::Dst
    };
    flow.rewrites.iter().rfind(there)
}

fn answered(flow: &Flow, backend: Option<&Rewrite>) -> String {
    let verdict = &flow.verdict.text;
    match backend {
        Some(to) if flow.flow.tuple.dport == 0 => format!("by {}; {verdict}", to.to.addr),
        Some(to) => {
            let at = SocketAddr::new(to.to.addr, to.to.port);
            format!("by {at}; {verdict}")
        }
        None => verdict.clone(),
    }
}
