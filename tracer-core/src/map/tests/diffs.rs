//! Two maps side by side, against a look at each of them at single destinations.

use super::*;
use crate::report::{Fate, MapChange, NoWay, Said, Sender as Origin, SourceCode, SourceIs};
use crate::space::number;
use ipnet::IpNet;
use proptest::prelude::*;

fn line(prefix: IpNet, wire: u8) -> Map {
    Map {
        schema: SCHEMA,
        prefix,
        origin: Origin {
            kind: OriginKind::Pod,
            netns: None,
            netns_name: Some("pod".to_owned()),
            pod: None,
            ifname: None,
            addr: None,
            count: 1,
            others: Vec::new(),
        },
        said: Said {
            source: SourceCode::SourceRewritten,
            source_on_wire: Some([10, 100, 0, wire].into()),
            source_is: SourceIs::Other,
            dest_on_wire: None,
            fate: Fate::Leaves,
            no_way: None,
            place: None,
            rule: None,
            marked_by: None,
            candidates: Vec::new(),
            depends_on: Vec::new(),
        },
        evidence: RuleEvidence::Replayed,
    }
}

/// A map of any prefixes; what none of them holds is not told.
fn any_map(v4: bool) -> impl Strategy<Value = Vec<Map>> {
    let len = if v4 { 0..=32_u8 } else { 0..=128 };
    let one = (any::<u8>(), any::<u128>(), len, 0..3_u8).prop_map(move |(top, rest, len, wire)| {
        // Few first octets, so that prefixes lie within each other.
        let top = u128::from(top & 0x83);
        let at = match v4 {
            true => top << 24 | rest & 0xff_ffff,
            false => top << 120 | rest >> 8,
        };
        line(IpNet::new(addr(at, v4), len).unwrap().trunc(), wire)
    });
    prop::collection::vec(one, 0..24)
}

/// The source that a map tells, of equal prefixes by the later one.
fn told(map: &[Map], dst: IpAddr) -> Option<IpAddr> {
    let holding = map.iter().filter(|line| line.prefix.contains(&dst));
    holding
        .max_by_key(|line| line.prefix.prefix_len())?
        .said
        .source_on_wire
}

fn holds(v4: bool, old: &[Map], new: &[Map], probes: &[u128]) -> Result<(), TestCaseError> {
    let changes = diff(old, new, true);
    let ends = old.iter().chain(new).flat_map(|line| {
        let (low, high) = (
            number(line.prefix.network()),
            number(line.prefix.broadcast()),
        );
        [low.saturating_sub(1), low, high, high.saturating_add(1)]
    });
    for at in ends.chain(probes.iter().copied()) {
        let dst = addr(if v4 { at & 0xffff_ffff } else { at }, v4);
        let at_dst: Vec<&MapChange> = changes
            .iter()
            .filter(|change| change.prefix.contains(&dst))
            .collect();
        let (was, is) = (told(old, dst), told(new, dst));
        let changed = was.is_some() && is.is_some() && was != is;
        prop_assert_eq!(at_dst.len(), usize::from(changed), "{}", dst);
        for change in at_dst {
            prop_assert_eq!(
                (change.from.source_on_wire, change.to.source_on_wire),
                (was, is)
            );
        }
    }
    Ok(())
}

proptest! {
    /// Told are the destinations of which the maps say different things, each once.
    #[test]
    fn changes_are_where_maps_differ(old in any_map(true), new in any_map(true), probes in prop::collection::vec(any::<u128>(), 8)) {
        holds(true, &old, &new, &probes)?;
    }

    /// The same for IPv6.
    #[test]
    fn ipv6_changes_are_where_maps_differ(old in any_map(false), new in any_map(false), probes in prop::collection::vec(any::<u128>(), 8)) {
        holds(false, &old, &new, &probes)?;
    }
}

/// Two nodes: whose address a source is counts, and what is on one of them does not.
#[test]
fn two_machines_are_compared_by_whose_addresses_sources_are() {
    let node = |prefix: &str, wire| {
        let mut line = line(prefix.parse().unwrap(), wire);
        line.said.source_is = SourceIs::Node;
        line
    };
    let here = |prefix: &str, no_way: Option<NoWay>| {
        let mut line = node(prefix, 5);
        line.said.fate = if no_way.is_some() {
            Fate::NoRoute
        } else {
            Fate::Delivered
        };
        line.said.no_way = no_way;
        line
    };
    let one = [
        node("0.0.0.0/0", 5),
        here("10.100.0.5/32", None),
        here("10.12.3.0/24", Some(NoWay::Nobody)),
        here("10.66.0.0/16", Some(NoWay::Blackhole)),
    ];
    let other = [
        node("0.0.0.0/0", 6),
        here("10.100.0.6/32", None),
        line("10.20.0.0/16".parse().unwrap(), 7),
    ];
    let told = diff(&one, &other, false);
    let told: Vec<String> = told
        .iter()
        .map(|change| change.prefix.to_string())
        .collect();
    assert_eq!(told, ["10.20.0.0/16", "10.66.0.0/16"]);
    assert_eq!(diff(&one, &one, false), []);
}
