//! Rules that were seen to run, found in the rules as they were read.

use super::ruling::{Ruling, hook};
use super::stopped::Stopper;
use crate::evaluate::At;
use crate::observed::{RuleHit, RulePlace};
use crate::report::{RewriteHook, RuleEvidence};
use crate::ruleset::{
    Action, Backend, Chain, Family, Hook, NatKind, Policy, Rule, Ruleset, Step, Table, Verdict,
};

/// The NAT rule that was seen to translate the flow's first packet in a ruling's namespace.
pub(super) fn translator<'b>(
    ruling: &Ruling<'_, 'b>,
    hits: &[&RuleHit],
    wanted: Option<RewriteHook>,
    source: bool,
) -> Option<At<'b>> {
    let here = hits.iter().filter(|hit| hit.netns == ruling.passage.netns);
    let mut found = here
        .map(|hit| (hit, hook_of(hit, ruling.rules)))
        .filter(|(_, hook)| same_hook(*hook, wanted))
        .filter_map(|(hit, hook)| Some((locate(ruling.rules, &hit.place)?, hook)))
        .filter(|(at, hook)| translates(at.rule, *hook, source))
        .map(|(at, _)| at);
    let first = found.next()?;
    // Two rules for one packet: which of them did it is not for us to choose.
    found.all(|other| other == first).then_some(first)
}

/// How it is known that a flow's first packet met a rule in a ruling's namespace: the rule was
/// among those that were seen there, or today's rules lead to it.
pub(crate) fn evidence(at: At<'_>, ruling: &Ruling<'_, '_>, hits: &[&RuleHit]) -> RuleEvidence {
    let netns = ruling.passage.netns;
    let here = hits.iter().filter(|hit| hit.netns == netns);
    let places = here.flat_map(|hit| hit.path.iter().map(|(p, _)| p).chain([&hit.place]));
    let mut found = places.filter_map(|place| locate(ruling.rules, place));
    match found.any(|met| met == at) {
        true => RuleEvidence::Observed,
        false => RuleEvidence::Replayed,
    }
}

/// The hook of a hit. nftables' trace does not tell it: a traversal begins in a base chain, with the
/// first rule that matched there.
fn hook_of(hit: &RuleHit, rules: &Ruleset) -> Option<Hook> {
    let first = hit.path.first().map_or(&hit.place, |(place, _)| place);
    let base = || Some(locate(rules, first)?.chain.base.as_ref()?.hook);
    hit.hook.or_else(base)
}

/// What was seen to stop a packet last: hits of its own, in the order in which they were seen.
pub(super) fn stopper<'b>(rules: &'b Ruleset, hits: &[&RuleHit]) -> Option<Stopper<'b>> {
    hits.iter().rev().find_map(|hit| {
        let Some(found) = locate(rules, &hit.place) else {
            return policy(rules, hit);
        };
        // iptables-legacy's trace does not say what a rule said (and calls any verdict without a condition
        // a return); what the rule does tells.
        let legacy = found.table.id.backend == Backend::IptablesLegacy;
        let stops = match &hit.verdict {
            Some(verdict) if !legacy => *verdict == Verdict::Drop,
            _ => drops(found.rule),
        };
        stops.then_some(Stopper::Rule(found))
    })
}

fn drops(rule: &Rule) -> bool {
    let ends = |step: &Step| {
        matches!(
            step,
            Step::Do(Action::Verdict(Verdict::Drop | Verdict::Reject(_)))
        )
    };
    rule.steps.iter().any(ends)
}

/// The chain whose policy was seen to decide, where that is drop.
fn policy<'b>(rules: &'b Ruleset, hit: &RuleHit) -> Option<Stopper<'b>> {
    let RulePlace::Policy {
        family,
        table,
        chain,
        index,
    } = &hit.place
    else {
        return None;
    };
    let legacy = index.is_some();
    let table = rules.tables.iter().find(|t| {
        let id = &t.id;
        let store = (id.backend == Backend::IptablesLegacy) == legacy;
        store && (id.family, id.name.as_str()) == (*family, table.as_str())
    })?;
    let chain = table.chain(chain)?;
    let stops = chain.base.as_ref()?.policy == Policy::Drop;
    stops.then_some(Stopper::Policy(table, chain))
}

fn same_hook(seen: Option<Hook>, wanted: Option<RewriteHook>) -> bool {
    let (Some(seen), Some(wanted)) = (seen, wanted) else {
        return true;
    };
    hook(seen) == Some(wanted)
}

fn translates(rule: &Rule, hook: Option<Hook>, source: bool) -> bool {
    rule.steps.iter().any(|step| match step {
        Step::Do(Action::Nat(nat)) => match hook {
            Some(hook) => nat.kind.is_source(hook) == source,
            None => matches!(nat.kind, NatKind::Masquerade | NatKind::Snat) == source,
        },
        _ => false,
    })
}

/// The rule at a place.
fn locate<'b>(rules: &'b Ruleset, place: &RulePlace) -> Option<At<'b>> {
    match place {
        RulePlace::Legacy {
            family,
            table,
            chain,
            index,
        }
        | RulePlace::Policy {
            family,
            table,
            chain,
            index: Some(index),
        } => {
            let is = |t: &&Table| is_table(t, Backend::IptablesLegacy, *family, table);
            let table = rules.tables.iter().find(is)?;
            let chain = table.chain(chain)?;
            at(table, chain, |rule| rule.index == *index)
        }
        RulePlace::Nft {
            family,
            table,
            chain,
            chain_cut,
            handle,
            index,
            ..
        } => {
            let nft = |t: &&Table| {
                [Backend::IptablesNft, Backend::Nft]
                    .into_iter()
                    .any(|backend| is_table(t, backend, *family, table))
            };
            let table = rules.tables.iter().find(nft)?;
            let named = |c: &&Chain| match chain_cut {
                true => c.name.starts_with(chain.as_str()),
                false => c.name == *chain,
            };
            let mut chains = table.chains.iter().filter(named);
            chains.find_map(|chain| {
                at(table, chain, |rule| match rule.handle {
                    Some(known) => known == *handle,
                    None => Some(rule.index) == *index,
                })
            })
        }
        RulePlace::Policy { .. } | RulePlace::LegacyOffset { .. } | RulePlace::NotFound => None,
    }
}

fn is_table(table: &Table, backend: Backend, family: Family, name: &str) -> bool {
    (table.id.backend, table.id.family, table.id.name.as_str()) == (backend, family, name)
}

fn at<'b>(table: &'b Table, chain: &'b Chain, is: impl Fn(&Rule) -> bool) -> Option<At<'b>> {
    let rule = chain.rules.iter().find(|rule| is(rule))?;
    Some(At { table, chain, rule })
}
