//! Rules that were seen to run, found in the rules as they were read.

use super::ruling::{Ruling, hook};
use crate::evaluate::At;
use crate::event::NetnsId;
use crate::observed::{RuleHit, RulePlace};
use crate::report::RewriteHook;
use crate::ruleset::{Action, Backend, Chain, Family, Hook, NatKind, Rule, Ruleset, Step, Table};

/// The NAT rule that was seen to translate the flow's first packet in a ruling's namespace.
pub(super) fn translator<'b>(
    ruling: &Ruling<'_, 'b>,
    hits: &[&RuleHit],
    wanted: Option<RewriteHook>,
    source: bool,
) -> Option<At<'b>> {
    let here = hits.iter().filter(|hit| hit.netns == ruling.passage.netns);
    let mut found = here
        .filter(|hit| same_hook(hit.hook, wanted))
        .filter_map(|hit| Some((hit, locate(ruling.rules, &hit.place)?)))
        .filter(|(hit, at)| translates(at.rule, hit.hook, source))
        .map(|(_, at)| at);
    let first = found.next()?;
    // Two rules for one packet: which of them did it is not for us to choose.
    found.all(|other| other == first).then_some(first)
}

/// Whether a rule was seen among those that a flow's first packet met in a namespace.
pub(crate) fn was_met(at: At<'_>, rules: &Ruleset, netns: NetnsId, hits: &[&RuleHit]) -> bool {
    let here = hits.iter().filter(|hit| hit.netns == netns);
    let places = here.flat_map(|hit| hit.path.iter().map(|(p, _)| p).chain([&hit.place]));
    let mut found = places.filter_map(|place| locate(rules, place));
    found.any(|met| met == at)
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
pub(super) fn locate<'b>(rules: &'b Ruleset, place: &RulePlace) -> Option<At<'b>> {
    match place {
        RulePlace::Legacy {
            family,
            table,
            chain,
            index,
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
