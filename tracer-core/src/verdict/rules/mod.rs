//! What the rules add to a verdict: why a source was kept, and what is odd about the rule that
//! changed it.

mod decided;
mod kept;

use super::Context;
use super::findings::finding;
use crate::attribute::{self, Ruling, view};
use crate::evaluate::{Agreement, At};
use crate::inventory::Role;
use crate::journey::Journey;
use crate::report::{
    Code, Finding, Rewrite, RewriteAgent, RewriteDirection, Rule, RuleEvidence, Severity,
    SourceCode, Verdict,
};
use serde_json::json;

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
        found.extend(out.and_then(|ruling| kept::kept(ruling, context.hits)));
    }
    for rewrite in rewrites
        .iter()
        .filter(|r| r.direction == RewriteDirection::Request)
    {
        let ruling = rulings
            .iter()
            .find(|r| Some(r.passage.netns.0) == rewrite.netns);
        found.extend(decided::findings(rewrite, ruling, context));
    }
    found
}

/// The last namespace that could have translated on the way out: the node's, or the last one where
/// the node was not met. What a packet did inside its own pod is not asked.
fn decides(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> bool {
    ruling.passage.exit.is_some() && context.inventory.role(ruling.passage.netns) == Role::Node
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
    (!what.is_empty()).then(|| Finding {
        text: format!(
            "rules {} could not be read: {}",
            place(ruling, context),
            what.join("; ")
        ),
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
            place(ruling, context)
        ),
        data: json!({"gone": gone}),
        ..finding(Code::RuleUncertain, Severity::Info)
    })
}

fn place(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> String {
    match context.inventory.role(ruling.passage.netns) {
        Role::Node => "of the node".to_owned(),
        _ => match context.inventory.name(ruling.passage.netns) {
            Some(name) => format!("in {name}"),
            None => format!("in namespace {}", ruling.passage.netns.0),
        },
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
    let why = if journey.predates {
        "the flow keeps what it was given when it began"
    } else if ruling.changed {
        "the rules were changed at about that time"
    } else {
        "what did it is not known"
    };
    Some(Finding {
        text: format!(
            "the rules {} as they are now do not explain what was seen: by them {would}; {why}",
            place(ruling, context)
        ),
        fix: journey
            .predates
            .then(|| "open the connection anew".to_owned()),
        ..finding(Code::NoRuleExplains, Severity::Warning)
    })
}

/// A rule in a sentence: `iptables-legacy nat/IP-MASQ rule 3`, with its owner where that is known.
pub(super) fn name(rule: &Rule) -> String {
    let number = match (rule.backend.as_str(), rule.index, rule.handle) {
        ("nft", _, Some(handle)) => format!(" handle {handle}"),
        (_, Some(index), _) => format!(" rule {index}"),
        (_, None, Some(handle)) => format!(" handle {handle}"),
        (_, None, None) => String::new(),
    };
    let owner = rule
        .owner
        .as_ref()
        .map_or(String::new(), |o| format!(" ({o})"));
    let table = match rule.backend.as_str() {
        "nft" => format!("{} {}", rule.family, rule.table),
        _ => rule.table.clone(),
    };
    format!("{} {table}/{}{number}{owner}", rule.backend, rule.chain)
}

fn name_at(at: At<'_>) -> String {
    name(&view(at, &[at], RuleEvidence::Replayed))
}
