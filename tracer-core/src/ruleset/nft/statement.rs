//! Statements of a rule as steps.

use super::super::{Action, Condition, Field, SetId, Step, Test, Verdict};
use super::look::{self, Left, left};
use super::sets::{self, Pool};
use super::{nat, test};
use serde_json::Value as Json;

/// Statements that decide nothing.
const PASSING: &[&str] = &[
    "counter",
    "log",
    "last",
    "dup",
    "ct helper",
    "ct timeout",
    "ct expectation",
    "secmark",
];

/// Statements that let a rule go on now and then.
const CHANCE: &[&str] = &["limit", "quota", "meter", "ct count"];

/// The steps of a statement.
pub(super) fn read(json: &Json, pool: &mut Pool<'_>) -> Vec<Step> {
    let Some((name, value)) = json.as_object().and_then(|object| object.iter().next()) else {
        return vec![Step::Do(Action::Unknown(json.to_string()))];
    };
    if let Some(verdict) = sets::verdict(json) {
        return vec![Step::Do(Action::Verdict(verdict))];
    }
    let steps = match name.as_str() {
        "match" => Some(test::read(value, pool)),
        "reject" => does(Action::Verdict(Verdict::Reject(reject(value)))),
        "vmap" => verdict_map(value, pool),
        "mangle" => mangle(value, pool),
        "snat" | "dnat" | "masquerade" | "redirect" => nat::read(name, value, pool),
        "notrack" => does(Action::Notrack),
        "flow" => does(Action::Offload),
        "tproxy" => does(Action::Tproxy),
        "set" | "map" => Some(update(name, json, value, pool)),
        "xt" => return xt(json, value),
        name if PASSING.contains(&name) => does(Action::Pass(json.to_string())),
        name if CHANCE.contains(&name) => Some(vec![chance(json)]),
        _ => None,
    };
    steps.unwrap_or_else(|| vec![Step::Do(Action::Unknown(json.to_string()))])
}

fn does(action: Action) -> Option<Vec<Step>> {
    Some(vec![Step::Do(action)])
}

fn chance(json: &Json) -> Step {
    let condition = Condition::Chance(json.to_string());
    Step::Test(Test {
        negated: false,
        condition,
    })
}

/// An x_tables extension; `nft` does not tell what it is asked.
fn xt(json: &Json, value: &Json) -> Vec<Step> {
    let word = |name| value.get(name).and_then(Json::as_str).unwrap_or_default();
    match (word("type"), word("name")) {
        ("match", "comment") => Vec::new(),
        ("match", name) => {
            let condition = Condition::Unknown(format!("xt match {name}"));
            vec![Step::Test(Test {
                negated: false,
                condition,
            })]
        }
        (_, "LOG" | "NFLOG" | "TRACE" | "TCPMSS" | "CHECKSUM") => {
            vec![Step::Do(Action::Pass(json.to_string()))]
        }
        ("target", name) => vec![Step::Do(Action::Unknown(format!("xt target {name}")))],
        _ => vec![Step::Do(Action::Unknown(json.to_string()))],
    }
}

fn reject(json: &Json) -> String {
    let word = |name| json.get(name).and_then(Json::as_str);
    match (word("type"), word("expr")) {
        (Some(kind), Some(what)) => format!("{kind} {what}"),
        (Some(kind), None) => kind.to_owned(),
        (None, _) => "port-unreachable".to_owned(),
    }
}

/// `KEY vmap @NAME` or `KEY vmap { … }`.
fn verdict_map(json: &Json, pool: &mut Pool<'_>) -> Option<Vec<Step>> {
    let data = json.get("data")?;
    let inline = data.get("set").and_then(Json::as_array);
    let look = match left(json.get("key")?, pool.family()) {
        Left::Chance => return any_of(inline?),
        Left::Fields(look) if look.mask.is_none() => look,
        _ => return None,
    };
    let (fields, kinds): (Vec<_>, Vec<_>) = look.fields.into_iter().unzip();
    let map = match (data.as_str(), inline) {
        (Some(name), _) => SetId::Named(pool.table().clone(), name.strip_prefix('@')?.to_owned()),
        (None, Some(elements)) => pool.anonymous(elements, &kinds, Some(&[]))?,
        (None, None) => return None,
    };
    let steps = look.needs.into_iter().map(Step::Test);
    Some(
        steps
            .chain([Step::Do(Action::VerdictMap { fields, map })])
            .collect(),
    )
}

