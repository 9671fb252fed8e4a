//! Changes that say the same, as people write them: `0.0.0.0/0, but for 10.12.3.0/24`.

use super::table::table;
use crate::report::{Gathered, MapChange};
use crate::space::{last, number};
use ipnet::IpNet;
use std::collections::HashMap;

/// Gathers a map's changes, in the order in which each kind comes first.
#[must_use]
pub fn gathered(changes: &[MapChange]) -> Vec<Gathered<'_>> {
    let mut kinds: Vec<Vec<&MapChange>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for change in changes {
        let at = *known.entry(kind(change)).or_insert(kinds.len());
        match kinds.get_mut(at) {
            Some(alike) => alike.push(change),
            None => kinds.push(vec![change]),
        }
    }
    let told = kinds.iter().filter_map(|alike| {
        let prefixes: Vec<IpNet> = alike.iter().map(|change| change.prefix).collect();
        Some(Gathered {
            change: alike.first()?,
            prefixes: fewest(&prefixes),
        })
    });
    told.collect()
}

/// What two changes that say the same have in common.
fn kind(change: &MapChange) -> String {
    let v4 = change.prefix.addr().is_ipv4();
    let rules = (&change.rule_before, &change.rule_after);
    let same = (&change.origin, &change.from, &change.to, rules, v4);
    serde_json::to_string(&same).unwrap_or_default()
}

/// Prefixes that do not overlap, as the fewest with the fewest that are left out.
fn fewest(prefixes: &[IpNet]) -> Vec<(IpNet, Vec<IpNet>)> {
    const OUT: u32 = 0;
    const IN: u32 = 1;
    let Some(v4) = prefixes.first().map(|prefix| prefix.addr().is_ipv4()) else {
        return Vec::new();
    };
    let mut ends: Vec<(u128, u128)> = prefixes
        .iter()
        .map(|prefix| (number(prefix.network()), number(prefix.broadcast())))
        .collect();
    ends.sort_unstable();
    let mut stretches = vec![(0, OUT)];
    for (first, end) in ends {
        match stretches.last_mut() {
            Some(open) if open.0 == first => open.1 = IN,
            _ => stretches.push((first, IN)),
        }
        if let Some(next) = end.checked_add(1) {
            stretches.push((next, OUT));
        }
    }
    // Behind the whole space nothing begins.
    stretches.retain(|(start, _)| *start <= last(v4));
    let mut found: Vec<(IpNet, Vec<IpNet>)> = Vec::new();
    for (prefix, label) in table(v4, &stretches) {
        let around = found
            .iter_mut()
            .rev()
            .find(|(net, _)| net.contains(&prefix));
        match (label, around) {
            (IN, _) => found.push((prefix, Vec::new())),
            (_, Some((_, left_out))) => left_out.push(prefix),
            (_, None) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(text: &str) -> Vec<IpNet> {
        text.split_whitespace()
            .map(|net| net.parse().unwrap())
            .collect()
    }

    fn told(text: &str) -> String {
        let list =
            |nets: &[IpNet]| -> String { nets.iter().map(|net| format!(" -{net}")).collect() };
        let lines = fewest(&nets(text)).into_iter();
        let lines: Vec<String> = lines
            .map(|(net, left_out)| format!("{net}{}", list(&left_out)))
            .collect();
        lines.join(", ")
    }

    /// What is changed around a hole is one line, and a hole in the hole's place another.
    #[test]
    fn the_fewest_prefixes() {
        assert_eq!(told(""), "");
        assert_eq!(told("10.0.0.0/8"), "10.0.0.0/8");
        assert_eq!(told("0.0.0.0/1 128.0.0.0/1"), "0.0.0.0/0");
        assert_eq!(told("::/1 8000::/1"), "::/0");
        assert_eq!(
            told(
                "10.20.0.0/20 10.20.16.0/21 10.20.24.0/22 10.20.28.0/23 10.20.31.0/24 10.20.32.0/19 10.20.64.0/18 10.20.128.0/17"
            ),
            "10.20.0.0/16 -10.20.30.0/24"
        );
        assert_eq!(
            told("10.0.0.0/9 192.168.0.0/16"),
            "10.0.0.0/9, 192.168.0.0/16"
        );
        assert_eq!(
            told(
                "0.0.0.0/1 128.0.0.0/2 192.0.0.0/3 224.0.0.0/4 240.0.0.0/5 248.0.0.0/6 252.0.0.0/7 254.0.0.0/8 255.255.255.255/32"
            ),
            "0.0.0.0/0 -255.0.0.0/8, 255.255.255.255/32"
        );
    }
}
