//! What a capture shows, so that what is not in it can be told from what could not be. A capture does not say
//! what its filter left out: only what else it shows to the same destination tells that such packets were kept.

use super::witness::Witness;
use crate::journey::Direction;
use crate::packet::{Proto, Tuple};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most destinations that are remembered.
const MOST: usize = 1 << 14;

/// What a capture shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its first and its last packet, nanoseconds since 1970, by its own clock; `None`: it is no capture,
    /// or has no packets.
    pub span: Option<(i64, i64)>,
    dests: BTreeMap<IpAddr, BTreeSet<(Proto, u16)>>,
    count: usize,
}

/// How near to a request what a capture shows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nearness {
    /// No packet to that address.
    Nothing,
    /// Packets to the address, to other ports.
    Address,
    /// Packets to the address and port.
    Port,
}

impl Shown {
    /// Notes a flow that the capture shows.
    pub fn note(&mut self, witness: &Witness) {
        let request = witness.way(Direction::Request).last().map(|s| s.tuple);
        let reply = witness.way(Direction::Reply).first();
        let asked = request.or_else(|| reply.map(|s| s.tuple.reversed()));
        let Some(Tuple {
            dst, dport, proto, ..
        }) = asked.filter(|_| self.count < MOST)
        else {
            return;
        };
        let new = self.dests.entry(dst).or_default().insert((proto, dport));
        self.count += usize::from(new);
    }

    /// What it shows of a request's destination.
    pub(super) fn nearness(&self, tuple: &Tuple) -> Nearness {
        match self.dests.get(&tuple.dst) {
            None => Nearness::Nothing,
            Some(ports) if ports.contains(&(tuple.proto, tuple.dport)) => Nearness::Port,
            Some(_) => Nearness::Address,
        }
    }
}
