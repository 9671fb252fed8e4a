//! From a journey to the answer: one [`report::Flow`](crate::report::Flow).

mod bridge;
mod carried;
mod delivery;
mod drops;
mod far_side;
mod findings;
mod origin;
mod peer;
mod policies;
mod proxy;
mod reply;
mod rewriter;
mod routes;
pub(crate) mod rules;
mod source;
mod too_big;
mod trouble;
mod view;

pub use peer::compare_with_peer;
pub(crate) use view::id;
pub use view::sighting;

pub(crate) use findings::{double_rewrite, finding, is_doubt};
pub(crate) use rules::{name as rule_name, stopper_name};
pub(crate) use source::agent as agent_words;
pub(crate) use view::time as utc;

pub use origin::Origin;

use crate::attribute::{self, Consulted};
use crate::inventory::Inventory;
use crate::journey::{Closed, Hop, Journey};
use crate::observed::RuleHit;
use crate::point::{self, Point};
use crate::proxy::Relation;
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
    /// Rules that were seen to run for the flow.
    pub hits: &'a [&'a RuleHit],
    /// The points that were named.
    pub points: &'a [Point],
    /// What is known of it as one side of a proxy.
    pub relation: &'a Relation,
}

/// Judges one flow.
#[must_use]
pub fn judge(closed: &Closed, context: &Context<'_>) -> Flow {
    let journey = &closed.journey;
    let mut changes = attribute::changes(journey, context.inventory);
    let rulings = attribute::rulings(journey, context.inventory, context.rules);
    attribute::name_rules(&mut changes, &rulings, context.hits);
    attribute::name_programs(&mut changes, journey, context.inventory);
    let rewriters = rewriter::findings(journey, &changes, context.inventory);
    let rewrites: Vec<_> = changes.into_iter().map(|c| c.rewrite).collect();
    let mut told = drops::told(journey, context);
    drops::name_rules(&mut told, journey, context);
    let delivery = delivery::delivery(closed, &told, context.inventory);
    let mut verdict = source::verdict(journey, &rewrites, &delivery, context);
    let mut findings = findings::findings(journey, &rewrites, &delivery, &verdict, context);
    findings.extend(rewriters);
    findings.extend(bridge::finding_of(journey, &rewrites, context.inventory));
    findings.extend(policies::uncovered(journey, &delivery, context.inventory));
    findings.extend(carried::findings(journey, context));
    findings.extend(drops::findings(&told, journey, &delivery));
    findings.extend(drops::replaced(&told, context.inventory));
    findings.extend(routes::findings(journey, context.inventory));
    findings.extend(trouble::untranslated(journey, context.inventory));
    too_big::tell(&mut findings, journey, &delivery, context.inventory);
    findings.extend(rules::findings(
        journey, &rewrites, &rulings, &verdict, context,
    ));
    if let Some(by) = rules::exempting(&findings) {
        verdict.text.push_str(&by);
    }
    let original = attribute::original(journey);
    let mut flow = Flow {
        schema: SCHEMA,
        id: id(journey),
        first_seen: view::time(journey.first_ns, context.realtime_offset_ns),
        end: closed.end,
        count: 1,
        flow: original.into(),
        origin: origin::origin(journey, context.inventory),
        hops: view::hops(journey, context),
        points: point::views(context.points, journey, context.inventory),
        rewrites,
        packets: packets(journey),
        delivery,
        drops: told
            .iter()
            .map(|one| drops::view(one, journey, context))
            .collect(),
        proxy: None,
        findings,
        verdict,
    };
    proxy::add(&mut flow, context.relation, context.inventory);
    flow.verdict.complete = !flow.findings.iter().any(|f| is_doubt(f.code));
    point::tell(&mut flow);
    flow
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
