//! Flows inside flows: what carries one on a part of its way, as far as that was seen or is proven, and what
//! becomes of the packets around it. That is never what became of the flow's own addresses.

use super::Context;
use super::findings::finding;
use super::origin::Origin;
use super::rules;
use super::view::conntrack;
use crate::attribute::outer_rule;
use crate::event::{Dir, Outer};
use crate::inventory::{Holder, Inventory, Link, Proof, Tunnel};
use crate::journey::{Hop, Journey};
use crate::packet::{Proto, Tuple};
use crate::report::{Code, Finding, OriginKind, Severity, TupleView};
use serde_json::json;
use std::fmt::Write as _;

/// What carries the packet at a hop, where that was seen or is proven.
pub(super) fn outer(hop: &Hop, inventory: &Inventory) -> Option<Tuple> {
    if let Some(outer) = &hop.outer {
        return Some(outer.tuple);
    }
    let (tuple, _) = tunnel(hop, inventory)?.outer(hop.place.dir).ok()?;
    Some(tuple)
}

pub(super) fn findings(journey: &Journey, context: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut last: Option<Tuple> = None;
    for (n, hop) in (1..).zip(journey.request.hops()) {
        match hop.outer.as_deref() {
            Some(outer) => {
                if last != Some(outer.tuple) {
                    found.push(wrapped(n, hop, outer));
                }
                last = Some(outer.tuple);
                found.extend(rewritten(n, hop, outer, journey, context));
            }
            None => found.extend(spoken(n, hop, journey, context.inventory)),
        }
    }
    found.extend(overlays(journey).or_else(|| carries(journey, context.inventory)));
    found
}

/// Inside another packet from this hop on: both were seen in one buffer.
fn wrapped(n: u32, hop: &Hop, outer: &Outer) -> Finding {
    let mark = hop
        .mark
        .filter(|mark| *mark != 0 && hop.place.dir == Dir::Egress);
    let mut text = format!(
        "at hop {n} it is inside {} {}",
        outer.wrap,
        way(outer.tuple)
    );
    if let Some(mark) = mark {
        let _ = write!(
            text,
            "; the mark {mark:#x} is on that packet too, and rules that match it act on that too"
        );
    }
    Finding {
        text,
        hop: Some(n),
        data: json!({
            "kind": outer.wrap.to_string(),
            "proto": outer.tuple.proto.to_string(),
            "outer": TupleView::from(outer.tuple),
            "evidence": "headers",
            "mark": mark,
            "ct": outer.conntrack.as_ref().map(conntrack),
            "process": null,
            "unproven": null,
        }),
        ..finding(Code::CarriedInside, Severity::Info)
    }
}

/// The packet around it was translated where it was made.
fn rewritten(
    n: u32,
    hop: &Hop,
    outer: &Outer,
    journey: &Journey,
    context: &Context<'_>,
) -> Option<Finding> {
    let before = outer.before().filter(|_| hop.place.dir == Dir::Egress)?;
    let rule = outer_rule(journey, hop, context.inventory, context.rules);
    let by = rule.as_ref().map(rules::name);
    let by = by.map_or(String::new(), |name| format!(", by {name}"));
    let inside = hop.tuple().unwrap_or(journey.opened);
    Some(Finding {
        text: format!(
            "the packet around it was rewritten too: {} {} became {}{by}; the flow's own source is not \
             changed by that and stays {} inside",
            outer.wrap,
            end(before.source()),
            end(outer.tuple.source()),
            inside.src
        ),
        fix: Some(
            "let no rule that translates match the tunnel's own packets: clear the mark before the packet is \
             wrapped, or exempt the tunnel's port"
                .into(),
        ),
        rule,
        hop: Some(n),
        data: json!({"from": TupleView::from(before), "to": TupleView::from(outer.tuple)}),
        ..finding(Code::OuterRewritten, Severity::Warning)
    })
}

