//! What goes wrong without a packet that is dropped here: it leaves untranslated, or is too large for
//! a place beyond.

use super::Context;
use super::findings::finding;
use crate::attribute::number_at;
use crate::event::{Dir, NetnsId, Tcp};
use crate::explain::Explanation;
use crate::inventory::Inventory;
use crate::journey::{Direction, Hop, IcmpAnswer, Journey, Leak, Place};
use crate::packet::Proto;
use crate::report::{Code, Delivery, DeliveryCode, Finding, Severity};
use serde_json::json;

pub(super) fn findings(
    journey: &Journey,
    delivery: &Delivery,
    context: &Context<'_>,
) -> Vec<Finding> {
    let inventory = context.inventory;
    let leak = journey.leak.as_ref();
    leak.map(|leak| untranslated(leak, journey, inventory))
        .into_iter()
        .chain(too_large(journey, delivery, inventory))
        .collect()
}

fn device(place: Place, inventory: &Inventory) -> String {
    let link = inventory.link(place.netns, place.ifindex);
    link.map_or_else(|| format!("device {}", place.ifindex), |l| l.name.clone())
}

fn space(netns: NetnsId, inventory: &Inventory) -> String {
    let name = inventory.name(netns).map(str::to_owned);
    name.unwrap_or_else(|| format!("netns {}", netns.0))
}

/// Conntrack had no entry for it, so its translation was not asked for.
fn untranslated(leak: &Leak, journey: &Journey, inventory: &Inventory) -> Finding {
    let what = match leak.flags {
        Some(flags) if flags & Tcp::RST != 0 => "a reset (RST)",
        Some(flags) if flags & Tcp::FIN != 0 => "the end of the connection (FIN)",
        _ => "a packet",
    };
    Finding {
        text: format!(
            "{what} left by {} as {}, though the flow is translated there: conntrack of {} had no \
             connection for it any more (INVALID), and NAT rules are not asked about such packets",
            device(leak.place, inventory),
            leak.tuple.source(),
            space(leak.place.netns, inventory),
        ),
        fix: Some(
            "drop what is INVALID on its way out (`-m conntrack --ctstate INVALID -j DROP`, `ct \
             state invalid drop`), or keep entries for longer than the application keeps silent"
                .into(),
        ),
        hop: number_at(journey, leak.place),
        data: json!({"source": leak.tuple.src}),
        ..finding(Code::InvalidNotTranslated, Severity::Warning)
    }
}

/// Small segments went through, and a large one was sent again without success.
fn too_large(journey: &Journey, delivery: &Delivery, inventory: &Inventory) -> Option<Finding> {
    let stuck = matches!(
        delivery.code,
        DeliveryCode::HandshakeOnly | DeliveryCode::ReplyLost | DeliveryCode::InProgress
    );
    let exchange = &journey.exchange;
    if journey.opened.proto != Proto::TCP || !stuck || !exchange.handshake_arrived {
        return None;
    }
    let dir = [Direction::Request, Direction::Reply]
        .into_iter()
        .find(|dir| exchange.again_len[*dir as usize] >= LARGE)?;
    let size = exchange.again_len[dir as usize];
    let mtus = mtus(journey.way(dir).hops(), inventory);
    let (small, large) = (
        mtus.iter().min_by_key(|(_, mtu)| *mtu),
        mtus.iter().max_by_key(|(_, mtu)| *mtu),
    );
    let known = match (small, large) {
        (Some((low, a)), Some((high, b))) if a < b => format!("{high} has MTU {b}, {low} {a}"),
        (Some((one, a)), _) => format!("{one} has MTU {a}, and what lies beyond may have less"),
        _ => "no MTU on its way is known".into(),
    };
    let (heard, came) = answer(journey, inventory);
    Some(Finding {
        text: format!(
            "the handshake went through, and a packet of {size} bytes was sent again and never \
             acknowledged: {known}; {heard}"
        ),
        fix: Some(
            "let ICMP \"fragmentation needed\" (IPv6: \"packet too big\") through to the sender, or \
             lower the MTU of its device, or clamp TCP's MSS on the way (`TCPMSS --clamp-mss-to-pmtu`)"
                .into(),
        ),
        hop: delivery.last_seen,
        data: json!({
            "size": size,
            "mtu_smallest": small.map(|(_, mtu)| mtu),
            "mtu_largest": large.map(|(_, mtu)| mtu),
            "too_big_seen": came,
        }),
        ..finding(Code::MtuSuspected, Severity::Warning)
    })
}

/// Smaller segments are not held up by any MTU: IPv6 asks for 1280 everywhere.
const LARGE: u32 = 1000;

/// The devices that packets met, with what they take.
fn mtus(hops: &[Hop], inventory: &Inventory) -> Vec<(String, u32)> {
    let known = hops.iter().filter_map(|hop| {
        let link = inventory.link(hop.place.netns, hop.place.ifindex)?;
        (link.mtu > 0 && !link.loopback).then(|| (link.name.clone(), link.mtu))
    });
    known.collect()
}

/// Whether an ICMP error said that a packet was too big, and how far that came.
fn answer(journey: &Journey, inventory: &Inventory) -> (String, bool) {
    let Some(answer) = journey.answer.filter(IcmpAnswer::is_too_big) else {
        return ("no ICMP error said that it was too big".into(), false);
    };
    let origin = journey.request.hops().first().map(|h| h.place.netns);
    let arrived = journey
        .error
        .hops()
        .iter()
        .any(|h| Some(h.place.netns) == origin && h.place.dir == Dir::Ingress);
    let died = journey
        .losses
        .iter()
        .find(|loss| loss.first.quoted.is_some())
        .and_then(|loss| loss.netns);
    let how_far = match journey.error.hops().last() {
        _ if died.is_some() => format!(
            "and that message was dropped in {}",
            died.map(|netns| space(netns, inventory))
                .unwrap_or_default()
        ),
        _ if arrived => "and that message reached the sender".to_owned(),
        Some(last) => format!(
            "and that message came no further than {} of {}",
            device(last.place, inventory),
            space(last.place.netns, inventory)
        ),
        None => "and that message was seen nowhere".to_owned(),
    };
    let text = format!("{} said that it was too big, {how_far}", answer.from);
    (text, true)
}

/// A gateway that was replaced, with forwarding switched off in the new one.
pub(super) fn forwarding_lost(
    netns: NetnsId,
    explained: &Explanation,
    inventory: &Inventory,
) -> Option<Finding> {
    if explained.code != Some(Code::ForwardingDisabled) {
        return None;
    }
    let now = inventory.namespaces.get(&netns)?;
    let others = inventory.namespaces.iter().filter(|(id, _)| **id != netns);
    let (_, before) = others
        .chain(inventory.replaced.iter().map(|(id, f)| (id, &f.namespace)))
        .find(|(_, other)| other.forwards == Some(true) && other.is_predecessor_of(now))?;
    Some(Finding {
        text: format!(
            "{} has taken the place of {}, in which forwarding was on; in the new one it is off",
            space(netns, inventory),
            before.name.as_deref().unwrap_or("another namespace"),
        ),
        fix: Some(
            "forwarding was set in the old namespace only and went with it: let the pod's own \
             definition set it (see forwarding-disabled)"
                .into(),
        ),
        data: json!({"before": true, "now": false}),
        ..finding(Code::ForwardingLost, Severity::Error)
    })
}
