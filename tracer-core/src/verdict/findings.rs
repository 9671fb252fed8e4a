//! What a person on call should know beside the verdict.

use super::reply::unasked_reply;
use super::source::source_changes;
use super::{Context, far_side};
use crate::attribute::left_unseen;
use crate::journey::{Direction, Exchange, Journey};
use crate::report::{
    Code, Delivery, DeliveryCode, Finding, Rewrite, RewriteDirection, RewriteField, Severity,
    SourceCode, Verdict,
};
use serde_json::{Value, json};

/// Whether a finding means that the verdict is not certain.
pub(crate) fn is_doubt(code: Code) -> bool {
    matches!(
        code,
        Code::AmbiguousMatch | Code::EventsLost | Code::PointUnavailable
    )
}

pub(super) fn findings(
    journey: &Journey,
    rewrites: &[Rewrite],
    delivery: &Delivery,
    verdict: &Verdict,
    context: &Context<'_>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(predates(journey));
    found.extend(double_rewrite(rewrites));
    found.extend(port_rewritten(journey, rewrites));
    found.extend(far_side::peer_route(journey, delivery, verdict, context));
    found.extend(peer_closed(journey, delivery));
    found.extend(unasked_reply(journey, rewrites));
    found.extend(ambiguous(journey));
    found.extend(unseen_request(journey, delivery));
    found.extend(unread_exit(journey, verdict));
    found.extend(lost(context));
    found.extend(context.unavailable.iter().map(|u| Finding {
        text: format!("{} could not be observed: {}", u.what, u.why),
        ..finding(Code::PointUnavailable, Severity::Warning)
    }));
    found
}

pub(crate) fn finding(code: Code, severity: Severity) -> Finding {
    Finding {
        code,
        severity,
        text: String::new(),
        fix: None,
        rule: None,
        hop: None,
        data: Value::Null,
    }
}

fn predates(journey: &Journey) -> Option<Finding> {
    journey.predates.then(|| Finding {
        text: "the flow was open before the trace began: it keeps the translation it was given \
               then, whatever the rules say today"
            .into(),
        fix: Some("judge by a connection opened now".into()),
        ..finding(Code::MappingPredatesTrace, Severity::Info)
    })
}

pub(crate) fn double_rewrite(rewrites: &[Rewrite]) -> Option<Finding> {
    let chain: Vec<_> = source_changes(rewrites).collect();
    let last = chain.last().filter(|_| chain.len() > 1)?;
    Some(Finding {
        text: format!(
            "the source was rewritten {} times: {} is what left last",
            chain.len(),
            last.to.addr
        ),
        hop: last.between[1],
        ..finding(Code::DoubleRewrite, Severity::Warning)
    })
}

fn port_rewritten(journey: &Journey, rewrites: &[Rewrite]) -> Option<Finding> {
    let change = rewrites.iter().find(|r| {
        r.direction == RewriteDirection::Request
            && matches!(r.field, RewriteField::Sport | RewriteField::Dport)
    })?;
    let what = match change.field {
        _ if journey.opened.proto.is_icmp() => "identifier",
        RewriteField::Sport => "source port",
        _ => "destination port",
    };
    Some(Finding {
        text: format!(
            "the address was kept, but the {what} {} became {}",
            change.from.port, change.to.port
        ),
        hop: change.between[1],
        data: json!({"from": change.from.port, "to": change.to.port}),
        ..finding(Code::PortRewritten, Severity::Info)
    })
}

fn peer_closed(journey: &Journey, delivery: &Delivery) -> Option<Finding> {
    let exchange = &journey.exchange;
    let [request, reply] = exchange.data_ns;
    let [request_end, reply_end] = ends(exchange);
    let early = delivery.code == DeliveryCode::HandshakeOnly
        && request.is_some()
        && reply.is_none()
        && reply_end.is_some_and(|end| request_end.is_none_or(|own| end < own));
    early.then(|| Finding {
        text: "the far side took the connection and closed it after the first data without a \
               word: the network works, the application or a policy there refused"
            .into(),
        fix: Some("look at the far side's allow-list and log for the source named here".into()),
        ..finding(Code::PeerClosedEarly, Severity::Warning)
    })
}

/// When each side ended the connection, by FIN or reset.
fn ends(exchange: &Exchange) -> [Option<u64>; 2] {
    let reset = |dir| exchange.reset.filter(|(d, _)| *d == dir).map(|(_, at)| at);
    [Direction::Request, Direction::Reply].map(|dir| {
        exchange.fin_ns[dir as usize]
            .into_iter()
            .chain(reset(dir))
            .min()
    })
}

fn ambiguous(journey: &Journey) -> Option<Finding> {
    journey.ambiguous.then(|| Finding {
        text: "some packets fit this flow and another one with the same addresses; they were \
               counted for neither"
            .into(),
        fix: Some("look at one namespace at a time with --scope".into()),
        ..finding(Code::AmbiguousMatch, Severity::Warning)
    })
}

/// A request that was dropped before any tap is missed by none, though the sender's own kernel told it so.
fn unseen_request(journey: &Journey, delivery: &Delivery) -> Option<Finding> {
    let replied = !journey.reply.is_empty() || !journey.error.is_empty();
    let dropped = delivery.code == DeliveryCode::Dropped;
    (journey.request.is_empty() && replied && !dropped).then(|| Finding {
        text: "only replies were sighted: the request takes a way that no tap of this run sees"
            .into(),
        fix: Some("trace without --scope, or on the host that the request leaves by".into()),
        ..finding(Code::PointUnavailable, Severity::Warning)
    })
}

/// Where the source is known all the same (conntrack translates it), nothing is missing.
fn unread_exit(journey: &Journey, verdict: &Verdict) -> Option<Finding> {
    let unknown = verdict.source == SourceCode::SourceUnknown;
    left_unseen(journey).filter(|_| unknown)?;
    Some(Finding {
        text:
            "the request went on, for an answer came in from beyond, but no tap could read it on \
               its way out: it was encrypted (IPsec) or handed over by a program"
                .into(),
        fix: Some(
            "`ip xfrm policy` and `ip xfrm state` show what is encrypted, `bpftool net show` what \
             redirects; the source inside is seen where the tunnel ends"
                .into(),
        ),
        hop: journey.request.hops().len().try_into().ok(),
        ..finding(Code::PointUnavailable, Severity::Warning)
    })
}

fn lost(context: &Context<'_>) -> Option<Finding> {
    (context.lost > 0).then(|| Finding {
        text: format!(
            "{} events were lost while this flow lasted: hops or answers may be missing here",
            context.lost
        ),
        fix: Some("narrow the filter (--dest, --port, --scope)".into()),
        data: json!({"lost": context.lost}),
        ..finding(Code::EventsLost, Severity::Warning)
    })
}
