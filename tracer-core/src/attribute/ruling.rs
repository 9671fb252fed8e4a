//! What the rules of the namespaces on a flow's way say of its first packet, and which of them did
//! what was seen.

use super::crossed::Crossed;
use super::passage::{Passage, passages};
use super::step::tracked;
use super::{Change, entries, is_balanced, seen_rule, through};
use crate::evaluate::{At, Bits, Decision, Outcome, Packet, Rules, Seen, Way, evaluate};
use crate::event::NetnsId;
use crate::inventory::Inventory;
use crate::journey::{Hop, Journey};
use crate::observed::RuleHit;
use crate::packet::Tuple;
use crate::report::{
    self, Rewrite, RewriteAgent, RewriteDirection, RewriteField, RewriteHook, RuleEvidence,
};
use crate::rulebook::Rulebook;
use crate::ruleset::{Action, Chain, Field, Hook, Ruleset, Step, Table};
use foldhash::fast::RandomState;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// A rulebook that is asked: rules are indexed once for all flows that are judged together.
#[derive(Debug)]
pub struct Consulted<'b> {
    book: &'b Rulebook,
    indexed: RefCell<HashMap<usize, Rc<Rules<'b>>, RandomState>>,
}

impl<'b> Consulted<'b> {
    /// Opens a rulebook.
    #[must_use]
    pub fn new(book: &'b Rulebook) -> Self {
        Self {
            book,
            indexed: RefCell::default(),
        }
    }

    pub(super) fn at(&self, netns: NetnsId, time_ns: u64) -> Option<(Rc<Rules<'b>>, bool)> {
        let reading = self.book.at(netns, time_ns)?;
        let mut indexed = self.indexed.borrow_mut();
        let key = std::ptr::from_ref(reading.rules).addr();
        let rules = indexed
            .entry(key)
            .or_insert_with(|| Rc::new(Rules::new(reading.rules)));
        Some((Rc::clone(rules), reading.changed))
    }
}

/// What the rules of one namespace say of the flow's first packet.
#[derive(Clone, Debug)]
pub struct Ruling<'a, 'b> {
    /// The rules of the namespace.
    pub rules: &'b Ruleset,
    /// The packet's way through the namespace.
    pub passage: Passage<'a>,
    /// Which hooks it passes there.
    pub way: Way,
    /// What its rules do to such a packet, by what is known of it.
    pub outcome: Outcome<'b>,
    /// Of that, only what agrees with what was seen.
    pub given: Outcome<'b>,
    /// What became of its addresses there.
    pub seen: Seen,
    /// The rules were changed at about that time.
    pub changed: bool,
}

impl<'b> Ruling<'_, 'b> {
    /// The rule that did what was seen to the source or the destination, if just one can have.
    #[must_use]
    pub fn decision(&self, source: bool) -> Option<Decision<'b>> {
        let answer = if source {
            self.given.source()
        } else {
            self.given.destination()
        };
        match answer.candidates.as_slice() {
            [Some(one)] => Some((*one).clone()),
            _ => None,
        }
    }
}

/// Asks the rules of every namespace that the request went through.
#[must_use]
pub fn rulings<'a, 'b>(
    journey: &'a Journey,
    inventory: &Inventory,
    rules: &Consulted<'b>,
) -> Vec<Ruling<'a, 'b>> {
    let ask = |mut passage: Passage<'a>| {
        let (before, after) = around(journey, &passage);
        passage.before = before;
        let (rules, changed) = rules.at(passage.netns, journey.first_ns)?;
        let here = inventory.namespaces.get(&passage.netns)?;
        let (mut packet, mut way) = packet(journey, &passage, inventory);
        if let Some(crossed) = Crossed::of(&passage, after, inventory) {
            way = crossed.shown_as(&mut packet);
        }
        packet.balanced = balanced(journey, &passage, after, inventory);
        let outcome = evaluate(&rules, &packet, way, here);
        let seen = Seen {
            source: after.map(|t| t.source()),
            destination: after.map(|t| t.destination()),
        };
        Some(Ruling {
            rules: rules.ruleset,
            passage,
            way,
            given: outcome.given(&seen),
            outcome,
            seen,
            changed,
        })
    };
    passages(journey).into_iter().filter_map(ask).collect()
}

