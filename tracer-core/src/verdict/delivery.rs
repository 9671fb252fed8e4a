//! Whether the exchange worked.

use super::drops::Told;
use super::reply;
use crate::attribute::number_at;
use crate::event::Dir;
use crate::inventory::{Inventory, Role};
use crate::journey::{Closed, Direction, Exchange, Hop, IcmpAnswer, Journey, Loss};
use crate::packet::Proto;
use crate::report::{Delivery, DeliveryCode, End, RefusedBy, Where};
use std::net::IpAddr;

/// An opener without an answer is not called lost before this time, nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;

pub(super) fn delivery(closed: &Closed, drops: &[Told<'_>], inventory: &Inventory) -> Delivery {
    let journey = &closed.journey;
    let refusal = refusal(journey, inventory);
    let lost = reply_lost(&journey.exchange) || reply::unasked(journey).is_some();
    let code = match &refusal {
        Some(by) if told_of_death(journey, by, drops, inventory) => DeliveryCode::Dropped,
        Some(_) => DeliveryCode::Refused,
        None if lost || reply_died(journey, drops) => DeliveryCode::ReplyLost,
        None if request_died(journey, drops) => DeliveryCode::Dropped,
        None => code(closed),
    };
    Delivery {
        code,
        last_seen: u32::try_from(journey.request.hops().len())
            .ok()
            .filter(|n| *n > 0),
        reply_last_seen: reply_last_seen(journey),
        refused_by: refusal,
    }
}

fn code(closed: &Closed) -> DeliveryCode {
    let journey = &closed.journey;
    let exchange = &journey.exchange;
    let tcp = journey.opened.proto == Proto::TCP;
    match (exchange.reply_ns, tcp) {
        (None, _) if closed.end == End::TraceEnded && !overdue(closed) => DeliveryCode::InProgress,
        (None, _) => DeliveryCode::NoReply,
        (Some(_), false) => DeliveryCode::Completed,
        (Some(_), true) if answered(exchange) => DeliveryCode::Completed,
        (Some(_), true) if closed.end == End::TraceEnded => DeliveryCode::InProgress,
        (Some(_), true) => DeliveryCode::HandshakeOnly,
    }
}

/// The application spoke back: after a request of its own accord or to one, and nothing says
/// that it did not arrive.
fn answered(exchange: &Exchange) -> bool {
    let [request, reply] = exchange.data_ns;
    reply.is_some() && (request.is_some() || exchange.reply_arrived || exchange.fin_ns[0].is_some())
}

/// Nothing came back, and it was asked long enough ago.
fn overdue(closed: &Closed) -> bool {
    closed.journey.exchange.syn_again_ns.is_some()
        || closed.at_ns.saturating_sub(closed.journey.first_ns) >= PATIENCE_NS
}

/// Positive proof only: the origin sent again what had been answered, and never acknowledged the
/// answer. What the taps did not see proves nothing.
fn reply_lost(exchange: &Exchange) -> bool {
    let after = |again: Option<u64>, answer: Option<u64>| {
        again
            .zip(answer)
            .is_some_and(|(again, answer)| again > answer)
    };
    let syn_ack_lost = exchange.syn_ack.is_some()
        && after(exchange.syn_again_ns, exchange.reply_ns)
        && !exchange.handshake_arrived;
    let data_lost = after(
        exchange.data_again_ns,
        exchange.data_ns[Direction::Reply as usize],
    ) && !exchange.reply_arrived;
    syn_ack_lost || data_lost
}

/// The namespace that had no way for the request only told its sender so: that is a death here, and
/// not somebody's refusal.
fn told_of_death(
    journey: &Journey,
    by: &RefusedBy,
    drops: &[Told<'_>],
    inventory: &Inventory,
) -> bool {
    let unroutable = |told: &&Told<'_>| {
        let own = told
            .loss
            .netns
            .is_some_and(|netns| inventory.owns(netns, by.addr));
        own && told.is_unroutable() && told.loss.direction == Direction::Request
    };
    journey.answer.is_some() && drops.iter().any(|told| unroutable(&told))
}

/// The request got no answer, and the last that is known of it is its death here.
fn request_died(journey: &Journey, drops: &[Told<'_>]) -> bool {
    let last = journey.request.hops().last().map_or(0, |h| h.time_ns);
    let ended_here = deaths(drops, Direction::Request).any(|loss| loss.last_ns >= last);
    let sent = journey.request.hops().first().map_or(0, Hop::packets);
    journey.exchange.reply_ns.is_none() && ended_here && most_of(sent, drops, Direction::Request)
}

/// Replies died here, and nothing says that any of them arrived.
fn reply_died(journey: &Journey, drops: &[Told<'_>]) -> bool {
    let exchange = &journey.exchange;
    let came = journey.reply.hops().first().map_or(0, Hop::packets);
    let arrived = if journey.opened.proto == Proto::TCP {
        let data = exchange.data_ns[Direction::Reply as usize].is_some();
        exchange.reply_arrived || (exchange.handshake_arrived && !data)
    } else {
        false
    };
    !arrived
        && deaths(drops, Direction::Reply).next().is_some()
        && most_of(came, drops, Direction::Reply)
}

fn deaths<'a>(drops: &'a [Told<'_>], dir: Direction) -> impl Iterator<Item = &'a Loss> {
    drops
        .iter()
        .map(|told| told.loss)
        .filter(move |loss| loss.direction == dir && loss.first.quoted.is_none())
}

/// Whether at least half of the packets died: one that was lost and sent again with success is a
/// drop, and no verdict.
fn most_of(packets: u64, drops: &[Told<'_>], dir: Direction) -> bool {
    let died: u64 = deaths(drops, dir).map(|loss| loss.count).sum();
    died.saturating_mul(2) >= packets
}

fn reply_last_seen(journey: &Journey) -> Option<u32> {
    let hops = journey.reply.hops();
    let answers = if journey.exchange.reply_ns.is_some() {
        hops
    } else {
        journey.error.hops()
    };
    answers
        .iter()
        .rev()
        .find_map(|h| number_at(journey, h.place))
}

fn refusal(journey: &Journey, inventory: &Inventory) -> Option<RefusedBy> {
    let exchange = &journey.exchange;
    let first = |hops: &[Hop]| hops.first().and_then(|h| number_at(journey, h.place));
    let reset = exchange
        .reset
        .filter(|(dir, _)| *dir == Direction::Reply && exchange.syn_ack.is_none());
    if reset.is_some() && exchange.opened {
        let hops = journey.reply.hops();
        let addr = hops.first()?.tuples().next()?.src;
        return Some(RefusedBy {
            addr,
            kind: "rst".into(),
            hop: first(hops),
            place: place(addr, hops, inventory),
        });
    }
    let answer = journey.answer.filter(|_| exchange.reply_ns.is_none())?;
    let hops = journey.error.hops();
    Some(RefusedBy {
        addr: answer.from,
        kind: kind(&answer)?.into(),
        hop: first(hops),
        place: place(answer.from, hops, inventory),
    })
}

/// The node, where it refused itself: by one of its addresses, or in the far side's name, as a rule
/// that rejects with a reset does.
fn place(addr: IpAddr, hops: &[Hop], inventory: &Inventory) -> Option<Where> {
    let made_here = hops.first().is_some_and(|hop| {
        hop.local && hop.place.dir == Dir::Egress && inventory.role(hop.place.netns) == Role::Node
    });
    (made_here || inventory.node_owns(addr)).then_some(Where::Node)
}

/// The name of an ICMP error that ends a flow; `None` for those that do not (a redirect, or a
/// packet that was too big and can be sent smaller).
fn kind(answer: &IcmpAnswer) -> Option<&'static str> {
    Some(match (answer.v6, answer.kind, answer.code) {
        (false, 3, 0) => "net-unreachable",
        (false, 3, 1) => "host-unreachable",
        (false, 3, 2) => "protocol-unreachable",
        (false, 3, 3) | (true, 1, 4) => "port-unreachable",
        (false, 3, 4) => return None,
        (false, 3, 9) => "net-prohibited",
        (false, 3, 10) => "host-prohibited",
        (false, 3, 13) | (true, 1, 1) => "admin-prohibited",
        (false, 3, _) => "destination-unreachable",
        (true, 1, 0) => "no-route",
        (true, 1, 3) => "address-unreachable",
        (true, 1, 5) => "source-policy",
        (true, 1, 6) => "reject-route",
        (true, 1, _) => "destination-unreachable",
        (false, 11, _) | (true, 3, _) => "time-exceeded",
        (false, 12, _) | (true, 4, _) => "parameter-problem",
        _ => return None,
    })
}
