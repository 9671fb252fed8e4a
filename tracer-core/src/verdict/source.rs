//! What became of the source address.

use super::Context;
use crate::attribute::{original, role_word};
use crate::event::Dir;
use crate::inventory::Role;
use crate::journey::{Hop, Journey};
use crate::report::{
    Delivery, Rewrite, RewriteAgent, RewriteDirection, RewriteField, RewriteHook, SourceCode,
    Verdict,
};
use std::fmt::Write as _;
use std::net::IpAddr;

pub(super) fn verdict(
    journey: &Journey,
    rewrites: &[Rewrite],
    delivery: &Delivery,
    context: &Context<'_>,
) -> Verdict {
    let changes: Vec<&Rewrite> = source_changes(rewrites).collect();
    let on_wire = source_on_wire(journey, &changes);
    let (source, text) = if !changes.is_empty() {
        (SourceCode::SourceRewritten, rewritten(&changes))
    } else if let Some(last) = journey.request.hops().last() {
        kept(journey, last, delivery, context)
    } else {
        (
            SourceCode::SourceUnknown,
            "only replies were sighted, not the request".to_owned(),
        )
    };
    let mut text = text;
    if journey.request.forked {
        text.push_str("; the packet was copied on the way, and one copy is followed here");
    }
    Verdict {
        source,
        source_on_wire: on_wire,
        complete: source != SourceCode::SourceUnknown,
        text,
    }
}

/// Changes of the request's source address.
pub(super) fn source_changes(rewrites: &[Rewrite]) -> impl Iterator<Item = &Rewrite> {
    rewrites
        .iter()
        .filter(|r| r.direction == RewriteDirection::Request && r.field == RewriteField::Src)
}

/// The source at the request's last sighting; where it was delivered here, as it was delivered.
fn source_on_wire(journey: &Journey, changes: &[&Rewrite]) -> Option<IpAddr> {
    let last = journey.request.hops().last()?;
    let delivered = changes.last().filter(|c| c.between[1].is_none());
    delivered
        .map(|c| c.to.addr)
        .or_else(|| last.tuples().next_back().map(|t| t.src))
}

fn rewritten(changes: &[&Rewrite]) -> String {
    let mut text = String::new();
    for (i, change) in changes.iter().enumerate() {
        let _ = if i == 0 {
            write!(
                text,
                "source {} became {}",
                change.from.addr, change.to.addr
            )
        } else {
            write!(text, ", then {}", change.to.addr)
        };
        let _ = write!(text, " {}{}", role_word(change.place), agent(change));
    }
    text
}

fn agent(change: &Rewrite) -> String {
    match change.agent {
        RewriteAgent::Netfilter => format!(", netfilter{}", change.hook.map_or("", hook)),
        RewriteAgent::TcBpf => match change.hook {
            Some(RewriteHook::TcIngress) => ", a traffic-control program at ingress".into(),
            _ => ", a traffic-control program at egress".into(),
        },
        _ => match change.between {
            [Some(a), Some(b)] => format!(", between hop {a} and hop {b}"),
            _ => String::new(),
        },
    }
}

fn hook(hook: RewriteHook) -> &'static str {
    match hook {
        RewriteHook::Prerouting => " PREROUTING",
        RewriteHook::Input => " INPUT",
        RewriteHook::Forward => " FORWARD",
        RewriteHook::Output => " OUTPUT",
        RewriteHook::Postrouting => " POSTROUTING",
        RewriteHook::TcIngress | RewriteHook::TcEgress | RewriteHook::Xdp => "",
    }
}

/// Nothing changed the source as far as it was sighted: did it get anywhere?
fn kept(
    journey: &Journey,
    last: &Hop,
    delivery: &Delivery,
    context: &Context<'_>,
) -> (SourceCode, String) {
    let inventory = context.inventory;
    let source = original(journey).src;
    let name = |hop: &Hop| {
        inventory
            .link(hop.place.netns, hop.place.ifindex)
            .map_or_else(
                || format!("device {}", hop.place.ifindex),
                |l| l.name.clone(),
            )
    };
    let local = |h: &&Hop| inventory.role(h.place.netns) == Role::Node;
    let exit = journey.request.hops().iter().rev().find(local);
    let exit = exit.filter(|h| h.place.dir == Dir::Egress);
    if let Some(exit) = exit.or(Some(last).filter(|h| h.place.dir == Dir::Egress)) {
        let text = format!("source {source} was kept; left by {}", name(exit));
        return (SourceCode::SourcePreserved, text);
    }
    let here = last
        .tuples()
        .next_back()
        .is_some_and(|t| inventory.owns(last.place.netns, t.dst));
    if here || journey.exchange.reply_ns.is_some() || delivery.refused_by.is_some() {
        let text = format!("source {source} was kept; delivered from {}", name(last));
        return (SourceCode::SourcePreserved, text);
    }
    let text = format!(
        "the packet was not sighted leaving: it came in by {} as {source}",
        name(last)
    );
    (SourceCode::SourceUnknown, text)
}