/// The packet as the namespace's first hook sees it.
fn packet(journey: &Journey, passage: &Passage<'_>, inventory: &Inventory) -> (Packet, Way) {
    let name = |hop: &Hop| {
        let link = inventory.link(hop.place.netns, hop.place.ifindex);
        link.map(|l| l.name.clone())
    };
    let device = |hop: Option<&Hop>| hop.map_or(Some(String::new()), name);
    // Traced by what it becomes, a packet is first sighted on its way out; that tells whose it is.
    let came_in = passage.entry.is_some() || passage.exit.is_some_and(|exit| !exit.local);
    let way = match (passage.entry, passage.exit) {
        (None, _) if came_in => Way::Forwarded,
        (None, _) => Way::Sent,
        (Some(_), Some(_)) => Way::Forwarded,
        (Some(_), None) if inventory.owns(passage.netns, passage.before.dst) => Way::Delivered,
        (Some(_), None) => Way::Forwarded,
    };
    let iif = match passage.entry {
        None if came_in => None,
        entry => device(entry),
    };
    let mut oif = device(passage.exit);
    if way == Way::Forwarded && passage.exit.is_none() {
        oif = None;
    }
    let mut packet = Packet::first(passage.before, iif.as_deref(), oif.as_deref());
    if let Some(entry) = passage.entry {
        packet.mark = entry.mark.map_or(Bits::UNKNOWN, Bits::all);
    }
    packet.tcp_flags = journey.exchange.syn.map(|_| TCP_SYN);
    (packet, way)
}

const TCP_SYN: u8 = 0x02;

/// Where IPVS sent it: it was for an address of the namespace's own and went on to another.
fn balanced(
    journey: &Journey,
    passage: &Passage<'_>,
    after: Option<Tuple>,
    inventory: &Inventory,
) -> Option<SocketAddr> {
    let (_, exit, after) = (passage.entry?, passage.exit?, after?);
    let before = passage.before;
    if before.destination() == after.destination() || !inventory.owns(passage.netns, before.dst) {
        return None;
    }
    let mut known = entries(journey, passage.netns, exit.conntrack());
    let own = known.find(|ct| through(ct, before) == Some(after))?;
    is_balanced(own).then(|| after.destination())
}

/// The packet before and after a namespace's rules: at its way out, or, where it was delivered, by
/// its conntrack entry. What programs on the devices did before or after is no rule's affair.
fn around(journey: &Journey, passage: &Passage<'_>) -> (Tuple, Option<Tuple>) {
    let before = passage.before;
    let Some(exit) = passage.exit else {
        let after = entries(journey, passage.netns, None).find_map(|ct| through(ct, before));
        return (before, after);
    };
    let after = exit.tuples().next();
    let own = exit.conntrack().filter(|_| passage.entry.is_some());
    match own.zip(after) {
        Some((own, after)) => {
            let (before, after) = tracked(own, before, after);
            (before, Some(after))
        }
        None => (before, after),
    }
}

/// Names the rule of each rewrite of the request, where the rules of its namespace tell.
pub fn name_rules(changes: &mut [Change], rulings: &[Ruling<'_, '_>], hits: &[&RuleHit]) {
    for Change {
        rewrite, by_rule, ..
    } in changes.iter_mut()
    {
        if rewrite.direction == RewriteDirection::Reply {
            // No rule is asked for it, so none that could have written it is ruled out.
            let mut here = rulings.iter();
            let here = here.find(|r| rewrite.netns == Some(r.passage.netns.0));
            *by_rule = here.is_some_and(|r| writes_addresses(r.rules));
            continue;
        }
        let here =
            |r: &&Ruling<'_, '_>| rewrite.netns == Some(r.passage.netns.0) && is_around(rewrite, r);
        let Some(ruling) = rulings.iter().find(here) else {
            continue;
        };
        match rewrite.agent {
            RewriteAgent::Netfilter => translated(rewrite, ruling, hits),
            RewriteAgent::Unknown => *by_rule = !stateless(rewrite, ruling),
            _ => {}
        }
    }
}

/// Whether any rule writes addresses or ports without conntrack.
fn writes_addresses(rules: &Ruleset) -> bool {
    let chains = rules.tables.iter().flat_map(|table| &table.chains);
    let mut steps = chains
        .flat_map(|chain| &chain.rules)
        .flat_map(|rule| &rule.steps);
    steps.any(|step| {
        let Step::Do(Action::SetField { field, .. }) = step else {
            return false;
        };
        matches!(
            field,
            Field::Saddr | Field::Daddr | Field::Sport | Field::Dport
        )
    })
}

