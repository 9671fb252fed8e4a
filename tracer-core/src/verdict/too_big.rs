//! Packets that are too large for a place beyond: held up there, or made smaller because somebody said so.

use super::findings::finding;
use super::trouble::{device, space};
use crate::event::{Dir, NetnsId};
use crate::inventory::Inventory;
use crate::journey::{Direction, Hop, IcmpAnswer, Journey, Place};
use crate::packet::Proto;
use crate::report::{Code, Delivery, DeliveryCode, Finding, Severity};
use serde_json::json;
use std::net::IpAddr;

/// Adds what is known of a flow's sizes as a whole, which says more than what one dropped packet does.
pub(super) fn tell(
    findings: &mut Vec<Finding>,
    journey: &Journey,
    delivery: &Delivery,
    inventory: &Inventory,
) {
    if let Some(held_up) = stuck(journey, delivery, inventory) {
        findings.retain(|f| f.code != Code::MtuSuspected);
        findings.push(held_up);
    } else if findings.iter().all(|f| f.code != Code::MtuSuspected) {
        findings.extend(told(journey, inventory));
    }
}

/// Small segments went through, and a large one was sent again without success.
fn stuck(journey: &Journey, delivery: &Delivery, inventory: &Inventory) -> Option<Finding> {
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
    let Some(message) = Message::of(journey) else {
        return ("no ICMP error said that it was too big".into(), false);
    };
    let text = format!(
        "{} said that it was too big, and that message {}",
        message.from,
        message.how_far(inventory)
    );
    (text, true)
}

/// Nothing is held up: a packet was too big, its sender was told so, and sends smaller ones.
fn told(journey: &Journey, inventory: &Inventory) -> Option<Finding> {
    let message = Message::of(journey)?;
    let severity = match message.fate {
        Fate::Arrived => Severity::Info,
        Fate::Died(_) | Fate::LastSeen(_) | Fate::Unseen => Severity::Warning,
    };
    Some(Finding {
        text: format!(
            "{} said that a packet was too big for the next link; that message {}",
            message.from,
            message.how_far(inventory)
        ),
        data: json!({
            "from": message.from,
            "arrived": message.fate == Fate::Arrived,
            "translated": message.back.map(|(seen_as, sender)| json!({"from": seen_as, "to": sender})),
        }),
        ..finding(Code::PathMtuTold, severity)
    })
}

/// An ICMP error that says so, about a request.
struct Message {
    from: IpAddr,
    fate: Fate,
    /// To whom it was sent, and to whom it was translated back.
    back: Option<(IpAddr, IpAddr)>,
}

/// How far it came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Died(NetnsId),
    Arrived,
    LastSeen(Place),
    Unseen,
}

impl Message {
    fn of(journey: &Journey) -> Option<Self> {
        let answer = journey.answer.filter(IcmpAnswer::is_too_big)?;
        let origin = journey.request.hops().first().map(|h| h.place.netns);
        let hops = journey.error.hops();
        let arrived = hops
            .iter()
            .any(|h| Some(h.place.netns) == origin && h.place.dir == Dir::Ingress);
        let died = journey.losses.iter().find(|l| l.first.quoted.is_some());
        let fate = match (died.and_then(|loss| loss.netns), hops.last()) {
            (Some(netns), _) => Fate::Died(netns),
            (None, _) if arrived => Fate::Arrived,
            (None, Some(last)) => Fate::LastSeen(last.place),
            (None, None) => Fate::Unseen,
        };
        let to = |hop: Option<&Hop>| hop.and_then(Hop::tuple).map(|t| t.dst);
        let ends = to(hops.first()).zip(to(hops.last()));
        Some(Self {
            from: answer.from,
            fate,
            back: ends.filter(|(first, last)| first != last),
        })
    }

    /// As the end of a sentence about it.
    fn how_far(&self, inventory: &Inventory) -> String {
        let fate = match self.fate {
            Fate::Died(netns) => format!("was dropped in {}", space(netns, inventory)),
            Fate::Arrived => "reached the sender".to_owned(),
            Fate::LastSeen(place) => format!(
                "came no further than {} of {}",
                device(place, inventory),
                space(place.netns, inventory)
            ),
            Fate::Unseen => "was seen nowhere".to_owned(),
        };
        match self.back {
            Some((seen_as, sender)) => {
                format!("was translated back from {seen_as} to {sender} and {fate}")
            }
            None => fate,
        }
    }
}