/// Which element chance takes is not predicted.
fn any_of(elements: &[Json]) -> Option<Vec<Step>> {
    let action = |pair: &Json| sets::verdict(pair.as_array()?.get(1)?).map(Action::Verdict);
    let actions = elements.iter().map(action).collect::<Option<_>>()?;
    does(Action::ChanceOf(actions))
}

/// `add|update|delete @SET { … STATEMENTS }`: with a limit inside it, the rule goes on now and then.
fn update(name: &str, json: &Json, value: &Json, pool: &mut Pool<'_>) -> Vec<Step> {
    if let Some(set) = value.get(name).and_then(Json::as_str) {
        pool.mark_dynamic(set);
    }
    let inner = value
        .get("stmt")
        .and_then(Json::as_array)
        .into_iter()
        .flatten();
    let limits = inner
        .into_iter()
        .any(|stmt| CHANCE.iter().any(|name| stmt.get(name).is_some()));
    if limits {
        vec![chance(json)]
    } else {
        vec![Step::Do(Action::Pass(json.to_string()))]
    }
}

/// `KEY set VALUE`.
fn mangle(json: &Json, pool: &mut Pool<'_>) -> Option<Vec<Step>> {
    let (key, value) = (json.get("key")?, json.get("value")?);
    let word = |of: &str| {
        key.get(of)
            .and_then(|k| k.get("key"))
            .and_then(Json::as_str)
    };
    match (word("meta"), word("ct")) {
        (Some("mark"), _) => does(mark(value, false, pool)?),
        (_, Some("mark")) => does(mark(value, true, pool)?),
        (_, Some("zone")) => does(Action::SetZone(u16::try_from(value.as_u64()?).ok()?)),
        (Some("priority" | "nftrace" | "pkttype" | "secmark"), _)
        | (_, Some("label" | "event" | "secmark")) => does(Action::Pass(json.to_string())),
        (None, None) if key.get("tcp option").is_some() => does(Action::Pass(json.to_string())),
        (None, None) => write(key, value, pool),
        _ => None,
    }
}

/// The new mark out of a constant, of itself, or of the other mark.
fn mark(value: &Json, of_entry: bool, pool: &Pool<'_>) -> Option<Action> {
    let set = |and, xor| {
        if of_entry {
            Action::SetCtMark { and, xor }
        } else {
            Action::SetMark { and, xor }
        }
    };
    if let Some(number) = value.as_u64() {
        return Some(set(0, u32::try_from(number).ok()?));
    }
    let look = look::look(value, pool.family())?;
    match (look.fields.as_slice(), of_entry) {
        ([(Field::Mark { and, xor }, _)], false) | ([(Field::CtMark { and, xor }, _)], true) => {
            Some(set(*and, *xor))
        }
        ([(Field::CtMark { and, xor: 0 }, _)], false) => Some(Action::RestoreMark {
            nfmask: u32::MAX,
            ctmask: *and,
        }),
        ([(Field::Mark { and, xor: 0 }, _)], true) => Some(Action::SaveMark {
            nfmask: *and,
            ctmask: u32::MAX,
        }),
        _ => None,
    }
}

/// Writes to a header. Only addresses and ports matter here, besides headers that are not known.
fn write(key: &Json, value: &Json, pool: &Pool<'_>) -> Option<Vec<Step>> {
    let look = look::look(key, pool.family())?;
    let [(field, kind)] = look.fields.as_slice() else {
        return None;
    };
    let action = match field {
        Field::Saddr | Field::Daddr | Field::Sport | Field::Dport => Action::SetField {
            field: field.clone(),
            value: kind.chosen(value),
        },
        Field::Ttl => Action::Pass(format!("{key} set {value}")),
        _ => return None,
    };
    Some(
        look.needs
            .into_iter()
            .map(Step::Test)
            .chain([Step::Do(action)])
            .collect(),
    )
}