/// Names the NAT rule: the one that was seen to run, else the one that the rules give. The way to it
/// and who marked the packet are only known where both are the same.
fn translated(rewrite: &mut Rewrite, ruling: &Ruling<'_, '_>, hits: &[&RuleHit]) {
    let source = is_source(rewrite.field);
    let seen = seen_rule::translator(ruling, hits, rewrite.hook, source);
    let replayed = ruling.decision(source);
    let replayed = replayed.filter(|d| seen.is_none_or(|at| at == d.by));
    let evidence = match seen {
        Some(_) => RuleEvidence::Observed,
        None => RuleEvidence::Replayed,
    };
    rewrite.rule = match (&replayed, seen) {
        (Some(decision), _) => Some(view(decision.by, &decision.path, evidence)),
        (None, Some(at)) => Some(view(at, &[at], evidence)),
        (None, None) => return,
    };
    let marker = replayed.as_ref().and_then(|d| d.marked_by.last());
    rewrite.marked_by = marker.map(|m| {
        let evidence = seen_rule::evidence(m.by, ruling, hits);
        view(m.by, &m.path, evidence)
    });
    let mut rules = [&rewrite.rule, &rewrite.marked_by].into_iter().flatten();
    if rules.any(is_service) && rewrite.place == report::Where::Node {
        rewrite.place = report::Where::Service;
    }
}

/// Names the rule that wrote the address without conntrack, where just one can have. Gives whether
/// it is settled: `false` where some rule may have, and which is not known.
fn stateless(rewrite: &mut Rewrite, ruling: &Ruling<'_, '_>) -> bool {
    let given = &ruling.given;
    let mut writers = given.ends.iter().map(|end| end.stateless.as_slice());
    let first = writers.next().unwrap_or_default();
    let ([at], true) = (first, writers.all(|other| other == first)) else {
        return given.ends.iter().all(|end| end.stateless.is_empty());
    };
    rewrite.agent = RewriteAgent::Stateless;
    rewrite.hook = at.chain.base.as_ref().and_then(|base| hook(base.hook));
    rewrite.rule = Some(view(*at, &[*at], RuleEvidence::Replayed));
    true
}

/// The report's word for netfilter's hook.
pub(crate) fn hook(hook: Hook) -> Option<RewriteHook> {
    match hook {
        Hook::Prerouting => Some(RewriteHook::Prerouting),
        Hook::Input => Some(RewriteHook::Input),
        Hook::Forward => Some(RewriteHook::Forward),
        Hook::Output => Some(RewriteHook::Output),
        Hook::Postrouting => Some(RewriteHook::Postrouting),
        Hook::Ingress | Hook::Egress => None,
    }
}

/// Whether the rewrite happened on this passage, and not on another one of the same namespace.
fn is_around(rewrite: &Rewrite, ruling: &Ruling<'_, '_>) -> bool {
    let before = ruling.passage.before;
    let from = if is_source(rewrite.field) {
        before.source()
    } else {
        before.destination()
    };
    (from.ip(), from.port()) == (rewrite.from.addr, rewrite.from.port)
}

fn is_source(field: RewriteField) -> bool {
    matches!(field, RewriteField::Src | RewriteField::Sport)
}

/// Service chains are kube-proxy's.
pub(crate) fn is_service(rule: &report::Rule) -> bool {
    rule.owner.as_deref() == Some("kube-proxy")
}

/// A rule as the report shows it.
#[must_use]
pub fn view(at: At<'_>, path: &[At<'_>], evidence: RuleEvidence) -> report::Rule {
    let (table, chain, rule): (&Table, &Chain, _) = (at.table, at.chain, at.rule);
    report::Rule {
        backend: table.id.backend.to_string(),
        family: table.id.family.to_string(),
        table: table.id.name.clone(),
        chain: chain.name.clone(),
        index: Some(rule.index),
        handle: rule.handle,
        text: rule.text.clone(),
        comment: rule.comment.clone(),
        owner: rule.owner.map(str::to_owned),
        evidence,
        path: path.iter().map(ToString::to_string).collect(),
    }
}
