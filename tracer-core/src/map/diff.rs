//! Two maps side by side.

use super::edges::{addr, number};
use crate::report::{Fate, Map, MapChange, OriginKind, SCHEMA, Said, Sender, SourceCode, SourceIs};
use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What a sender's map says of a destination.
#[must_use]
pub fn lookup<'m>(lines: &[&'m Map], dst: IpAddr) -> Option<&'m Map> {
    let holding = lines.iter().filter(|line| line.prefix.contains(&dst));
    holding.max_by_key(|line| line.prefix.prefix_len()).copied()
}

/// Which destinations get another source than before, by prefixes that are changed as a whole. Senders are
/// compared by their names, where one has none in the other map by their kind. `same_host`: addresses are
/// compared; else whose they are.
#[must_use]
pub fn diff(before: &[Map], after: &[Map], same_host: bool) -> Vec<MapChange> {
    let mut found = Vec::new();
    for (sender, v4) in senders(after) {
        let new: Vec<&Map> = of(after, &sender, v4).collect();
        let Some(old) = counterpart(before, &sender, v4) else {
            continue;
        };
        let old: Vec<&Map> = of(before, &old, v4).collect();
        found.extend(changes(&old, &new, same_host));
    }
    found
}

/// What tells senders apart.
type Key = (OriginKind, Option<String>, Option<String>);

fn key(sender: &Sender) -> Key {
    let name = sender.pod.clone().or_else(|| sender.netns_name.clone());
    (sender.kind, name, sender.ifname.clone())
}

fn senders(lines: &[Map]) -> BTreeSet<(Key, bool)> {
    let of = |line: &Map| (key(&line.origin), line.prefix.addr().is_ipv4());
    lines.iter().map(of).collect()
}

fn of<'m>(lines: &'m [Map], sender: &'m Key, v4: bool) -> impl Iterator<Item = &'m Map> {
    let is = move |line: &&Map| key(&line.origin) == *sender && line.prefix.addr().is_ipv4() == v4;
    lines.iter().filter(is)
}

fn counterpart(lines: &[Map], sender: &Key, v4: bool) -> Option<Key> {
    let all: Vec<Key> = senders(lines)
        .into_iter()
        .filter(|(key, four)| *four == v4 && key.0 == sender.0)
        .map(|(key, _)| key)
        .collect();
    let same = all.iter().find(|key| *key == sender);
    same.or(all.first()).cloned()
}

fn changes(old: &[&Map], new: &[&Map], same_host: bool) -> Vec<MapChange> {
    let Some(v4) = new.first().map(|line| line.prefix.addr().is_ipv4()) else {
        return Vec::new();
    };
    let end = if v4 { u32::MAX.into() } else { u128::MAX };
    let mut starts = BTreeSet::from([0]);
    for line in old.iter().chain(new) {
        starts.insert(number(line.prefix.network()));
        starts.extend(
            number(line.prefix.broadcast())
                .checked_add(1)
                .filter(|next| *next <= end),
        );
    }
    let starts: Vec<u128> = starts.into_iter().collect();
    // Neighbours with the same change are one stretch.
    let mut stretches: Vec<(u128, u128, &Map, &Map)> = Vec::new();
    for (n, start) in starts.iter().enumerate() {
        let last = starts.get(n + 1).map_or(end, |next| next - 1);
        let dst = addr(*start, v4);
        let (Some(was), Some(is)) = (lookup(old, dst), lookup(new, dst)) else {
            continue;
        };
        if alike(&was.said, &is.said, same_host) {
            continue;
        }
        match stretches.last_mut() {
            Some((_, high, a, b))
                if *high + 1 == *start && a.said == was.said && b.said == is.said =>
            {
                *high = last;
            }
            _ => stretches.push((*start, last, was, is)),
        }
    }
    let told = stretches.into_iter().flat_map(|(low, high, was, is)| {
        prefixes(low, high, v4)
            .into_iter()
            .map(move |prefix| MapChange {
                schema: SCHEMA,
                prefix,
                origin: is.origin.clone(),
                from: (&was.said).into(),
                to: (&is.said).into(),
                rule_before: was.said.rule.clone(),
                rule_after: is.said.rule.clone(),
            })
    });
    told.collect()
}

fn prefixes(low: u128, high: u128, v4: bool) -> Vec<IpNet> {
    match (addr(low, v4), addr(high, v4)) {
        (IpAddr::V4(low), IpAddr::V4(high)) => {
            Ipv4Subnets::new(low, high, 0).map(IpNet::V4).collect()
        }
        (IpAddr::V6(low), IpAddr::V6(high)) => {
            Ipv6Subnets::new(low, high, 0).map(IpNet::V6).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a destination gets the same source and fate; by which rule does not matter.
fn alike(a: &Said, b: &Said, same_host: bool) -> bool {
    let short = |said: &Said| (said.source, said.source_is, said.fate);
    let kept = a.source_is == SourceIs::Sender;
    let addrs = !same_host || kept || a.source_on_wire == b.source_on_wire;
    short(a) == short(b) && addrs && (a.source_is != SourceIs::Unknown || open(a) == open(b))
}

/// The answers between which something decides, and when each is true.
fn open(said: &Said) -> Vec<(SourceCode, Option<IpAddr>, Fate, &[String])> {
    let all = said.candidates.iter();
    all.map(|c| (c.source, c.source_on_wire, c.fate, c.when.as_slice()))
        .collect()
}
