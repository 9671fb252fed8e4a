//! What the rules add to a verdict: why a source was kept, and what is odd about the rule that
//! changed it.

use super::Context;
use super::findings::finding;
use crate::attribute::{Ruling, view};
use crate::evaluate::{Agreement, At, Exemption, words};
use crate::inventory::Role;
use crate::journey::Journey;
use crate::report::{
    Code, Finding, Rewrite, RewriteAgent, RewriteDirection, Rule, RuleEvidence, Severity,
    SourceCode, Verdict,
};
use crate::ruleset::{Backend, Chain, ChainKind, Hook, Ruleset};
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
        found.extend(unread(ruling, context));
        found.extend(unexplained(journey, ruling, rewrites, context));
    }
    if verdict.source == SourceCode::SourcePreserved {
        let out = rulings.iter().filter(|r| decides(r, context)).next_back();
        found.extend(out.and_then(kept));
    }
    for rewrite in rewrites
        .iter()
        .filter(|r| r.direction == RewriteDirection::Request)
    {
        let ruling = rulings
            .iter()
            .find(|r| Some(r.passage.netns.0) == rewrite.netns);
        found.extend(stale_address(rewrite, context));
        found.extend(unowned(rewrite));
        found.extend(ruling.and_then(|r| shadowed(rewrite, r)));
        found.extend(ruling.and_then(|r| two_backends(rewrite, r)));
    }
    found
}

/// The last namespace that could have translated on the way out: the node's, or the last one where
/// the node was not met. What a packet did inside its own pod is not asked.
fn decides(ruling: &Ruling<'_, '_>, context: &Context<'_>) -> bool {
    ruling.passage.exit.is_some() && context.inventory.role(ruling.passage.netns) == Role::Node
}

/// Why the source was kept.
fn kept(ruling: &Ruling<'_, '_>) -> Option<Finding> {
    let given = ruling.outcome.given(&ruling.seen);
    let [end] = given.ends.as_slice() else {
        return undecided(ruling);
    };
    if let Some(at) = end.untracked {
        return Some(untracked(at));
    }
    match end.exempted_by() {
        Some(exemption) => Some(exempt(exemption)),
        None if given.doubts.is_empty() && end.source.is_none() => Some(nothing_matches(ruling)),
        None => None,
    }
}

/// The end of the verdict's sentence: which rule kept the source.
pub(super) fn exempting(findings: &[Finding]) -> Option<String> {
    let exempts = |f: &&Finding| matches!(f.code, Code::ExemptByRule | Code::ExemptBySet);
    let rule = findings.iter().find(exempts)?.rule.as_ref()?;
    Some(format!("; {} exempts it", name(rule)))
}

fn exempt(exemption: &Exemption<'_>) -> Finding {
    let rule = view(exemption.by, &exemption.path, RuleEvidence::Replayed);
    let name = name(&rule);
    let (code, text) = match &exemption.member {
        Some(member) => (
            Code::ExemptBySet,
            format!("kept by {name}: it asks for a set, and the member {member} decides"),
        ),
        None => (Code::ExemptByRule, format!("kept by {name}: {}", rule.text)),
    };
    Finding {
        text,
        data: json!({
            "member": exemption.member,
            "instead_of": exemption.from.map(|at| name_at(at)),
        }),
        rule: Some(rule),
        ..finding(code, Severity::Info)
    }
}

fn untracked(at: At<'_>) -> Finding {
    let rule = view(at, &[at], RuleEvidence::Replayed);
    Finding {
        text: format!(
            "kept because {} says not to track the packet: rules that translate are not asked then",
            name(&rule)
        ),
        rule: Some(rule),
        ..finding(Code::ExemptByRule, Severity::Info)
    }
}

fn nothing_matches(ruling: &Ruling<'_, '_>) -> Finding {
    let near: Vec<String> = ruling
        .outcome
        .near_misses
        .iter()
        .map(|miss| format!("{} but for {}", name_at(miss.rule), words::test(miss.test)))
        .collect();
    let mut text = "no rule of any store on the node would translate it".to_owned();
    if let Some(first) = near.first() {
        text.push_str(&format!("; the nearest is {first}"));
    }
    Finding {
        text,
        data: json!({ "near": near }),
        ..finding(Code::NoRuleMatches, Severity::Info)
    }
}

