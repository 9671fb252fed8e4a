//! The last line of a flow: what left, and whether an answer came back.

use super::super::escape;
use super::super::look::name;
use super::words;
use tracer_core::report::{
    Code, Delivery, DeliveryCode, Dir, Finding, Flow, Hop, OriginKind, SourceCode, Where,
};

/// The closing sentence(s).
pub(super) fn last(flow: &Flow) -> String {
    let mut text = format!("{} {}", left(flow), answer(flow));
    if !flow.verdict.complete {
        text.push_str(" Not certain: not everything could be observed.");
    }
    text
}

/// It says what left here; what the far side saw, srctrace does not know.
fn left(flow: &Flow) -> String {
    let Some(source) = flow.verdict.source_on_wire else {
        return match flow.hops.last() {
            Some(hop) => format!("Not seen leaving {}.", name(&hop.host)),
            None => "Not seen leaving.".to_owned(),
        };
    };
    let unchanged = match flow.verdict.source {
        SourceCode::SourcePreserved => ", unchanged",
        _ => "",
    };
    if let Some(hop) = flow.hops.last().filter(|hop| hop.dir == Dir::Ingress) {
        let place = name(hop.netns_name.as_deref().unwrap_or(&hop.host));
        let by = hop
            .ifname
            .as_deref()
            .map_or(String::new(), |i| format!(" by {}", name(i)));
        return format!("Reached {place}{by} as {source}{unchanged}.");
    }
    match exit(flow) {
        Some(hop) => {
            let by = hop.ifname.as_deref().map(|i| format!(" by {}", name(i)));
            let by = by.unwrap_or_default();
            format!("Left {}{by} as {source}{unchanged}.", name(&hop.host))
        }
        None => format!("Seen as {source}{unchanged}."),
    }
}

/// Where it left: the last way out of the node, else the last way out of anything (on a machine
/// that simulates several, what comes after the node has ways out too).
fn exit(flow: &Flow) -> Option<&Hop> {
    let node = node(flow);
    let out = || flow.hops.iter().rev().filter(|h| h.dir == Dir::Egress);
    out()
        .find(|h| node.is_some() && h.netns == node)
        .or_else(|| out().next())
}

/// The node's namespace, as far as the flow tells it.
fn node(flow: &Flow) -> Option<u32> {
    let rewrites = flow.rewrites.iter();
    let rewriter = rewrites
        .filter(|r| matches!(r.place, Where::Node | Where::Service))
        .find_map(|r| r.netns);
    let origin = flow.origin.netns;
    rewriter.or_else(|| match flow.origin.kind {
        OriginKind::Node => origin,
        OriginKind::Pod => {
            let mut spaces = flow.hops.iter().filter_map(|h| h.netns);
            spaces.find(|netns| Some(*netns) != origin)
        }
        OriginKind::Gateway | OriginKind::External => None,
    })
}

fn answer(flow: &Flow) -> String {
    let to = words::sender(flow.origin.kind);
    let delivery = &flow.delivery;
    match delivery.code {
        DeliveryCode::Completed => format!("Replies came back to {to}."),
        DeliveryCode::HandshakeOnly => {
            format!("The handshake was answered to {to}, no data came back after it.")
        }
        DeliveryCode::NoReply => "No reply was seen.".to_owned(),
        DeliveryCode::ReplyLost if flow.findings.iter().any(is_unasked) => {
            let far = match delivery.reply_last_seen {
                Some(1) => format!(" to {to}"),
                n => at(flow, " as far as ", n),
            };
            format!("A reply came{far}, but not from the address that was asked.")
        }
        DeliveryCode::ReplyLost => format!(
            "A reply came{} and did not reach {to}.",
            at(flow, " as far as ", delivery.reply_last_seen)
        ),
        DeliveryCode::Refused => refused(flow, delivery),
        DeliveryCode::Dropped => {
            format!("It was dropped{}.", at(flow, " after ", delivery.last_seen))
        }
        DeliveryCode::InProgress => "The trace ended before the answer could be told.".to_owned(),
    }
}

/// Whether a reply arrived from elsewhere.
fn is_unasked(finding: &Finding) -> bool {
    matches!(
        finding.code,
        Code::ReplyBypassedConntrack | Code::ReplyRewrittenWrong
    )
}

fn refused(flow: &Flow, delivery: &Delivery) -> String {
    let Some(by) = &delivery.refused_by else {
        return "Refused.".to_owned();
    };
    let kind = escape(&by.kind);
    let at = at(flow, ", first seen at ", by.hop);
    match by.place {
        Some(Where::Node) => format!(
            "Refused by the node itself ({kind}, sent as {}){at}.",
            by.addr
        ),
        _ => format!("Refused by {} ({kind}){at}.", by.addr),
    }
}

/// ` after hop 2 (eth0)`, nothing where the hop is not known.
fn at(flow: &Flow, before: &str, n: Option<u32>) -> String {
    let Some(n) = n else { return String::new() };
    let ifname = flow
        .hops
        .iter()
        .find(|h| h.n == n)
        .and_then(|h| h.ifname.as_deref());
    match ifname {
        Some(ifname) => format!("{before}hop {n} ({})", name(ifname)),
        None => format!("{before}hop {n}"),
    }
}
