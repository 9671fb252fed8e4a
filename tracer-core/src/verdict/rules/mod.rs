//! What the rules add to a verdict: why a source was kept, and what is odd about the rule that
//! changed it.

pub(crate) mod decided;
pub(crate) mod kept;

use super::Context;
use super::findings::finding;
use crate::attribute::{self, Ruling, view};
use crate::evaluate::{Agreement, At};
use crate::event::Dir;
use crate::inventory::Role;
use crate::journey::Journey;
use crate::report::{
    Code, Finding, Rewrite, RewriteAgent, RewriteDirection, Rule, RuleEvidence, Severity,
    SourceCode, Verdict,
};
use serde_json::json;
use std::collections::BTreeSet;

/// Findings that rest on the rules of the namespaces on the way.
pub(super) fn findings(
    journey: &Journey,
    rewrites: &[Rewrite],
    rulings: &[Ruling<'_, '_>],
    verdict: &Verdict,
    context: &Context<'_>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for ruling in rulings {
        if matters(ruling, rewrites, context) {
            found.extend(unread(ruling, context));
            found.extend(changed(ruling, context));
        }
        found.extend(unexplained(journey, ruling, rewrites, context));
    }
    if verdict.source == SourceCode::SourcePreserved {
        let out = rulings.iter().rfind(|r| decides(r, context));
        let out = out.or_else(|| rulings.iter().rfind(|r| forwards(r)));
        found.extend(out.and_then(|ruling| kept::kept(ruling, context)));
    }
    for rewrite in rewrites
        .iter()
        .filter(|r| r.direction == RewriteDirection::Request)
    {
        let ruling = rulings
            .iter()
            .find(|r| Some(r.passage.netns.0) == rewrite.netns);
        let asked = ruling.map(|r| (r.rules, r.outcome.shadowed.as_slice()));
        let about = decided::findings(rewrite, asked, context.inventory);
        let is_led_there = answers_come_to(journey, rewrite);
        let about = about.into_iter();
        found.extend(about.filter(|f| f.code != Code::StaleNatAddress || !is_led_there));
    }
    found
}

/// Whether answers to what a source was translated to come back to the namespace that translated it: then
/// they are led there, though no interface has the address.
fn answers_come_to(journey: &Journey, rewrite: &Rewrite) -> bool {
    let answers = journey.reply.hops().iter();
    let mut answers = answers.filter(|hop| Some(hop.place.netns.0) == rewrite.netns);
    answers.any(|hop| hop.tuples().any(|tuple| tuple.dst == rewrite.to.addr))
}

