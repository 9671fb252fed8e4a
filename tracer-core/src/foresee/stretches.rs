//! Which destinations the routes of a namespace tell apart.

use crate::space::{number, specials};
use ipnet::IpNet;
use std::net::IpAddr;

/// The destinations that the routes of a namespace do not tell apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretches {
    v4: Vec<u128>,
    v6: Vec<u128>,
}

impl Stretches {
    pub(super) fn of(nets: &[IpNet]) -> Self {
        let of = |v4: bool| {
            let all = nets.iter().copied().chain(specials(v4));
            let mine = all.filter(|net| net.addr().is_ipv4() == v4);
            let ends = mine.flat_map(|net| {
                [
                    Some(number(net.network())),
                    number(net.broadcast()).checked_add(1),
                ]
            });
            let mut starts: Vec<u128> = ends.flatten().chain([0]).collect();
            starts.sort_unstable();
            starts.dedup();
            starts
        };
        Self {
            v4: of(true),
            v6: of(false),
        }
    }

    pub(super) fn of_family(&self, v4: bool) -> &[u128] {
        if v4 { &self.v4 } else { &self.v6 }
    }

    /// The first address of the stretch that a destination lies in.
    pub(super) fn start(&self, dst: IpAddr) -> u128 {
        let starts = self.of_family(dst.is_ipv4());
        let at = starts.partition_point(|start| *start <= number(dst));
        let start = at.checked_sub(1).and_then(|at| starts.get(at));
        start.copied().unwrap_or(0)
    }
}
