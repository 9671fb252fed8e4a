//! What became of the source address.

use super::{Context, rules};
use crate::attribute::{left_unseen, original, role_word};
use crate::event::{Dir, NetnsId, Tap};
use crate::inventory::{Inventory, Role};
use crate::journey::{Hop, Journey};
use crate::report::{
    Delivery, DeliveryCode, RefusedBy, Rewrite, RewriteAgent, RewriteDirection, RewriteField,
    RewriteHook, SourceCode, Verdict, Where,
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
    let (source, mut text) = if !changes.is_empty() {
        (SourceCode::SourceRewritten, rewritten(&changes, context))
    } else if let Some(last) = journey.request.hops().last() {
        kept(journey, last, delivery, context)
    } else {
        let text = match delivery.code {
            DeliveryCode::Dropped => "the packet was dropped before any tap could see it",
            _ => "only replies were sighted, not the request",
        };
        (SourceCode::SourceUnknown, text.to_owned())
    };
    if journey.request.forked {
        text.push_str("; the packet was copied on the way, and one copy is followed here");
    }
    let on_wire = source_on_wire(journey, &changes);
    Verdict {
        source,
        source_on_wire: on_wire.filter(|_| source != SourceCode::SourceUnknown),
        complete: true,
        text,
    }
}

/// Changes of the request's source address.
pub(crate) fn source_changes(rewrites: &[Rewrite]) -> impl Iterator<Item = &Rewrite> {
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

fn rewritten(changes: &[&Rewrite], context: &Context<'_>) -> String {
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
        let _ = write!(text, " {}", role_word(change.place));
        if let Some(name) = elsewhere(change, context) {
            let _ = write!(text, " ({name})");
        }
        text.push_str(&agent(change));
    }
    text
}

/// The name of a namespace that is neither the node's nor the sender's.
fn elsewhere<'a>(change: &Rewrite, context: &Context<'a>) -> Option<&'a str> {
    let other = matches!(change.place, Where::Gateway | Where::Downstream);
    let netns = change.netns.filter(|_| other)?;
    context.inventory.name(NetnsId(netns))
}

/// By what a change was made, in words.
pub(crate) fn agent(change: &Rewrite) -> String {
    match change.agent {
        RewriteAgent::Netfilter => {
            let rule = change.rule.as_ref().map(rules::name);
            let rule = rule.map_or(String::new(), |name| format!(", {name}"));
            format!(", netfilter{}{rule}", change.hook.map_or("", hook))
        }
        RewriteAgent::TcBpf => {
            let kind = match change.hook {
                Some(RewriteHook::TcIngress) => "a traffic-control program at ingress",
                Some(RewriteHook::TcEgress) => "a traffic-control program at egress",
                Some(RewriteHook::Xdp) => "an XDP program",
                _ => "a program on a device",
            };
            let name = change.program.as_ref();
            let name = name.map(|p| format!(": {} (id {})", p.name, p.id));
            format!(", {kind}{}", name.unwrap_or_default())
        }
        RewriteAgent::Stateless => {
            let rule = change.rule.as_ref().map(rules::name);
            let rule = rule.map_or(String::new(), |name| format!(", {name}"));
            format!(
                ", netfilter{} without conntrack{rule}",
                change.hook.map_or("", hook)
            )
        }
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
    let exits = exits(journey, inventory);
    let by = name(last, inventory);
    let stuck = short_of(last, inventory).filter(|_| delivery.code == DeliveryCode::Dropped);
    if let Some(goal) = stuck {
        let text = format!("the packet was sent by {by} as {source} and dropped before it {goal}");
        return (SourceCode::SourceUnknown, text);
    }
    if !exits.is_empty() {
        let names: Vec<String> = exits.iter().map(|h| name(h, inventory)).collect();
        let copied = match names.len() {
            1 => "",
            _ => " (the packet was copied)",
        };
        let by = names.join(" and ");
        let text = format!("source {source} was kept; left by {by}{copied}");
        return (SourceCode::SourcePreserved, text);
    }
    let here = last
        .tuples()
        .next_back()
        .is_some_and(|t| inventory.owns(last.place.netns, t.dst));
    let answered = journey.exchange.reply_ns.is_some() && delivery.refused_by.is_none();
    if let Some(answer) = left_unseen(journey).filter(|_| !here) {
        let came = match answer.place.dir {
            Dir::Ingress => "came in",
            Dir::Egress => "came from beyond and left",
        };
        let text = format!(
            "the packet came in by {by} as {source} and left unread: its answer {came} by {}",
            name(answer, inventory)
        );
        return (SourceCode::SourceUnknown, text);
    }
    if here && delivery.code != DeliveryCode::Dropped || answered {
        let text = format!("source {source} was kept; it came in by {by} and was delivered here");
        return (SourceCode::SourcePreserved, text);
    }
    let text = format!(
        "the packet came in by {by} as {source} and {}",
        ending(delivery)
    );
    (SourceCode::SourceUnknown, text)
}

/// What became of a packet that was not sighted leaving.
fn ending(delivery: &Delivery) -> &'static str {
    match &delivery.refused_by {
        _ if delivery.code == DeliveryCode::Dropped => "was dropped",
        Some(RefusedBy {
            place: Some(Where::Node),
            ..
        }) => "was refused by the node",
        Some(_) => "was refused",
        None => "was not sighted leaving",
    }
}

