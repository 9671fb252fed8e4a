//! Rules.

use super::super::{Condition, Field, Rule, Step, Table, TableId, Test, owner};
use super::listing::Listing;
use super::{Ids, Listed, expressions, object, pair, sets, statement, word};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Puts the rules into their chains.
pub(super) fn read(rules: &[&RawValue], ids: &Ids, listed: &mut Listed) {
    let mut at = BTreeMap::new();
    for (t, table) in listed.tables.iter().enumerate() {
        for (c, chain) in table.chains.iter().enumerate() {
            at.insert((table.id.clone(), chain.name.clone()), (t, c));
        }
    }
    let mut counts: BTreeMap<TableId, u32> = BTreeMap::new();
    for raw in rules {
        let object = object(raw, &mut listed.unread);
        let Some(json) = object.as_ref().and_then(|object| object.get("rule")) else {
            continue;
        };
        let id = pair(json, "table").and_then(|key| ids.get(&key));
        let (Some(id), Some(chain)) = (id, word(json, "chain")) else {
            continue;
        };
        let Some((t, c)) = at.get(&(id.clone(), chain.to_owned())) else {
            continue;
        };
        let count = counts.entry(id.clone()).or_default();
        let mut pool = sets::Pool {
            table: id,
            sets: &mut listed.sets,
            count,
        };
        let rule = rule(json, chain, &mut pool);
        let rules = &mut listed.tables[*t].chains[*c].rules;
        let index = u32::try_from(rules.len() + 1).unwrap_or(u32::MAX);
        rules.push(Rule { index, ..rule });
    }
}

fn rule(json: &Json, chain: &str, pool: &mut sets::Pool<'_>) -> Rule {
    let comment = word(json, "comment").map(str::to_owned);
    let mut steps = Vec::new();
    for step in expressions(json).flat_map(|stmt| statement::read(stmt, pool)) {
        if !(is_need(&step) && steps.contains(&step)) {
            steps.push(step);
        }
    }
    Rule {
        index: 0,
        handle: json.get("handle").and_then(Json::as_u64),
        text: json.get("expr").map(Json::to_string).unwrap_or_default(),
        owner: owner::of_nft(&pool.table().name, chain, comment.as_deref()),
        comment,
        steps,
    }
}

/// Tests that headers need: once is enough, no rule changes what they look at.
fn is_need(step: &Step) -> bool {
    let Step::Test(Test {
        condition: Condition::Compare { field, .. },
        ..
    }) = step
    else {
        return false;
    };
    matches!(field, Field::Proto | Field::Version)
}

/// Takes the rules' text from the listing, chain by chain, where both list the very same rules.
pub(super) fn texts(table: &mut Table, listing: &Listing) {
    let key = (table.id.family.to_string(), table.id.name.clone());
    let Some(text) = listing.tables.get(&key) else {
        return;
    };
    for chain in &mut table.chains {
        let Some(text) = text.chains.get(&chain.name) else {
            continue;
        };
        let handles = chain.rules.iter().map(|rule| rule.handle);
        if handles.eq(text.rules.iter().map(|(handle, _)| Some(*handle))) {
            for (rule, (_, text)) in chain.rules.iter_mut().zip(&text.rules) {
                rule.text.clone_from(text);
            }
        }
    }
}