/// More than one way is possible, and what was seen does not tell which.
fn undecided(ruling: &Ruling<'_, '_>) -> Option<Finding> {
    let answer = ruling.outcome.source();
    let depends = answer.depends_on.join("; ");
    (!depends.is_empty()).then(|| Finding {
        text: format!("which rule kept it cannot be told: it depends on {depends}"),
        data: json!({"depends_on": answer.depends_on}),
        ..finding(Code::RuleUncertain, Severity::Info)
    })
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
        Some(r.netns) == Some(Some(ruling.passage.netns.0))
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
        [Some(decision)] => format!("{} would translate it", name_at(decision.by)),
        [None] => "no rule would translate it".to_owned(),
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

/// The source became an address that nobody here has.
fn stale_address(rewrite: &Rewrite, context: &Context<'_>) -> Option<Finding> {
    let rule = rewrite.rule.as_ref()?;
    let netns = crate::event::NetnsId(rewrite.netns?);
    let gone = !context.inventory.owns(netns, rewrite.to.addr)
        && rewrite.field == crate::report::RewriteField::Src
        && rewrite.hook == Some(crate::report::RewriteHook::Postrouting);
    gone.then(|| Finding {
        text: format!(
            "{} names {}, which no interface there has: answers to it find nobody",
            name(rule),
            rewrite.to.addr
        ),
        fix: Some(format!(
            "let the rule masquerade, or give the address back (`ip addr | grep {}`)",
            rewrite.to.addr
        )),
        rule: Some(rule.clone()),
        ..finding(Code::StaleNatAddress, Severity::Warning)
    })
}

/// The rule that decided belongs to nobody that is known.
fn unowned(rewrite: &Rewrite) -> Option<Finding> {
    let rule = rewrite.rule.as_ref().filter(|r| r.owner.is_none())?;
    let source = matches!(
        rewrite.field,
        crate::report::RewriteField::Src | crate::report::RewriteField::Sport
    );
    source.then(|| Finding {
        text: format!(
            "{} is nobody's that is known: set by hand or by a script",
            name(rule)
        ),
        rule: Some(rule.clone()),
        ..finding(Code::UnownedRule, Severity::Info)
    })
}

/// A later rule would have translated to something else.
fn shadowed(rewrite: &Rewrite, ruling: &Ruling<'_, '_>) -> Option<Finding> {
    let rule = rewrite.rule.as_ref()?;
    let late = ruling.outcome.shadowed.iter().find(|s| is(s.by, rule))?;
    let mut text = format!(
        "{} is never reached: {} comes first",
        name_at(late.rule),
        name(rule)
    );
    if late.rule.table.id.backend != late.by.table.id.backend {
        text.push_str(" in another store");
    }
    Some(Finding {
        text,
        rule: Some(view(late.rule, &[late.rule], RuleEvidence::Replayed)),
        ..finding(Code::RuleShadowed, Severity::Info)
    })
}

fn is(at: At<'_>, rule: &Rule) -> bool {
    let id = at.id();
    (
        id.table.backend.to_string(),
        id.table.name,
        id.chain,
        Some(id.index),
    ) == (
        rule.backend.clone(),
        rule.table.clone(),
        rule.chain.clone(),
        rule.index,
    )
}

/// More than one store holds rules that translate sources.
fn two_backends(rewrite: &Rewrite, ruling: &Ruling<'_, '_>) -> Option<Finding> {
    let rule = rewrite.rule.as_ref()?;
    let legacy = |b: &Backend| *b == Backend::IptablesLegacy;
    let stores = stores(ruling.rules);
    let both = stores.iter().any(legacy) && stores.iter().any(|b| !legacy(b));
    let names: Vec<String> = stores.iter().map(ToString::to_string).collect();
    both.then(|| Finding {
        text: format!(
            "two rule stores translate here ({}); this came from {}, and nothing in the other can prevent it",
            names.join(" and "),
            name(rule)
        ),
        data: json!({ "stores": names }),
        ..finding(Code::TwoBackends, Severity::Warning)
    })
}

/// Stores with rules in a NAT chain of postrouting, or in chains that such a one may call.
fn stores(rules: &Ruleset) -> BTreeSet<Backend> {
    let translates = |chain: &Chain| {
        !chain.rules.is_empty()
            && chain
                .base
                .as_ref()
                .is_some_and(|b| b.kind == ChainKind::Nat && b.hook == Hook::Postrouting)
    };
    let live = rules.tables.iter().filter(|t| !t.dormant);
    live.filter(|t| t.chains.iter().any(translates))
        .map(|t| t.id.backend)
        .collect()
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
