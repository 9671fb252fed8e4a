//! What is odd about the rule that rewrote the source.

use super::super::findings::finding;
use super::{name, name_at};
use crate::attribute::view;
use crate::evaluate::{At, Shadowed};
use crate::event::NetnsId;
use crate::inventory::Inventory;
use crate::report::{
    Code, Finding, Rewrite, RewriteField, RewriteHook, Rule, RuleEvidence, Severity,
};
use crate::ruleset::{Backend, Chain, ChainKind, Hook, Ruleset};
use serde_json::json;
use std::collections::BTreeSet;

/// Findings about the rule behind one rewrite. `asked`: the rules of its namespace, and what they say
/// comes too late.
pub(crate) fn findings(
    rewrite: &Rewrite,
    asked: Option<(&Ruleset, &[Shadowed<'_>])>,
    inventory: &Inventory,
) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(stale_address(rewrite, inventory));
    found.extend(unowned(rewrite));
    found.extend(asked.and_then(|(_, late)| shadowed(rewrite, late)));
    found.extend(asked.and_then(|(rules, _)| two_backends(rewrite, rules)));
    found
}

/// The source became an address that nobody here has.
fn stale_address(rewrite: &Rewrite, inventory: &Inventory) -> Option<Finding> {
    let rule = rewrite.rule.as_ref()?;
    let netns = NetnsId(rewrite.netns?);
    let gone = !inventory.owns(netns, rewrite.to.addr)
        && rewrite.field == RewriteField::Src
        && rewrite.hook == Some(RewriteHook::Postrouting);
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
    let source = matches!(rewrite.field, RewriteField::Src | RewriteField::Sport);
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
fn shadowed(rewrite: &Rewrite, late: &[Shadowed<'_>]) -> Option<Finding> {
    let rule = rewrite.rule.as_ref()?;
    let late = late.iter().find(|s| is(s.by, rule))?;
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
fn two_backends(rewrite: &Rewrite, rules: &Ruleset) -> Option<Finding> {
    let rule = rewrite.rule.as_ref()?;
    let legacy = |b: &Backend| *b == Backend::IptablesLegacy;
    let stores = stores(rules);
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
