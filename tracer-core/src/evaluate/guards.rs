//! Which rules of a long chain can match an address at all: those that ask for another one are passed over
//! without a look.

use super::ranges::{Ranges, range};
use crate::ruleset::{Chain, Condition, Field, Op, Rule, Step, Test};
use std::net::IpAddr;

/// Shorter chains are walked rule by rule.
pub(super) const LONG: usize = 64;

/// The rules of a chain by the address that they ask for first. What a rule that is passed over nearly did is not noted.
#[derive(Debug)]
pub(super) struct Guards {
    /// Rules that may match any address, in order.
    open: Vec<usize>,
    by_destination: Guarded,
    by_source: Guarded,
}

/// Rules that ask for certain addresses.
#[derive(Debug, Default)]
struct Guarded {
    /// All of them, in order.
    rules: Vec<usize>,
    of: Ranges,
}

/// An address range with the number of the rule that asks for it.
type Asked = ((IpAddr, IpAddr), usize);

impl Guards {
    /// Of a chain that is long.
    pub(super) fn of(chain: &Chain) -> Option<Self> {
        if chain.rules.len() < LONG {
            return None;
        }
        let mut open = Vec::new();
        let (mut dsts, mut srcs): (Vec<Asked>, Vec<Asked>) = (Vec::new(), Vec::new());
        for (n, rule) in chain.rules.iter().enumerate() {
            if let Some(of) = guard(rule, &Field::Daddr) {
                dsts.extend(of.into_iter().map(|range| (range, n)));
            } else if let Some(of) = guard(rule, &Field::Saddr) {
                srcs.extend(of.into_iter().map(|range| (range, n)));
            } else {
                open.push(n);
            }
        }
        Some(Self {
            open,
            by_destination: Guarded::of(&dsts),
            by_source: Guarded::of(&srcs),
        })
    }

    /// The first rule from `from` on that may match a packet; `None` for an address: it is not known.
    pub(super) fn next(
        &self,
        src: Option<IpAddr>,
        dst: Option<IpAddr>,
        from: usize,
    ) -> Option<usize> {
        let open = behind(&self.open, from);
        let by = [
            self.by_destination.next(dst, from),
            self.by_source.next(src, from),
        ];
        open.into_iter().chain(by.into_iter().flatten()).min()
    }
}

impl Guarded {
    fn of(asked: &[Asked]) -> Self {
        let mut rules: Vec<usize> = asked.iter().map(|(_, n)| *n).collect();
        rules.dedup();
        Self {
            rules,
            of: Ranges::of(asked),
        }
    }

    fn next(&self, addr: Option<IpAddr>, from: usize) -> Option<usize> {
        match addr {
            Some(addr) => self
                .of
                .holding(addr)
                .filter_map(|rules| behind(rules, from))
                .min(),
            None => behind(&self.rules, from),
        }
    }
}

/// The first number from `from` on.
fn behind(rules: &[usize], from: usize) -> Option<usize> {
    let at = rules.partition_point(|n| *n < from);
    rules.get(at).copied()
}

/// The addresses one of which a rule asks for, before it does or notes anything.
fn guard(rule: &Rule, field: &Field) -> Option<Vec<(IpAddr, IpAddr)>> {
    let mut tests = rule.steps.iter().map_while(|step| match step {
        Step::Test(test) if is_plain(test) => Some(test),
        _ => None,
    });
    tests.find_map(|test| match &test.condition {
        Condition::Compare {
            field: asked,
            op: Op::Equal,
            values,
        } if asked == field && !test.negated => values.iter().map(range).collect(),
        _ => None,
    })
}

/// Whether a test that fails leaves nothing behind, and one that cannot be decided only an assumption.
fn is_plain(test: &Test) -> bool {
    matches!(
        &test.condition,
        Condition::Compare {
            field: Field::Saddr
                | Field::Daddr
                | Field::Iif
                | Field::Oif
                | Field::Version
                | Field::Proto,
            ..
        }
    )
}