/// Where the source could have been translated on the way out: on the node, or, where the node was not met
/// (another node on this machine), in the last namespace that [`forwards`]. What a packet did inside its
/// own pod is not asked.
fn decides(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> bool {
    ruling.passage.exit.is_some() && context.inventory.role(ruling.passage.netns) == Role::Node
}

/// The packet came by one device and left by another.
fn forwards(ruling: &Ruling<'_, '_>) -> bool {
    ruling.passage.entry.is_some() && ruling.passage.exit.is_some()
}

/// The end of the verdict's sentence: which rule kept the source.
pub(super) fn exempting(findings: &[Finding]) -> Option<String> {
    let exempts = |f: &&Finding| matches!(f.code, Code::ExemptByRule | Code::ExemptBySet);
    let rule = findings.iter().find(exempts)?.rule.as_ref()?;
    Some(format!("; {} exempts it", name(rule)))
}

/// Whether the namespace's rules are asked for anything: it is the node, or the packet was changed or lost there.
fn matters(ruling: &Ruling<'_, '_>, rewrites: &[Rewrite], context: &Context<'_>) -> bool {
    let netns = ruling.passage.netns;
    context.inventory.role(netns) == Role::Node
        || ruling.passage.exit.is_none()
        || rewrites.iter().any(|r| r.netns == Some(netns.0))
}

/// Rules that could not be read make every answer about them uncertain.
fn unread(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> Option<Finding> {
    let unread = &ruling.rules.unread;
    let what: Vec<String> = unread
        .iter()
        .map(|u| format!("{}: {}", u.what, u.why))
        .collect();
    let fixes: BTreeSet<&str> = unread.iter().filter_map(|u| u.fix.as_deref()).collect();
    (!what.is_empty()).then(|| Finding {
        text: format!(
            "rules {} could not be read: {}",
            place(ruling, "of the node", context),
            what.join("; ")
        ),
        fix: (!fixes.is_empty()).then(|| fixes.into_iter().collect::<Vec<_>>().join("; ")),
        ..finding(Code::RulesUnread, Severity::Warning)
    })
}

/// A rule ran for the flow that is not among those that were read.
fn changed(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> Option<Finding> {
    let gone = attribute::vanished(ruling, context.hits);
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
    (!gone.is_empty()).then(|| Finding {
        text: format!(
            "{} ran for it and is not among the rules {} as they were read: they were changed at about that time",
            gone.join(", "),
            place(ruling, "of the node", context)
        ),
        data: json!({"gone": gone}),
        ..finding(Code::RuleUncertain, Severity::Info)
    })
}

/// A ruling's namespace in a sentence: by these words where it is the node, else `in vpn`.
fn place(ruling: &Ruling<'_, '_>, node: &str, context: &Context<'_>) -> String {
    let netns = ruling.passage.netns;
    match (context.inventory.role(netns), context.inventory.name(netns)) {
        (Role::Node, _) => node.to_owned(),
        (_, Some(name)) => format!("in {name}"),
        (_, None) => format!("in namespace {}", netns.0),
    }
}

/// Today's rules would do something else than was seen.
fn unexplained(
    journey: &Journey,
    ruling: &Ruling<'_, '_>,
    rewrites: &[Rewrite],
    context: &Context<'_>,
) -> Option<Finding> {
    let elsewhere = |r: &Rewrite| {
        r.netns == Some(ruling.passage.netns.0)
            && r.direction == RewriteDirection::Request
            && !matches!(r.agent, RewriteAgent::Netfilter | RewriteAgent::Unknown)
    };
    if ruling.outcome.explains(&ruling.seen) != Agreement::Unexplained
        || rewrites.iter().any(elsewhere)
        || ruling.seen.source.is_none()
    {
        return None;
    }
    let would = ruling.outcome.source();
    let would = match would.candidates.as_slice() {
        [Some(decision)] => format!("{} would rewrite its source", name_at(decision.by)),
        [None] => "no rule would rewrite its source".to_owned(),
        _ => "they would do something else".to_owned(),
    };
    let past = went_past(journey, ruling, rewrites);
    let fix = match (journey.predates, ruling.changed) {
        (true, _) => Some("open the connection anew"),
        (false, false) if past => Some(
            "`bpftool net show` there: a program on the device it came in by (traffic control, netkit, \
             XDP) that redirects",
        ),
        _ => None,
    };
    let why = if journey.predates {
        "the flow keeps what it was given when it began"
    } else if ruling.changed {
        "the rules were changed at about that time"
    } else if past {
        "it left without an entry in conntrack, so netfilter did not see it: a program on its way sent it on"
    } else {
        "what did it is not known"
    };
    Some(Finding {
        text: format!(
            "the rules {} as they are now do not explain what was seen: by them {would}; {why}",
            place(ruling, "of the node", context)
        ),
        fix: fix.map(str::to_owned),
        ..finding(Code::NoRuleExplains, Severity::Warning)
    })
}

/// Whether the packet took a way through the namespace on which there is no netfilter. Where rules
/// translate, every packet that they are asked about has an entry; one that a translator outside
/// netfilter had may have been taken from conntrack by that.
fn went_past(journey: &Journey, ruling: &Ruling<'_, '_>, rewrites: &[Rewrite]) -> bool {
    let netns = ruling.passage.netns;
    let first = journey.request.hops().first();
    let came_in =
        first.is_some_and(|hop| hop.place.dir == Dir::Ingress || hop.place.netns != netns);
    let untouched = !rewrites
        .iter()
        .any(|r| r.netns == Some(netns.0) && r.direction == RewriteDirection::Request);
    let exit = ruling.passage.exit;
    came_in && untouched && exit.is_some_and(|e| e.conntrack_known && e.conntrack().is_none())
}

/// A rule in a sentence: `iptables-legacy nat/IP-MASQ rule 3`, with its owner where that is known.
pub(crate) fn name(rule: &Rule) -> String {
    let name = rule.name();
    match &rule.owner {
        Some(owner) => format!("{name} ({owner})"),
        None => name,
    }
}

/// What stopped a packet, in a sentence: a rule, or a chain's policy, which has no number.
pub(crate) fn stopper_name(rule: &Rule) -> String {
    match rule.name().strip_suffix(Rule::POLICY) {
        Some(chain) => format!("the policy of {chain}, since no rule there accepts it"),
        None => name(rule),
    }
}

fn name_at(at: At<'_>) -> String {
    name(&view(at, &[at], RuleEvidence::Replayed))
}
