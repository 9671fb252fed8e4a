//! Whether the reply came from where it was asked for.

use super::findings::finding;
use crate::attribute::{number_at, original};
use crate::journey::Journey;
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
}

/// Compares request and reply at the device nearest to the origin, where both are as its sockets
/// know them. What the origin acknowledged all the same is its answer.
pub(super) fn unasked(journey: &Journey) -> Option<Unasked> {
    let exchange = &journey.exchange;
    let taken = exchange.handshake_arrived || exchange.reply_arrived;
    let first = journey.request.hops().first()?;
    let last = journey.reply.hops().last().filter(|_| !taken)?;
    if number_at(journey, last.place) != Some(1) || last.place.dir == first.place.dir {
        return None;
    }
    let (asked, came) = (first.tuple()?.dst, last.tuple()?.src);
    (asked != came).then_some(Unasked { asked, came })
}

/// What is told of it: past a translation that was made here, or by whatever changed it.
pub(super) fn unasked_reply(journey: &Journey, rewrites: &[Rewrite]) -> Option<Finding> {
    let Unasked { asked, came } = unasked(journey)?;
    let translated = |r: &&Rewrite| {
        r.direction == RewriteDirection::Request
            && r.field == RewriteField::Dst
            && r.to.addr == came
    };
    let told = match rewrites.iter().find(translated) {
        Some(_) => Finding {
            text: format!(
                "the reply arrived from {came}, not from {asked} that was asked: it went past the \
                 translation back, and the sender takes it for nobody's answer"
            ),
            fix: Some(
                "see how replies get here: bridged (net.bridge.bridge-nf-call-iptables) or by \
                 another way than the request"
                    .into(),
            ),
            ..finding(Code::ReplyBypassedConntrack, Severity::Error)
        },
        None => Finding {
            text: format!(
                "the reply arrived from {came}, not from {asked} that was asked: something on its \
                 way rewrote it, and the sender takes it for nobody's answer"
            ),
            fix: Some("look at what rewrites there: `nft list ruleset`, `tc filter show`".into()),
            ..finding(Code::ReplyRewrittenWrong, Severity::Error)
        },
    };
    Some(Finding {
        hop: Some(1),
        data: json!({ "asked": asked, "came": came, "destination": original(journey).dst }),
        ..told
    })
}
