//! What must hold for maps of any rules.

use super::*;
use crate::map::table::{ANY, table};
use crate::report::Said;
use crate::space::number;
use ipnet::IpNet;
use proptest::prelude::*;
use proptest::sample::select;

/// The longest prefix's label.
fn found(table: &[(IpNet, u32)], dst: IpAddr) -> Option<u32> {
    let holding = table.iter().filter(|(net, _)| net.contains(&dst));
    holding
        .max_by_key(|(net, _)| net.prefix_len())
        .map(|(_, label)| *label)
}

/// What a sender's map says of a destination.
fn lookup(lines: &[Map], dst: IpAddr) -> Option<&Said> {
    let holding = lines.iter().filter(|line| line.prefix.contains(&dst));
    let longest = holding.max_by_key(|line| line.prefix.prefix_len());
    longest.map(|line| &line.said)
}

/// A made-up rule: addresses, what it asks of them, what it does.
#[derive(Clone, Debug)]
struct Made {
    net: IpNet,
    asks: &'static str,
    does: &'static str,
}

/// `NET`, `LOW-HIGH` and `SRC` become addresses of the family.
const ASKS: &[&str] = &[
    "-d NET",
    "-d NET",
    "! -d NET",
    "-s SRC -d NET",
    "! -s SRC -d NET",
    "-d NET -p udp -m udp",
    "-d NET -p tcp -m tcp --dport 53",
    "-m iprange --dst-range LOW-HIGH",
    "-m set --match-set keep dst",
    "-d NET -m set ! --match-set keep dst",
    "-s SRC",
];
const DOES: &[&str] = &[
    "RETURN",
    "MASQUERADE",
    "SNAT --to-source OTHER",
    "ACCEPT",
    "RETURN",
];

fn net(v4: bool) -> impl Strategy<Value = IpNet> {
    // Few networks around which the prefixes crowd.
    let near = select(&[0x0a0c_0300_u32, 0x0a14_0000, 0xac10_0000, 0][..]);
    let len = select(&[4_u8, 8, 12, 16, 20, 24, 25, 30, 31, 32][..]);
    (near, any::<u32>(), 8_u32..32, len).prop_map(move |(near, noise, wide, len)| {
        let first = near ^ (noise & (u32::MAX >> (32 - wide)));
        let net = match v4 {
            true => IpNet::new(addr(first.into(), true), len),
            false => {
                let first = 0xfd_u128 << 120 | u128::from(first) << 88 | u128::from(noise);
                IpNet::new(addr(first, false), len * 4)
            }
        };
        net.unwrap().trunc()
    })
}

fn rule(v4: bool) -> impl Strategy<Value = Made> {
    (net(v4), select(ASKS), select(DOES)).prop_map(|(net, asks, does)| Made { net, asks, does })
}

fn text(rule: &Made) -> String {
    let v4 = rule.net.addr().is_ipv4();
    let (src, other) = match v4 {
        true => ("10.12.3.4/32", "10.100.0.77"),
        false => ("fd12:3::/64", "fd10:100::77"),
    };
    let range = format!("{}-{}", rule.net.network(), rule.net.broadcast());
    let asks = rule
        .asks
        .replace("LOW-HIGH", &range)
        .replace("NET", &rule.net.to_string());
    let does = rule.does.replace("OTHER", other);
    format!("-A MASQ {} -j {does}\n", asks.replace("SRC", src))
}

/// A set of these networks, every third of them an exception.
fn keep(v4: bool, nets: &[IpNet]) -> String {
    let family = if v4 { "inet" } else { "inet6" };
    let adds = nets.iter().enumerate().map(|(n, net)| {
        let not = if n % 3 == 2 { " nomatch" } else { "" };
        format!("add keep {net}{not}\n")
    });
    format!(
        "create keep hash:net family {family} hashsize 1024 maxelem 65536\n{}",
        adds.collect::<String>()
    )
}

/// Whether a map, made as the program makes them, says of destinations what is foreseen for each by rules that are walked
/// one by one.
fn holds(
    rules: &Ruleset,
    v4: bool,
    dests: impl Iterator<Item = u128>,
) -> Result<(), TestCaseError> {
    let lines = with_many(rules, |ground| map(ground, &pod(), v4).lines);
    with(rules, |ground| {
        let space = Space::of(ground, v4);
        for dst in dests {
            let dst = addr(if v4 { dst.min(u32::MAX.into()) } else { dst }, v4);
            if space.is_nobodys(dst) || ground.inventory.owns(POD, dst) {
                continue;
            }
            let (said, _) = said(ground, &pod(), &forecasts(ground, &pod(), dst)).unwrap();
            prop_assert_eq!(lookup(&lines, dst), Some(&said), "{}", dst);
        }
        Ok(())
    })
}

/// The last address before a network, its ends, and the first one behind it.
fn around(net: &IpNet) -> [u128; 4] {
    let (low, high) = (number(net.network()), number(net.broadcast()));
    [low.saturating_sub(1), low, high, high.saturating_add(1)]
}

fn case(
    v4: bool,
    rules: &[Made],
    keep_nets: &[IpNet],
    probes: &[IpNet],
) -> Result<(), TestCaseError> {
    let lines: String = rules.iter().map(text).collect();
    let family = if v4 { Family::Ip } else { Family::Ip6 };
    let stores = with_sets(
        Some(keep(v4, keep_nets)),
        family,
        &format!("{lines}-A MASQ -j MASQUERADE\n"),
    );
    prop_assert!(stores.unread.is_empty(), "{:?}", stores.unread);
    let nets = rules.iter().map(|rule| &rule.net).chain(keep_nets);
    let edges = nets.flat_map(around);
    let any = probes.iter().map(|net| number(net.addr()));
    holds(&stores, v4, edges.chain(any))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any cut of the space is told by its table as it is.
    #[test]
    fn tables_say_what_their_stretches_say(
        cuts in prop::collection::btree_map(any::<u32>(), 0u32..4, 0..20),
        first in 0u32..4,
        any in 0u32..5,
        probes in prop::collection::vec(any::<u32>(), 0..20),
    ) {
        let mut stretches = vec![(0u128, first)];
        stretches.extend(cuts.iter().filter(|(at, _)| **at > 0).map(|(at, label)| (u128::from(*at), *label)));
        for (_, label) in stretches.iter_mut().filter(|(_, label)| *label == any) {
            *label = ANY;
        }
        let table = table(true, &stretches);
        let edges = cuts.keys().flat_map(|at| [at.wrapping_sub(1), *at, at.wrapping_add(1)]);
        for at in edges.chain(probes) {
            let at = u128::from(at);
            let label = stretches.iter().rfind(|(start, _)| *start <= at).map(|(_, label)| *label);
            if label != Some(ANY) {
                prop_assert_eq!(found(&table, addr(at, true)), label);
            }
        }
    }

    /// What the map says of a destination is what is foreseen for it.
    #[test]
    fn maps_say_what_is_foreseen(
        rules in prop::collection::vec(rule(true), 0..100),
        keep in prop::collection::vec(net(true), 0..100),
        probes in prop::collection::vec(net(true), 1..20),
    ) {
        case(true, &rules, &keep, &probes)?;
    }

    /// The same for IPv6.
    #[test]
    fn ipv6_maps_say_what_is_foreseen(
        rules in prop::collection::vec(rule(false), 0..100),
        keep in prop::collection::vec(net(false), 0..100),
        probes in prop::collection::vec(net(false), 1..20),
    ) {
        case(false, &rules, &keep, &probes)?;
    }
}
