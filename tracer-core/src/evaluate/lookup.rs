//! Lookups in sets and maps.

use super::bits::Truth;
use super::index::Rules;
use super::members::Members;
use super::read::{Reading, View};
use crate::ruleset::{Element, Field, Op, Set, SetId, Value};

/// What a set says of a packet.
#[derive(Debug)]
pub(super) enum Lookup<'r> {
    /// This element holds it.
    Found(&'r Element),
    /// None does (or an exception does).
    Missing,
    /// Perhaps one of these; an empty list: the set itself is not known.
    Maybe(Vec<&'r Element>),
    /// The packet has no such field.
    Absent,
}

/// Looks fields up in a set.
pub(super) fn lookup<'r>(
    view: &View<'_, 'r>,
    rules: &Rules<'r>,
    fields: &[Field],
    id: &SetId,
) -> Lookup<'r> {
    let Some(members) = rules.sets.get(id) else {
        return Lookup::Maybe(Vec::new());
    };
    let set = members.set();
    let key: Vec<Reading<'_>> = fields.iter().map(|field| view.read(field)).collect();
    if key.iter().any(|part| absent(*part, set)) {
        // ipset's own: the set has no such element (net/netfilter/xt_set.c inverts that).
        return match id {
            SetId::Ipset(_) => Lookup::Missing,
            _ => Lookup::Absent,
        };
    }
    if set.dynamic {
        return Lookup::Maybe(Vec::new());
    }
    search(view, members, &key)
}

fn absent(part: Reading<'_>, set: &Set) -> bool {
    match part {
        Reading::Absent => true,
        Reading::Addr(addr) => {
            let other = if addr.is_ipv4() {
                "ipv6_addr"
            } else {
                "ipv4_addr"
            };
            set.kind.contains(other)
        }
        _ => false,
    }
}

/// The most specific element that holds wins: ipset tries the longest prefixes first, and
/// `nomatch` elements are exceptions (net/netfilter/ipset/ip_set_hash_gen.h, `mtype_test_cidrs`).
fn search<'r>(view: &View<'_, 'r>, members: &Members<'r>, key: &[Reading<'_>]) -> Lookup<'r> {
    let mut best: Option<&Element> = None;
    let mut maybe = Vec::new();
    for element in members.candidates(key) {
        match holds(view, element, key) {
            Truth::No => {}
            Truth::Unknown => maybe.push(element),
            Truth::Yes if best.is_some_and(|b| specific(b) >= specific(element)) => {}
            Truth::Yes => best = Some(element),
        }
    }
    if let Some(found) = best {
        let says = |e: &Element| (e.except, e.action.clone(), e.data.clone());
        maybe.retain(|element| says(element) != says(found));
    }
    match best {
        found if !maybe.is_empty() => {
            maybe.extend(found);
            Lookup::Maybe(maybe)
        }
        Some(found) if !found.except => Lookup::Found(found),
        _ => Lookup::Missing,
    }
}

fn holds(view: &View<'_, '_>, element: &Element, key: &[Reading<'_>]) -> Truth {
    if element.key.is_empty() {
        return Truth::Yes; // nftables' catch-all
    }
    if element.key.len() != key.len() {
        return Truth::Unknown;
    }
    let parts = element.key.iter().zip(key);
    parts.fold(Truth::Yes, |truth, (value, part)| {
        if truth == Truth::No {
            return truth;
        }
        let held = view.compare(*part, Op::Equal, std::slice::from_ref(value));
        truth.and(held.unwrap_or(Truth::No))
    })
}

/// How narrow an element is: bits that count, over all its parts.
fn specific(element: &Element) -> u32 {
    let narrow = |value: &Value| match value {
        Value::Masked { mask, .. } => super::read::to_bits(*mask).1.count_ones(),
        Value::Addrs(low, high) if low != high => 0,
        Value::Numbers(..) | Value::NamePrefix(_) => 0,
        _ => 128,
    };
    element.key.iter().map(narrow).sum()
}
