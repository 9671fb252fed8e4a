//! Which rule, or which chain's policy, stopped a packet that netfilter dropped: the one that was seen
//! to, else the one that today's rules give for that very packet.

use super::ruling::{Consulted, view};
use super::{seen_rule, through};
use crate::evaluate::{At, Bits, Fate, Flow, FlowState, Outcome, Packet, Way, evaluate};
use crate::event::{Conntrack, Dir, Tcp};
use crate::explain::Scene;
use crate::inventory::{Inventory, RouteAnswer};
use crate::journey::{Direction, Journey, Loss};
use crate::observed::RuleHit;
use crate::packet::Tuple;
use crate::report::{self, RuleEvidence};
use crate::ruleset::{Chain, Family, Ruleset, Table};

/// What stopped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopper<'r> {
    /// A rule.
    Rule(At<'r>),
    /// The policy of a base chain of this table: no rule there decided.
    Policy(&'r Table, &'r Chain),
}

/// What the rules of a namespace say about a packet that netfilter dropped there.
#[derive(Clone, Debug, PartialEq)]
pub enum Stopped {
    /// This rule dropped it; a chain's policy is one without a number.
    By(Box<report::Rule>),
    /// None of them does: something else at a hook did.
    ByNone,
    /// None of those that are walked does, and there are rules of bridges, which are not.
    PerhapsOnABridge,
}

/// Asks the rules of the namespace in which a packet died; `None` where they do not tell.
#[must_use]
pub fn stopped(
    loss: &Loss,
    journey: &Journey,
    inventory: &Inventory,
    rules: &Consulted<'_>,
    hits: &[&RuleHit],
) -> Option<Stopped> {
    let scene = Scene::new(loss, journey, inventory);
    let netns = loss.netns?;
    let (rules, changed) = rules.at(netns, loss.first.time_ns)?;
    if changed {
        return None;
    }
    let here = inventory.namespaces.get(&netns)?;
    let (packet, way) = packet(&scene);
    let outcome = evaluate(&rules, &packet, way, here);
    let of_packet = |hit: &&&RuleHit| {
        let same_way = hit.conntrack.map_or(hit.tuple == packet.tuple, |ct| {
            ct.is_reply == (loss.direction == Direction::Reply)
        });
        hit.netns == netns && same_way
    };
    let hits: Vec<&RuleHit> = hits.iter().filter(of_packet).copied().collect();
    let seen = seen_rule::stopper(rules.ruleset, &hits);
    let replayed = replayed(&outcome);
    match (seen, replayed) {
        (Some(seen), Some((same, path))) if seen == same => {
            Some(by(seen, &path, RuleEvidence::Observed))
        }
        (Some(seen), _) => Some(by(seen, &[], RuleEvidence::Observed)),
        (None, Some((by_rules, path))) => Some(by(by_rules, &path, RuleEvidence::Replayed)),
        (None, None) => passes(&outcome).then(|| by_others(rules.ruleset)),
    }
}

/// The one thing that can have stopped it, of all ways in which it may have fared: that it was
/// stopped is known.
fn replayed<'r>(outcome: &Outcome<'r>) -> Option<(Stopper<'r>, Vec<At<'r>>)> {
    if !outcome.doubts.is_empty() {
        return None;
    }
    let mut fates = outcome.ends.iter().map(|end| &end.fate);
    let mut found: Option<(Stopper<'r>, Vec<At<'r>>)> = None;
    fates.try_for_each(|fate| {
        let Some(this) = stopper(fate) else {
            return Some(());
        };
        match &found {
            Some((other, _)) => (*other == this.0).then_some(()),
            None => {
                found = Some(this);
                Some(())
            }
        }
    })?;
    found
}

/// What ended a packet's way, with the rules that led to it; `None` where it passed.
fn stopper<'r>(fate: &Fate<'r>) -> Option<(Stopper<'r>, Vec<At<'r>>)> {
    Some(match fate {
        Fate::Passes => return None,
        Fate::Dropped { by, path, .. } => (Stopper::Rule(*by), path.clone()),
        Fate::Queued(by) => (Stopper::Rule(*by), vec![*by]),
        Fate::Policy { table, chain } => (Stopper::Policy(table.0, chain.0), Vec::new()),
    })
}

/// The rule or policy that ends a packet's way by today's rules, as the report shows it; `None` where it
/// passes.
pub(crate) fn would_stop(fate: &Fate<'_>) -> Option<report::Rule> {
    let (stopper, path) = stopper(fate)?;
    Some(rule(stopper, &path, RuleEvidence::Replayed))
}

