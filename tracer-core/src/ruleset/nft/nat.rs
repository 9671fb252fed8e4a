//! Translations.

use super::super::{Action, Nat, NatKind, SetId, Step, Value};
use super::kind::Kind;
use super::look::{Left, left, needs};
use super::sets::{self, Pool};
use serde_json::Value as Json;

/// `snat`, `dnat`, `masquerade`, `redirect`, each with what it needs.
pub(super) fn read(name: &str, json: &Json, pool: &mut Pool<'_>) -> Option<Vec<Step>> {
    let flag = |flag| {
        json.get("flags")
            .is_some_and(|flags| sets::has(flags, flag))
    };
    let kind = match name {
        _ if flag("netmap") => NatKind::Netmap,
        "snat" => NatKind::Snat,
        "dnat" => NatKind::Dnat,
        "masquerade" => NatKind::Masquerade,
        _ => NatKind::Redirect,
    };
    let random = flag("random") || flag("fully-random");
    let mut nat = Nat {
        kind,
        addrs: Vec::new(),
        ports: None,
        map: None,
        random,
    };
    let family = json.get("family").and_then(Json::as_str);
    let mut steps: Vec<_> = family
        .and_then(|family| needs(family, pool.family()))
        .into_iter()
        .map(Step::Test)
        .collect();
    if let Some(port) = json.get("port") {
        nat.ports = Some(ports(port)?);
    }
    let action = match json.get("addr").map(|addr| (addr, addr.get("map"))) {
        None => Action::Nat(nat),
        Some((addr, None)) => {
            nat.addrs.push(Kind::Addr.chosen(addr)?);
            Action::Nat(nat)
        }
        Some((_, Some(map))) => mapped(map, nat, pool, &mut steps)?,
    };
    steps.push(Step::Do(action));
    Some(steps)
}

fn ports(json: &Json) -> Option<(u16, u16)> {
    match Kind::of_type("inet_service").value(json)? {
        Value::Number(port) => Some((u16::try_from(port).ok()?, u16::try_from(port).ok()?)),
        Value::Numbers(low, high) => Some((u16::try_from(low).ok()?, u16::try_from(high).ok()?)),
        _ => None,
    }
}

/// `KEY map @NAME` or `KEY map { … }`; where chance chooses, every address may come out.
fn mapped(json: &Json, mut nat: Nat, pool: &mut Pool<'_>, steps: &mut Vec<Step>) -> Option<Action> {
    let data = json.get("data")?;
    let inline = data.get("set").and_then(Json::as_array);
    let look = match left(json.get("key")?, pool.family()) {
        Left::Chance => return chosen(inline?, nat),
        Left::Fields(look) if look.mask.is_none() => look,
        _ => return None,
    };
    let (fields, kinds): (Vec<_>, Vec<_>) = look.fields.into_iter().unzip();
    let map = match (data.as_str(), inline) {
        (Some(name), _) => SetId::Named(pool.table().clone(), name.strip_prefix('@')?.to_owned()),
        (None, Some(elements)) => pool.anonymous(elements, &kinds, Some(data_kinds(elements)))?,
        (None, None) => return None,
    };
    nat.map = Some((fields, map));
    steps.extend(look.needs.into_iter().map(Step::Test));
    Some(Action::Nat(nat))
}

/// One translation that may take any of the addresses, or, where each brings its port, one for each.
fn chosen(elements: &[Json], nat: Nat) -> Option<Action> {
    let data = elements.iter().map(|pair| pair.as_array()?.get(1));
    let data = data.collect::<Option<Vec<_>>>()?;
    let addrs = data
        .iter()
        .map(|json| Kind::Addr.chosen(json))
        .collect::<Option<Vec<_>>>();
    if let Some(addrs) = addrs {
        return Some(Action::Nat(Nat { addrs, ..nat }));
    }
    let each = data.iter().map(|json| {
        let [addr, port] = json.get("concat")?.as_array()?.as_slice() else {
            return None;
        };
        let addrs = vec![Kind::Addr.chosen(addr)?];
        Some(Action::Nat(Nat {
            addrs,
            ports: Some(ports(port)?),
            ..nat.clone()
        }))
    });
    each.collect::<Option<_>>().map(Action::ChanceOf)
}

/// Maps for translations give an address, or an address and a port.
fn data_kinds(elements: &[Json]) -> &'static [Kind] {
    const PORT: Kind = Kind::Number(super::super::words::Vocabulary::Plain, 16);
    let first = elements
        .first()
        .and_then(Json::as_array)
        .and_then(|pair| pair.get(1));
    match first.and_then(|data| data.get("concat")) {
        Some(_) => &[Kind::Addr, PORT],
        None => &[Kind::Addr],
    }
}
