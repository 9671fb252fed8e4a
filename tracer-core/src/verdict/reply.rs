//! Whether the reply came from where it was asked for.

use super::findings::finding;
use crate::attribute::number_at;
use crate::journey::{Journey, Place};
use crate::report::{Code, Finding, Rewrite, RewriteDirection, RewriteField, Severity};
use serde_json::json;
use std::net::IpAddr;

/// A reply that is not the answer which was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unasked {
    /// The address that was asked.
    asked: IpAddr,
    /// The one from which the reply arrived.
    came: IpAddr,
    /// The request's hop at the device where that was seen.
    hop: Option<u32>,
}

/// Compares request and reply at the device where the reply was sighted last, on the way to the
/// origin: there both are on the same side of every translation. What the origin acknowledged all
/// the same is its answer.
pub(super) fn unasked(journey: &Journey) -> Option<Unasked> {
    let exchange = &journey.exchange;
    let taken = exchange.handshake_arrived || exchange.reply_arrived;
    let last = journey.reply.hops().last().filter(|_| !taken)?;
    let there = Place {
        dir: last.place.dir.other(),
        ..last.place
    };
    let request = journey.request.at(there)?;
    let (asked, came) = (request.tuple()?.dst, last.tuple()?.src);
    (asked != came).then_some(Unasked {
        asked,
        came,
        hop: number_at(journey, there),
    })
}

/// What is told of it: rewritten on its way here, or past the translation that it should have met.
pub(super) fn unasked_reply(journey: &Journey, rewrites: &[Rewrite]) -> Option<Finding> {
    let Unasked { asked, came, hop } = unasked(journey)?;
    let changed = |direction, field, to: IpAddr| {
        let mut all = rewrites.iter();
        all.any(|r| (r.direction, r.field, r.to.addr) == (direction, field, to))
    };
    let (code, why, fix) = if changed(RewriteDirection::Reply, RewriteField::Src, came) {
        (
            Code::ReplyRewrittenWrong,
            "it was rewritten on its way here",
            "look at what rewrites there: `nft list ruleset`, `tc filter show`",
        )
    } else if changed(RewriteDirection::Request, RewriteField::Dst, came) {
        (
            Code::ReplyBypassedConntrack,
            "it went past the translation back",
            "see how replies get here: bridged (sysctl net.bridge.bridge-nf-call-iptables), or by \
             another way than the request",
        )
    } else {
        (
            Code::ReplyBypassedConntrack,
            "on the far side a translation was not taken back, or it has several addresses",
            "see on the far side which way its replies take and which address they leave with",
        )
    };
    Some(Finding {
        text: format!(
            "the reply came from {came}, but {asked} was asked, so nobody takes it for the answer: \
             {why}"
        ),
        fix: Some(fix.into()),
        hop,
        data: json!({ "asked": asked, "came": came }),
        ..finding(code, Severity::Error)
    })
}
