//! Which of many ranges of addresses hold an address.

use crate::ruleset::Value;
use crate::space::number;
use ipnet::IpNet;
use std::net::IpAddr;

/// Ranges of addresses, each with a number. A look-up goes through a handful of lists, however many ranges
/// there are and however they lie over each other.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    v4: Tree,
    v6: Tree,
}

/// Ranges of one family: a segment tree over all their ends. Each range stands in the few nodes of which it
/// is made up, so n ranges take up to n log n places, and an address is held by what stands on the way from
/// its leaf to the root.
#[derive(Debug, Default)]
struct Tree {
    /// Where each leaf begins, in order.
    starts: Vec<u128>,
    /// The root is 1, the halves of n are 2n and 2n + 1; the numbers in each are in the order given.
    nodes: Vec<Vec<usize>>,
}

impl Ranges {
    /// Of ranges, both ends included, in the order of their numbers. Those whose ends are of different
    /// families hold nothing.
    pub(super) fn of(ranges: &[((IpAddr, IpAddr), usize)]) -> Self {
        let of = |v4: bool| {
            let mine = ranges
                .iter()
                .filter(|((low, high), _)| low.is_ipv4() == v4 && high.is_ipv4() == v4);
            let numbers = mine.map(|((low, high), n)| (number(*low), number(*high), *n));
            Tree::of(&numbers.collect::<Vec<_>>())
        };
        Self {
            v4: of(true),
            v6: of(false),
        }
    }

    /// The numbers of the ranges that hold an address, in a few lists, each in the order given.
    pub(super) fn holding(&self, addr: IpAddr) -> impl Iterator<Item = &[usize]> {
        let tree = if addr.is_ipv4() { &self.v4 } else { &self.v6 };
        tree.holding(number(addr))
    }
}

impl Tree {
    fn of(ranges: &[(u128, u128, usize)]) -> Self {
        let ends = ranges
            .iter()
            .flat_map(|(low, high, _)| [Some(*low), high.checked_add(1)]);
        let mut starts: Vec<u128> = ends.flatten().collect();
        starts.sort_unstable();
        starts.dedup();
        let mut tree = Self {
            nodes: vec![Vec::new(); starts.len() * 2],
            starts,
        };
        for (low, high, n) in ranges {
            tree.insert(*low, *high, *n);
        }
        tree
    }

    fn insert(&mut self, low: u128, high: u128, n: usize) {
        let leaves = self.starts.len();
        let leaf = |from: u128| leaves + self.starts.partition_point(|start| *start < from);
        let (mut left, mut right) = (leaf(low), high.checked_add(1).map_or(leaves * 2, leaf));
        let nodes = &mut self.nodes;
        let mut put = |at: usize| nodes.get_mut(at).into_iter().for_each(|node| node.push(n));
        while left < right {
            if left % 2 == 1 {
                put(left);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                put(right);
            }
            left /= 2;
            right /= 2;
        }
    }

    fn holding(&self, at: u128) -> impl Iterator<Item = &[usize]> {
        let behind = self.starts.partition_point(|start| *start <= at);
        let leaf = behind.checked_sub(1).map(|leaf| self.starts.len() + leaf);
        let way = std::iter::successors(leaf, |at| Some(at / 2).filter(|up| *up > 0));
        way.filter_map(|at| self.nodes.get(at).map(Vec::as_slice))
    }
}

/// The addresses that a value stands for, where they are one range.
pub(crate) fn range(value: &Value) -> Option<(IpAddr, IpAddr)> {
    match value {
        Value::Addrs(low, high) if low.is_ipv4() == high.is_ipv4() => Some((*low, *high)),
        Value::Masked { addr, mask } => {
            let len = ipnet::ip_mask_to_prefix(*mask).ok()?;
            let net = IpNet::new(*addr, len).ok()?;
            Some((net.network(), net.broadcast()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn addr(v4: bool, n: u8) -> IpAddr {
        // At both ends of the space, too.
        match v4 {
            true => Ipv4Addr::from_bits(u32::from(n).wrapping_sub(128)).into(),
            false => Ipv6Addr::from_bits(u128::from(n).wrapping_sub(128)).into(),
        }
    }

    proptest! {
        /// What holds an address is what a look at each range says.
        #[test]
        fn ranges_hold_what_each_of_them_holds(
            ranges in prop::collection::vec((any::<bool>(), any::<u8>(), any::<u8>()), 0..40),
            at in any::<(bool, u8)>(),
        ) {
            let ranges = ranges.into_iter().enumerate().map(|(n, (v4, a, b))| {
                let (a, b) = (addr(v4, a), addr(v4, b));
                ((a.min(b), a.max(b)), n)
            });
            let ranges: Vec<_> = ranges.collect();
            let at = addr(at.0, at.1);
            let tree = Ranges::of(&ranges);
            let mut found: Vec<usize> = tree.holding(at).flatten().copied().collect();
            prop_assert!(tree.holding(at).all(|list| list.is_sorted()));
            found.sort_unstable();
            let held = |((low, high), n): &((IpAddr, IpAddr), usize)| {
                (low.is_ipv4() == at.is_ipv4() && *low <= at && at <= *high).then_some(*n)
            };
            let each: Vec<usize> = ranges.iter().filter_map(held).collect();
            prop_assert_eq!(found, each);
        }
    }
}
