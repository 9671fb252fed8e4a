//! `match` statements as tests.

use super::super::words::{self, Vocabulary};
use super::super::{Condition, Field, Op, SetId, Step, Test, Value};
use super::kind::{Kind, number};
use super::look::{Left, Look, left};
use super::sets::Pool;
use serde_json::Value as Json;
use std::net::IpAddr;

/// The tests of a match, in order.
pub(super) fn read(json: &Json, pool: &mut Pool<'_>) -> Vec<Step> {
    let unknown = || vec![test(Condition::Unknown(json.to_string()))];
    let Some(of) = json.get("left") else {
        return unknown();
    };
    match left(of, pool.family()) {
        Left::Chance => vec![test(Condition::Chance(json.to_string()))],
        Left::Unknown => unknown(),
        Left::Fields(look) => {
            let needs = look.needs.clone();
            let Some(last) = compare(look, json, pool) else {
                return unknown();
            };
            needs.into_iter().chain([last]).map(Step::Test).collect()
        }
    }
}

fn test(condition: Condition) -> Step {
    Step::Test(Test {
        negated: false,
        condition,
    })
}

fn compare(look: Look, json: &Json, pool: &mut Pool<'_>) -> Option<Test> {
    let right = json.get("right")?;
    let (op, negated) = match json.get("op")?.as_str()? {
        "==" => (Op::Equal, false),
        "!=" => (Op::Equal, true),
        "in" => (Op::HasAny, false),
        "!" => (Op::HasAny, true),
        "<" => (Op::Less, false),
        "<=" => (Op::AtMost, false),
        ">" => (Op::Greater, false),
        ">=" => (Op::AtLeast, false),
        _ => return None,
    };
    if let Some(mask) = look.mask.clone() {
        return masked(&look, &mask, op, right).map(|test| Test {
            negated: test.negated != negated,
            ..test
        });
    }
    let condition = condition(look, op, right, pool)?;
    Some(Test { negated, condition })
}

fn condition(look: Look, op: Op, right: &Json, pool: &mut Pool<'_>) -> Option<Condition> {
    if let Some(name) = right.as_str().and_then(|name| name.strip_prefix('@')) {
        let set = SetId::Named(pool.table().clone(), name.to_owned());
        let fields = look.fields.into_iter().map(|(field, _)| field).collect();
        return (op == Op::Equal).then_some(Condition::Member { fields, set });
    }
    let (field, kind) = match look.fields.as_slice() {
        [(field, kind)] => (field.clone(), *kind),
        _ => return (op == Op::Equal).then(|| concatenation(look, right, pool))?,
    };
    if op == Op::HasAny {
        let Kind::Number(vocabulary, _) = kind else {
            return None;
        };
        let flags = matches!(
            field,
            Field::CtState | Field::CtStatus | Field::TcpFlags { .. }
        );
        let values = vec![Value::Number(number(right, vocabulary)?)];
        return flags.then_some(Condition::Compare { field, op, values });
    }
    let values = match right.get("set").and_then(Json::as_array) {
        Some(list) => list
            .iter()
            .map(|one| kind.value(bare(one)))
            .collect::<Option<_>>()?,
        None => vec![kind.value(right)?],
    };
    Some(Condition::Compare { field, op, values })
}

/// Fields together in a set that is written in the rule, or equal to one element.
fn concatenation(look: Look, right: &Json, pool: &mut Pool<'_>) -> Option<Condition> {
    let single = [right.clone()];
    let elements = right
        .get("set")
        .and_then(Json::as_array)
        .map_or(&single[..], Vec::as_slice);
    let (fields, kinds): (Vec<_>, Vec<_>) = look.fields.into_iter().unzip();
    let set = pool.anonymous(elements, &kinds, None)?;
    Some(Condition::Member { fields, set })
}

/// The value inside `{"elem": {"val": …}}`.
fn bare(json: &Json) -> &Json {
    json.get("elem")
        .and_then(|elem| elem.get("val"))
        .unwrap_or(json)
}

/// A field under a mask: an address with bits of any pattern, bits of a state that are (not) 0, or
/// the fragment's offset.
fn masked(look: &Look, mask: &Json, op: Op, right: &Json) -> Option<Test> {
    let [(field, kind)] = look.fields.as_slice() else {
        return None;
    };
    if op != Op::Equal {
        return None;
    }
    let compare = |op, value| Condition::Compare {
        field: field.clone(),
        op,
        values: vec![value],
    };
    match (field, kind) {
        (_, Kind::Addr) => {
            let mask: IpAddr = mask.as_str()?.parse().ok()?;
            let Value::Masked { addr, .. } = words::network(right.as_str()?)? else {
                return None;
            };
            let value = words::masked(addr, mask)?;
            let fits = value == Value::Masked { addr, mask };
            fits.then(|| Test {
                negated: false,
                condition: compare(Op::Equal, value),
            })
        }
        (Field::CtState | Field::CtStatus, Kind::Number(words, _)) if right.as_u64() == Some(0) => {
            let value = Value::Number(number(mask, *words)?);
            Some(Test {
                negated: true,
                condition: compare(Op::HasAny, value),
            })
        }
        (Field::LaterFragment, _) if number(mask, Vocabulary::Plain)? == 0x1fff => {
            let first = right.as_u64() == Some(0);
            let value = Value::Number(0);
            first.then(|| Test {
                negated: false,
                condition: compare(Op::Equal, value),
            })
        }
        _ => None,
    }
}
