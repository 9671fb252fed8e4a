//! Two maps side by side.

use crate::report::{
    Fate, Map, MapChange, NoWay, OriginKind, SCHEMA, Said, Sender, SourceCode, SourceIs,
};
use crate::space::{addr, last, number};
use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Which destinations get another source than before, by prefixes that are changed as a whole. Senders are
/// compared by their names, where one has none in the other map by their kind. `same_host`: addresses are
/// compared; else whose they are, and destinations on one of the two machines are left out.
#[must_use]
pub fn diff(before: &[Map], after: &[Map], same_host: bool) -> Vec<MapChange> {
    let (before, after) = (by_sender(before), by_sender(after));
    let pairs = after.iter().filter_map(|(sender, new)| {
        let old = counterpart(&before, sender)?;
        Some(changes(old, new, sender.v4, same_host))
    });
    pairs.flatten().collect()
}

/// What tells the maps of senders apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'m> {
    kind: OriginKind,
    name: Option<&'m str>,
    ifname: Option<&'m str>,
    v4: bool,
}

impl<'m> Key<'m> {
    fn of(line: &'m Map) -> Self {
        let sender: &Sender = &line.origin;
        let name = sender.pod.as_deref().or(sender.netns_name.as_deref());
        Self {
            kind: sender.kind,
            name,
            ifname: sender.ifname.as_deref(),
            v4: line.prefix.addr().is_ipv4(),
        }
    }
}

type BySender<'m> = BTreeMap<Key<'m>, Vec<&'m Map>>;

fn by_sender(lines: &[Map]) -> BySender<'_> {
    let mut found = BySender::new();
    for line in lines {
        found.entry(Key::of(line)).or_default().push(line);
    }
    found
}

/// The map of the same sender, or of the first one of its kind.
fn counterpart<'a, 'm>(maps: &'a BySender<'m>, sender: &Key<'_>) -> Option<&'a [&'m Map]> {
    let like = |key: &Key<'_>| key.kind == sender.kind && key.v4 == sender.v4;
    let same = maps.iter().find(|(key, _)| *key == sender);
    let found = same.or_else(|| maps.iter().find(|(key, _)| like(key)));
    found.map(|(_, lines)| lines.as_slice())
}

/// A map's lines where they begin to count, in order of addresses; `None`: the map says nothing from there on.
type Flat<'m> = Vec<(u128, Option<&'m Map>)>;

/// A map in which the longest prefix counts, as one in which the last line at or before a destination does.
fn flat<'m>(lines: &[&'m Map], v4: bool) -> Flat<'m> {
    let ends = |line: &Map| {
        let (first, last) = (line.prefix.network(), line.prefix.broadcast());
        (number(first), number(last))
    };
    let mut ordered = lines.to_vec();
    ordered.sort_by_key(|line| (ends(line).0, line.prefix.prefix_len()));
    let mut out: Flat<'m> = vec![(0, None)];
    // Prefixes that are not yet over, each within the one before it.
    let mut open: Vec<(u128, &'m Map)> = Vec::new();
    let close = |out: &mut Flat<'m>, open: &mut Vec<(u128, &'m Map)>, before: Option<u128>| {
        while let Some((end, _)) = open.last().copied()
            && before.is_none_or(|start| end < start)
        {
            open.pop();
            if end < last(v4) {
                put(out, end + 1, open.last().map(|(_, line)| *line));
            }
        }
    };
    for line in ordered {
        let (start, end) = ends(line);
        close(&mut out, &mut open, Some(start));
        open.push((end, line));
        put(&mut out, start, Some(line));
    }
    close(&mut out, &mut open, None);
    out
}

/// The last line from one address on is the one that counts.
fn put<'m>(out: &mut Flat<'m>, at: u128, line: Option<&'m Map>) {
    match out.last_mut() {
        Some((start, last)) if *start == at => *last = line,
        _ => out.push((at, line)),
    }
}

/// Goes through both maps at once.
fn changes(old: &[&Map], new: &[&Map], v4: bool, same_host: bool) -> Vec<MapChange> {
    let (old, new) = (flat(old, v4), flat(new, v4));
    let mut starts: Vec<u128> = old.iter().chain(&new).map(|(start, _)| *start).collect();
    starts.sort_unstable();
    starts.dedup();
    let (mut old, mut new) = (Reader::of(&old), Reader::of(&new));
    // Neighbours with the same change are one stretch.
    let mut stretches: Vec<(u128, u128, &Map, &Map)> = Vec::new();
    for (n, start) in starts.iter().enumerate() {
        let end = starts.get(n + 1).map_or(last(v4), |next| next - 1);
        let (Some(was), Some(is)) = (old.at(*start), new.at(*start)) else {
            continue;
        };
        if alike(&was.said, &is.said, same_host) {
            continue;
        }
        match stretches.last_mut() {
            Some((_, high, a, b))
                if *high + 1 == *start && a.said == was.said && b.said == is.said =>
            {
                *high = end;
            }
            _ => stretches.push((*start, end, was, is)),
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

/// Reads a map from its beginning.
struct Reader<'a, 'm> {
    rest: &'a [(u128, Option<&'m Map>)],
    now: Option<&'m Map>,
}

impl<'a, 'm> Reader<'a, 'm> {
    fn of(rest: &'a Flat<'m>) -> Self {
        Self { rest, now: None }
    }

    /// The line for an address at or behind the last one that was asked about.
    fn at(&mut self, at: u128) -> Option<&'m Map> {
        while let Some(((start, line), rest)) = self.rest.split_first()
            && *start <= at
        {
            (self.now, self.rest) = (*line, rest);
        }
        self.now
    }
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
    if !same_host && (is_here(a) || is_here(b)) {
        return true;
    }
    let short = |said: &Said| (said.source, said.source_is, said.fate);
    let kept = a.source_is == SourceIs::Sender;
    let addrs = !same_host || kept || a.source_on_wire == b.source_on_wire;
    short(a) == short(b) && addrs && (a.source_is != SourceIs::Unknown || open(a) == open(b))
}

/// Whether the destination is on the machine itself, or on a link that leads to its pods.
fn is_here(said: &Said) -> bool {
    said.fate == Fate::Delivered || said.no_way == Some(NoWay::Nobody)
}

/// The answers between which something decides, and when each is true.
fn open(said: &Said) -> Vec<(SourceCode, Option<IpAddr>, Fate, &[String])> {
    let all = said.candidates.iter();
    all.map(|c| (c.source, c.source_on_wire, c.fate, c.when.as_slice()))
        .collect()
}