/// Through the device of a tunnel that a process, or the kernel, speaks encrypted: nobody can read the one
/// packet in the other.
fn spoken(n: u32, hop: &Hop, journey: &Journey, inventory: &Inventory) -> Option<Finding> {
    let link = inventory.link(hop.place.netns, hop.place.ifindex)?;
    if !matches!(link.kind.as_str(), "tun" | "wireguard") {
        return None;
    }
    let tunnel = tunnel(hop, inventory);
    let (who, outer) = match tunnel {
        Some(tunnel) => (holder(tunnel), tunnel.outer(hop.place.dir)),
        None if link.kind == "wireguard" => (
            "the kernel's WireGuard".to_owned(),
            Err("it is encrypted, and which peer it belongs to is not asked".to_owned()),
        ),
        None => return None,
    };
    let mut text = match hop.place.dir {
        Dir::Ingress => format!("it came out of {}, a tunnel of {who}", link.name),
        Dir::Egress => format!("it went into {}, a tunnel of {who}", link.name),
    };
    match &outer {
        Ok((tuple, proof)) => {
            let _ = write!(
                text,
                "; what carries it is {} {}, by {}",
                tuple.proto,
                way(*tuple),
                match proof {
                    Proof::Socket => "its only connected socket",
                    Proof::OnlyPeer => "the only peer that conntrack knows of its socket",
                }
            );
        }
        Err(why) => {
            let _ = write!(text, "; which packets carry it is not proven: {why}");
        }
    }
    if n == 1 && Origin::of(journey, inventory).kind == OriginKind::Gateway {
        text.push_str(
            "; externalTrafficPolicy of a Service concerns those packets, and does not apply to this flow",
        );
    }
    Some(Finding {
        text,
        hop: Some(n),
        data: json!({
            "kind": link.kind,
            "proto": outer.as_ref().ok().map(|(tuple, _)| tuple.proto.to_string()),
            "outer": outer.as_ref().ok().map(|(tuple, _)| TupleView::from(*tuple)),
            "evidence": outer.as_ref().ok().map(|(_, proof)| proof.word()),
            "mark": null,
            "ct": null,
            "process": tunnel.and_then(one).map(|one| json!({"pid": one.pid, "comm": one.comm})),
            "unproven": outer.as_ref().err(),
        }),
        ..finding(Code::CarriedInside, Severity::Info)
    })
}

/// Whether the packets of a flow carry others in the clear, by protocol and port (see the kernel half's
/// `unwrap`): then what answers them comes in flows of its own.
pub(super) fn is_overlay(tuple: Tuple) -> bool {
    match tuple.proto {
        Proto::UDP => matches!(tuple.dport, 4789 | 8472 | 6081),
        Proto(number) => matches!(number, 4 | 41 | 47),
    }
}

fn overlays(journey: &Journey) -> Option<Finding> {
    is_overlay(journey.opened).then(|| Finding {
        text: "this is an overlay's own flow, by its protocol and port: others are in it, which are not told here, \
               and what answers them comes in a flow of its own"
            .into(),
        fix: Some("trace the destinations that the flows inside have".into()),
        data: json!({"device": null, "process": null}),
        ..finding(Code::CarriesFlows, Severity::Info)
    })
}

/// A flow that ends in a process that has a tunnel: what it carries is told by other destinations.
fn carries(journey: &Journey, inventory: &Inventory) -> Option<Finding> {
    let last = journey.request.hops().last()?;
    let tuple = last.tuples().next_back()?;
    let netns = last.place.netns;
    let ends = last.place.dir == Dir::Ingress && inventory.owns(netns, tuple.dst);
    let facts = inventory.facts.get(&netns).filter(|_| ends)?;
    let (index, tunnel) = facts.tunnels.iter().find(|(_, t)| t.takes(tuple))?;
    let device = inventory.link(netns, *index).map_or("a tunnel", name);
    Some(Finding {
        text: format!(
            "this is a tunnel's own flow: {} takes other flows out of it and puts others into it, which begin and \
             end at {device}; they are not told here",
            holder(tunnel)
        ),
        fix: Some("trace the destinations that the flows inside have".into()),
        data: json!({
            "device": device,
            "process": one(tunnel).map(|one| json!({"pid": one.pid, "comm": one.comm})),
        }),
        ..finding(Code::CarriesFlows, Severity::Info)
    })
}

fn tunnel<'a>(hop: &Hop, inventory: &'a Inventory) -> Option<&'a Tunnel> {
    let facts = inventory.facts.get(&hop.place.netns)?;
    facts.tunnels.get(&hop.place.ifindex)
}

fn one(tunnel: &Tunnel) -> Option<&Holder> {
    match tunnel.processes.as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

fn holder(tunnel: &Tunnel) -> String {
    match one(tunnel) {
        Some(one) => one.comm.clone(),
        None => "a process".to_owned(),
    }
}

fn name(link: &Link) -> &str {
    &link.name
}

fn way(tuple: Tuple) -> String {
    format!("{} → {}", end(tuple.source()), end(tuple.destination()))
}

/// An address, with its port where the protocol has ports.
fn end(socket: std::net::SocketAddr) -> String {
    match socket.port() {
        0 => socket.ip().to_string(),
        _ => socket.to_string(),
    }
}
