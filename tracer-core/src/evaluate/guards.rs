//! Which rules of a long chain can match a destination at all: those that begin with another one are passed
//! over without a look.

use crate::ruleset::{Chain, Condition, Field, Op, Rule, Step, Test, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Shorter chains are walked rule by rule.
const LONG: usize = 64;

/// The rules of a chain by destination. What a rule that is passed over nearly did is not noted.
#[derive(Debug)]
pub(super) struct Guards {
    /// Rules that may match any destination, in order.
    open: Vec<usize>,
    /// For IPv4 and IPv6: from which address on, which other rules, in order.
    of: [BTreeMap<u128, Vec<usize>>; 2],
}

impl Guards {
    /// Of a chain that is long.
    pub(super) fn of(chain: &Chain) -> Option<Self> {
        if chain.rules.len() < LONG {
            return None;
        }
        let mut open = Vec::new();
        let mut ranges = [Vec::new(), Vec::new()];
        for (n, rule) in chain.rules.iter().enumerate() {
            match guard(rule) {
                None => open.push(n),
                Some(found) => {
                    for (low, high) in found {
                        let [v4, v6] = &mut ranges;
                        let of = if low.is_ipv4() { v4 } else { v6 };
                        of.push((number(low), number(high), n));
                    }
                }
            }
        }
        Some(Self {
            open,
            of: ranges.map(|ranges| segments(&ranges)),
        })
    }

    /// The first rule from `from` on that may match a destination.
    pub(super) fn next(&self, dst: IpAddr, from: usize) -> Option<usize> {
        let [v4, v6] = &self.of;
        let of = if dst.is_ipv4() { v4 } else { v6 };
        let here = of.range(..=number(dst)).next_back();
        let behind = |rules: &[usize]| {
            let at = rules.partition_point(|n| *n < from);
            rules.get(at).copied()
        };
        let open = behind(&self.open);
        let held = here.and_then(|(_, rules)| behind(rules));
        open.into_iter().chain(held).min()
    }
}

/// The destinations with one of which a rule begins.
fn guard(rule: &Rule) -> Option<Vec<(IpAddr, IpAddr)>> {
    let Some(Step::Test(Test {
        negated: false,
        condition:
            Condition::Compare {
                field: Field::Daddr,
                op: Op::Equal,
                values,
            },
    })) = rule.steps.first()
    else {
        return None;
    };
    values.iter().map(range).collect()
}

fn range(value: &Value) -> Option<(IpAddr, IpAddr)> {
    match value {
        Value::Addrs(low, high) if low.is_ipv4() == high.is_ipv4() => Some((*low, *high)),
        Value::Masked { addr, mask } => {
            let len = ipnet::ip_mask_to_prefix(*mask).ok()?;
            let net = ipnet::IpNet::new(*addr, len).ok()?;
            Some((net.network(), net.broadcast()))
        }
        _ => None,
    }
}

/// The rules of each stretch between two ends of ranges.
fn segments(ranges: &[(u128, u128, usize)]) -> BTreeMap<u128, Vec<usize>> {
    let mut turns: BTreeMap<u128, Vec<(usize, bool)>> = BTreeMap::new();
    for (low, high, n) in ranges {
        turns.entry(*low).or_default().push((*n, true));
        if let Some(behind) = high.checked_add(1) {
            turns.entry(behind).or_default().push((*n, false));
        }
    }
    // A rule with several ranges may hold by more than one of them.
    let mut held: BTreeMap<usize, isize> = BTreeMap::new();
    let segments = turns.into_iter().map(|(start, turns)| {
        for (n, begins) in turns {
            *held.entry(n).or_default() += if begins { 1 } else { -1 };
        }
        held.retain(|_, count| *count > 0);
        (start, held.keys().copied().collect())
    });
    segments.collect()
}

fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}
