//! Whether the reply came from where it was asked for.

use super::findings::finding;
use crate::attribute::number_at;
use crate::journey::{Direction, Journey, Place};
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
    /// Conntrack took the reply for the beginning of a connection, and translated its source.
    begun: bool,
}

/// Compares request and reply at the device where the reply was sighted last, on the way to the
/// origin: there both are on the same side of every translation. What the origin acknowledged all
/// the same is its answer.
pub(super) fn unasked(journey: &Journey) -> Option<Unasked> {
    from_elsewhere(journey).or_else(|| begun_by_reply(journey))
}

fn from_elsewhere(journey: &Journey) -> Option<Unasked> {
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
        begun: false,
    })
}

/// The handshake passed, but what followed of the reply opened an entry of its own (conntrack had not seen the
/// request), by which a rule gave it another source. The origin never acknowledged any of that.
fn begun_by_reply(journey: &Journey) -> Option<Unasked> {
    let exchange = &journey.exchange;
    let sent = exchange.data_ns[Direction::Reply as usize].is_some();
    if !sent || exchange.reply_arrived {
        return None;
    }
    let hops = journey.reply.hops();
    journey.conntracks.iter().find_map(|(netns, ct)| {
        let (asked, came) = (ct.orig.src, ct.reply.dst);
        let hop = hops
            .iter()
            .find(|hop| hop.place.netns == *netns && hop.tuples().any(|tuple| tuple == ct.orig))?;
        (asked != came).then_some(Unasked {
            asked,
            came,
            hop: number_at(journey, hop.place),
            begun: true,
        })
    })
}

/// What is told of it: rewritten on its way here, or past the translation that it should have met.
pub(super) fn unasked_reply(journey: &Journey, rewrites: &[Rewrite]) -> Option<Finding> {
    let Unasked {
        asked,
        came,
        hop,
        begun,
    } = unasked(journey)?;
    let changed = |direction, field, to: IpAddr| {
        let mut all = rewrites.iter();
        all.any(|r| (r.direction, r.field, r.to.addr) == (direction, field, to))
    };
    let (code, why, fix) = if begun {
        (
            Code::ReplyRewrittenWrong,
            "the request went past netfilter here, so conntrack took the reply for the beginning of a \
             connection, and a rule gave it another source",
            "let both directions go through netfilter or both past it, and let the rule match only sources \
             that are to be translated (`-s` with the pods' range)",
        )
    } else if changed(RewriteDirection::Reply, RewriteField::Src, came) {
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
