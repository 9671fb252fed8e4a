//! What the other team needs where nothing came back: the source that it sees, and the two ways out of
//! it side by side, each with what it costs.

use super::Context;
use super::carried::is_overlay;
use super::findings::finding;
use crate::attribute::original;
use crate::event::Dir;
use crate::inventory::Role;
use crate::journey::Journey;
use crate::packet::Proto;
use crate::report::{Code, Delivery, DeliveryCode, Finding, Severity, SourceCode, Verdict};
use serde_json::{Value, json};
use std::net::IpAddr;

const KEEP_COST: &str = "every sender keeps its own address there; each range needs a route back, in \
tunnels and firewalls on the way too (another node's pods may have another range)";
const MASQUERADE_COST: &str = "only the nodes' addresses need a way back; the far side sees each pod as its \
node: allow-lists, logs and policies there that name pods no longer work";

/// The request left with its own source and nothing came back.
pub(super) fn peer_route(
    journey: &Journey,
    delivery: &Delivery,
    verdict: &Verdict,
    context: &Context<'_>,
) -> Option<Finding> {
    let unanswered =
        delivery.code == DeliveryCode::NoReply && verdict.source == SourceCode::SourcePreserved;
    let source = verdict.source_on_wire.filter(|_| unanswered)?;
    if is_overlay(journey.opened) {
        return None;
    }
    let to = original(journey).dst;
    let choices = choices(journey, source, context);
    let mut text = format!(
        "the request left here as {source} and nothing came back: {to} may have no route to \
         {source}, or it was lost or dropped on the way"
    );
    let proto = journey.opened.proto;
    if proto != Proto::TCP && !proto.is_icmp() {
        text.push_str("; it may have taken effect there all the same");
    }
    Some(Finding {
        text,
        fix: Some(format!(
            "on the far side, look for a route to {source} (`ip route get {source}`) and capture \
             there whether the request arrives, and from which address it is answered"
        )),
        hop: delivery.last_seen,
        data: json!({"source": source, "destination": to, "choices": choices}),
        ..finding(Code::PeerRouteSuspected, Severity::Warning)
    })
}

/// Keep the source and have its range routed back; or masquerade, where it left by the node.
fn choices(journey: &Journey, source: IpAddr, context: &Context<'_>) -> Vec<Value> {
    let inventory = context.inventory;
    let hops = journey.request.hops();
    let begun = hops.first().map(|hop| hop.place.netns);
    if inventory.node_owns(source) {
        return vec![json!({
            "choice": "route-back", "addresses": [source.to_string()],
            "known_by": "it is the node's own address",
            "cost": "the far side needs a way back to the nodes' addresses",
        })];
    }
    let range = inventory.pod_range(source, begun);
    let keep = json!({
        "choice": "route-back", "addresses": [range.net.to_string()],
        "known_by": range.known.to_string(), "cost": KEEP_COST,
    });
    let exit = hops
        .iter()
        .rfind(|hop| hop.place.dir == Dir::Egress && inventory.role(hop.place.netns) == Role::Node);
    let masquerade = exit.map(|hop| {
        let place = hop.place;
        let all = inventory.addresses_of(place.netns, place.ifindex, source);
        let device = inventory.link(place.netns, place.ifindex);
        let device = device.map_or_else(String::new, |link| link.name.clone());
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        json!({
            "choice": "masquerade", "addresses": all,
            "known_by": format!("what {device} of the node has"), "cost": MASQUERADE_COST,
        })
    });
    let masquerade = masquerade.filter(|choice| choice["addresses"] != json!([]));
    [keep].into_iter().chain(masquerade).collect()
}