/// Whether the rules certainly let it through.
fn passes(outcome: &Outcome<'_>) -> bool {
    outcome.doubts.is_empty() && outcome.ends.iter().all(|end| end.fate == Fate::Passes)
}

/// Who else may have stopped it.
fn by_others(rules: &Ruleset) -> Stopped {
    let on_bridges = |table: &Table| table.id.family == Family::Bridge;
    match rules.tables.iter().any(on_bridges) {
        true => Stopped::PerhapsOnABridge,
        false => Stopped::ByNone,
    }
}

fn by(stopper: Stopper<'_>, path: &[At<'_>], evidence: RuleEvidence) -> Stopped {
    Stopped::By(Box::new(rule(stopper, path, evidence)))
}

fn rule(stopper: Stopper<'_>, path: &[At<'_>], evidence: RuleEvidence) -> report::Rule {
    match stopper {
        Stopper::Rule(at) if path.is_empty() => view(at, &[at], evidence),
        Stopper::Rule(at) => view(at, path, evidence),
        Stopper::Policy(table, chain) => report::Rule {
            backend: table.id.backend.to_string(),
            family: table.id.family.to_string(),
            table: table.id.name.clone(),
            chain: chain.name.clone(),
            index: None,
            handle: None,
            text: "policy drop".to_owned(),
            comment: None,
            owner: None,
            evidence,
            path: Vec::new(),
        },
    }
}

/// The packet as the namespace's first hook saw it.
fn packet(scene: &Scene<'_>) -> (Packet, Way) {
    let drop = &scene.loss.first;
    let before = before(scene);
    let way = match scene.way() {
        _ if drop.local => Way::Sent,
        Some(RouteAnswer::Local) => Way::Delivered,
        None if scene.owns(drop.tuple.dst) => Way::Delivered,
        _ => Way::Forwarded,
    };
    let iif = match way {
        Way::Sent => Some(""),
        Way::Forwarded | Way::Delivered | Way::Bridged { .. } => scene.device(scene.came_by()),
    };
    let oif = match (way, scene.way()) {
        (Way::Delivered, _) => Some(""),
        (_, Some(RouteAnswer::Out { ifindex, .. })) => scene.device(Some(ifindex)),
        _ => None,
    };
    let mut packet = Packet::first(before, iif, oif);
    packet.mark = entry_mark(scene).map_or(Bits::UNKNOWN, Bits::all);
    packet.tcp_flags = drop.print.tcp.map(|tcp| tcp.flags);
    packet.icmp = drop.print.icmp.map(|icmp| (icmp.kind, icmp.code));
    packet.length = Some(drop.l3_len);
    packet.flow = flow(scene, before);
    (packet, way)
}

/// Its entry tells what it was before this namespace translated it. An ICMP error has the entry of the
/// packet that it quotes.
fn before(scene: &Scene<'_>) -> Tuple {
    let drop = &scene.loss.first;
    match drop.conntrack.filter(|_| drop.quoted.is_none()) {
        Some(ct) if ct.is_reply => ct.reply,
        Some(ct) => ct.orig,
        None => drop.tuple,
    }
}

/// Its mark where it came in; rules may have changed it since.
fn entry_mark(scene: &Scene<'_>) -> Option<u32> {
    let loss = scene.loss;
    let place = loss
        .after
        .filter(|place| Some(place.netns) == loss.netns && place.dir == Dir::Ingress)?;
    let mut hops = scene.journey.way(loss.direction).hops().iter();
    hops.find(|hop| hop.place == place)?.mark
}

/// What conntrack knows of its flow.
fn flow(scene: &Scene<'_>, before: Tuple) -> Flow {
    let drop = &scene.loss.first;
    let opens = drop.print.tcp.is_none_or(Tcp::is_syn);
    let Some(ct) = drop.conntrack else {
        return match (drop.conntrack_known, opens || drop.untracked) {
            (true, true) => Flow::new(),
            (true, false) => Flow {
                state: FlowState::Invalid,
                ..Flow::new()
            },
            (false, _) => Flow::unknown(),
        };
    };
    let is = |bit| ct.status & bit != 0;
    if !is(Conntrack::CONFIRMED) {
        return Flow::new();
    }
    let state = if drop.quoted.is_some() {
        FlowState::Related
    } else if ct.is_reply || is(Conntrack::SEEN_REPLY) {
        FlowState::Established
    } else {
        FlowState::New
    };
    Flow {
        state,
        status: Bits::all(ct.status),
        mark: ct.mark.map_or(Bits::UNKNOWN, Bits::all),
        zone: ct.zone,
        orig: Some(ct.orig),
        reply: Some(ct.is_reply),
        becomes: through(&ct, before).filter(|_| drop.quoted.is_none()),
    }
}
