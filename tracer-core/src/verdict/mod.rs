//! From a journey to the answer: one [`report::Flow`](crate::report::Flow).

mod delivery;
mod findings;
mod origin;
mod peer;
mod reply;
mod rules;
mod source;
mod view;

pub use peer::compare_with_peer;
pub use view::sighting;

pub(crate) use findings::finding;

pub use origin::Origin;

use crate::attribute::{self, Consulted};
use crate::inventory::Inventory;
use crate::journey::{Closed, Hop, Journey};
use crate::report::{Flow, Packets, SCHEMA, Unavailable};

/// What is known beside the journey.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The host.
    pub inventory: &'a Inventory,
    /// What to add to CLOCK_MONOTONIC to get nanoseconds since 1970, UTC.
    pub realtime_offset_ns: i64,
    /// Events that were lost while the flow lasted.
    pub lost: u64,
    /// Points that were wanted and could not be observed.
    pub unavailable: &'a [Unavailable],
    /// The rules, as far as they were read.
    pub rules: &'a Consulted<'a>,
}

/// Judges one flow.
#[must_use]
pub fn judge(closed: &Closed, context: &Context<'_>) -> Flow {
    let journey = &closed.journey;
    let mut rewrites = attribute::rewrites(journey, context.inventory);
    let rulings = attribute::rulings(journey, context.inventory, context.rules);
    attribute::name_rules(&mut rewrites, &rulings);
    let delivery = delivery::delivery(closed, context.inventory);
    let mut verdict = source::verdict(journey, &rewrites, &delivery, context);
    let mut findings = findings::findings(journey, &rewrites, &delivery, &verdict, context);
    findings.extend(rules::findings(
        journey, &rewrites, &rulings, &verdict, context,
    ));
    if let Some(by) = rules::exempting(&findings) {
        verdict.text.push_str(&by);
    }
    verdict.complete = !findings.iter().any(|f| findings::is_doubt(f.code));
    let flow = attribute::original(journey);
    Flow {
        schema: SCHEMA,
        id: view::id(journey),
        first_seen: view::time(journey.first_ns, context.realtime_offset_ns),
        end: closed.end,
        count: 1,
        flow: flow.into(),
        origin: origin::origin(journey, context.inventory),
        hops: view::hops(journey, context.inventory),
        rewrites,
        packets: packets(journey),
        delivery,
        drops: Vec::new(),
        proxy: None,
        findings,
        verdict,
    }
}

/// Each direction is counted where it is first seen.
fn packets(journey: &Journey) -> Packets {
    let first = |hops: &[Hop]| hops.first().map_or((0, 0), |h| (h.packets(), h.bytes()));
    let (request, request_bytes) = first(journey.request.hops());
    let (reply, reply_bytes) = first(journey.reply.hops());
    Packets {
        request,
        reply,
        request_bytes,
        reply_bytes,
    }
}