/// What a packet that died right behind its last sighting did not come to: programs decide between the
/// two ends of a netkit pair, and between our traffic-control tap on a way out and the wire.
fn short_of(last: &Hop, inventory: &Inventory) -> Option<&'static str> {
    let link = inventory.link(last.place.netns, last.place.ifindex);
    let kind = link.map(|link| link.kind.as_str());
    match last.place.dir {
        Dir::Egress if kind == Some("netkit") => Some("came in"),
        Dir::Egress if last.wire_tap() == Tap::TcEgress => Some("left"),
        _ => None,
    }
}

fn name(hop: &Hop, inventory: &Inventory) -> String {
    inventory
        .link(hop.place.netns, hop.place.ifindex)
        .map_or_else(
            || format!("device {}", hop.place.ifindex),
            |l| l.name.clone(),
        )
}

/// Where the packet left the node; where it never met that, the last namespace that it left. More
/// than one when it was copied (a bridge that floods). Where devices are stacked (VLAN on bond on
/// hardware) only the lowest counts.
fn exits<'a>(journey: &'a Journey, inventory: &Inventory) -> Vec<&'a Hop> {
    let hops = journey.request.hops();
    let on_node = |h: &&Hop| inventory.role(h.place.netns) == Role::Node;
    let Some(last) = hops.iter().rev().find(on_node).or(hops.last()) else {
        return Vec::new();
    };
    if last.place.dir == Dir::Ingress {
        return Vec::new();
    }
    let left: Vec<&Hop> = hops
        .iter()
        .filter(|h| h.place.netns == last.place.netns && h.place.dir == Dir::Egress)
        .collect();
    let is_below = |low: &Hop, high: &Hop| {
        let link = |h: &Hop| inventory.link(h.place.netns, h.place.ifindex);
        link(high).is_none_or(|l| l.lower == Some(low.place.ifindex))
            || link(low).is_none_or(|l| l.master == Some(high.place.ifindex))
    };
    let wrapped = left.iter().any(|h| h.outer.is_some());
    let on_top = |h: &&&Hop| {
        if wrapped && h.outer.is_none() {
            return true; // a tunnel's own device: what it hands on leaves by another one
        }
        let mut others = left.iter().filter(|o| o.place != h.place);
        others.any(|o| is_below(o, h))
    };
    left.iter().filter(|h| !on_top(h)).copied().collect()
}
