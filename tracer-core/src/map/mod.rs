//! The whole destination space of a sender, from rules alone.
//!
//! Every value that a rule, set, map, route or address compares a destination with is an edge
//! ([`Space`]). Between two edges all destinations fare alike, and so do all stretches that the same values
//! hold: one destination of them is foreseen ([`crate::foresee`]). Stretches that get the same are written as a
//! table in which, as in a routing table, the longest prefix counts ([`table`]). Where a rule asks for
//! protocol or port, TCP, UDP and ICMP are foreseen with any port.
//!
//! What is missing for that is told: [`wants`] looks at one destination of each place among the routes, so that
//! little is foreseen in vain; a [`Drawing`] keeps what was foreseen with all that it needed.

mod alike;
mod diff;
mod edges;
mod gather;
mod table;
#[cfg(test)]
mod tests;

pub use alike::alike;
pub use diff::diff;
pub use edges::Space;
pub use gather::gathered;

use crate::foresee::{Forecast, Ground, Needs, Request, Sender, as_it_asks, foresee, said};
use crate::inventory::Role;
use crate::packet::Proto;
use crate::report::{self, Map, OriginKind, RuleEvidence, SCHEMA, Said};
use crate::space::{addr, number};
use edges::Stretch;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::net::IpAddr;

/// A sender's map.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// Its lines, in order of their prefixes.
    pub lines: Vec<Map>,
    /// Destinations that were foreseen for it.
    pub foreseen: usize,
}

/// What every destination of a family gets from a sender, by what is known.
#[must_use]
pub fn map(ground: &Ground<'_, '_>, sender: &Sender, v4: bool) -> Mapped {
    let space = Space::of(ground, v4);
    let mut drawing = Drawing::of(*sender);
    drawing.go_on(ground, &space);
    drawing.finish(&space)
}

/// What is not known of the ways to one destination of each place among the routes.
#[must_use]
pub fn wants(ground: &Ground<'_, '_>, space: &Space, sender: &Sender) -> Needs {
    let mut needs = Needs::default();
    for dst in &space.scouts {
        for (_, forecast) in forecasts(ground, sender, *dst) {
            needs.absorb(forecast.needs);
        }
    }
    needs
}

/// A sender's map as far as it is drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    sender: Sender,
    /// What destinations get, each different one once.
    said: Vec<Said>,
    /// Those of the same marks, by what they have in common.
    numbers: HashMap<u64, Vec<u32>>,
    hasher: RandomState,
    /// The sender as it asks about the first destination that it may ask about.
    origin: Option<(u128, report::Sender)>,
    /// By the first address of a stretch.
    found: BTreeMap<u128, Found>,
}

/// What the destinations of a stretch get.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Its number; `None`: nobody asks about them.
    said: Option<u32>,
    /// Whether all was known that it depends on.
    whole: bool,
}

impl Drawing {
    /// Of a sender, with nothing on it.
    #[must_use]
    pub fn of(sender: Sender) -> Self {
        Self {
            sender,
            said: Vec::new(),
            numbers: HashMap::new(),
            hasher: RandomState::default(),
            origin: None,
            found: BTreeMap::new(),
        }
    }

    /// Foresees every destination for which not all was known yet; what is missing still.
    pub fn go_on(&mut self, ground: &Ground<'_, '_>, space: &Space) -> Needs {
        let mut needs = Needs::default();
        for start in space.kinds() {
            if self.found.get(&start).is_none_or(|found| !found.whole) {
                let dst = addr(start, space.v4);
                let (said, lacking) = self.look(ground, space, dst);
                let whole = lacking.is_empty();
                self.found.insert(start, Found { said, whole });
                needs.absorb(lacking);
            }
        }
        needs
    }

    fn look(
        &mut self,
        ground: &Ground<'_, '_>,
        space: &Space,
        dst: IpAddr,
    ) -> (Option<u32>, Needs) {
        let mut needs = Needs::default();
        if space.is_nobodys(dst) || ground.inventory.owns(self.sender.netns, dst) {
            return (None, needs);
        }
        let forecasts = forecasts(ground, &self.sender, dst);
        for (_, forecast) in &forecasts {
            needs.absorb(forecast.needs.clone());
        }
        let Some((said, from)) = said(ground, &self.sender, &forecasts) else {
            return (None, needs);
        };
        let at = number(dst);
        if self.origin.as_ref().is_none_or(|(first, _)| at <= *first) {
            self.origin = Some((at, as_it_asks(ground, &self.sender, from)));
        }
        (self.number(said), needs)
    }

    /// The number of what a destination gets: the same for all that get the same.
    fn number(&mut self, said: Said) -> Option<u32> {
        let next = u32::try_from(self.said.len()).ok()?;
        let of_rule = |rule: &report::Rule| (rule.chain.clone(), rule.index, rule.handle);
        let rule = said.rule.as_ref().map(of_rule);
        let key = (said.source_on_wire, said.dest_on_wire, said.fate, rule);
        let like = self.numbers.entry(self.hasher.hash_one(key)).or_default();
        let known = like
            .iter()
            .find(|n| self.said.get(**n as usize) == Some(&said));
        if known.is_none() {
            like.push(next);
            self.said.push(said);
            return Some(next);
        }
        known.copied()
    }

    /// The map.
    #[must_use]
    pub fn finish(self, space: &Space) -> Mapped {
        let label = |stretch: &Stretch| {
            let found = self.found.get(&stretch.like);
            let label = found.and_then(|found| found.said).unwrap_or(table::ANY);
            (stretch.start, label)
        };
        let labels: Vec<(u128, u32)> = space.stretches.iter().map(label).collect();
        let Some((_, origin)) = self.origin else {
            return Mapped::default();
        };
        let line = |(prefix, label): (_, u32)| {
            Some(Map {
                schema: SCHEMA,
                prefix,
                origin: origin.clone(),
                said: self.said.get(label as usize)?.clone(),
                evidence: RuleEvidence::Replayed,
            })
        };
        let table = table::table(space.v4, &labels).into_iter();
        Mapped {
            lines: table.filter_map(line).collect(),
            foreseen: self.found.len(),
        }
    }
}

/// What would become of requests: of one, where no rule asks for the protocol or its header.
fn forecasts<'r>(
    ground: &Ground<'_, 'r>,
    sender: &Sender,
    dst: IpAddr,
) -> Vec<(Request, Forecast<'r>)> {
    let icmp = if dst.is_ipv4() {
        Proto::ICMP
    } else {
        Proto::ICMPV6
    };
    let mut found = Vec::new();
    for proto in [Proto::TCP, Proto::UDP, icmp] {
        let request = Request {
            dst,
            proto,
            sport: None,
            dport: None,
        };
        let forecast = foresee(ground, sender, &request);
        let alike = !forecast.asks_transport;
        found.push((request, forecast));
        if alike {
            break;
        }
    }
    found
}

/// The senders whose maps are told: pods, the node, clients that a pod forwards for.
#[must_use]
pub fn is_mapped(ground: &Ground<'_, '_>, sender: &Sender) -> bool {
    sender.kind != OriginKind::External && ground.inventory.role(sender.netns) != Role::External
}
