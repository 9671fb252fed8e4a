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
mod table;
#[cfg(test)]
mod tests;

pub use alike::alike;
pub use diff::diff;
pub use edges::Space;

use crate::foresee::{Forecast, Ground, Needs, Request, Sender, foresee, tell};
use crate::inventory::Role;
use crate::packet::Proto;
use crate::report::{self, Code, Explain, Map, OriginKind, RuleEvidence, SCHEMA, Said, SourceIs};
use crate::space::addr;
use edges::Stretch;
use std::collections::{BTreeMap, HashMap};
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
    numbers: HashMap<String, u32>,
    /// By the first address of a stretch.
    found: BTreeMap<u128, Found>,
}

/// What the destinations of a stretch get.
#[derive(Clone, Debug)]
struct Found {
    /// Its number, and the sender as it asks; `None`: nobody asks about them.
    said: Option<(u32, report::Sender)>,
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
    ) -> (Option<(u32, report::Sender)>, Needs) {
        let mut needs = Needs::default();
        if space.is_nobodys(dst) || ground.inventory.owns(self.sender.netns, dst) {
            return (None, needs);
        }
        let forecasts = forecasts(ground, &self.sender, dst);
        for (_, forecast) in &forecasts {
            needs.absorb(forecast.needs.clone());
        }
        let explain = tell(ground, &self.sender, &forecasts);
        let said = explain.and_then(|explain| {
            let number = self.number(said(ground, &explain, dst))?;
            Some((number, explain.origin))
        });
        (said, needs)
    }

    fn number(&mut self, said: Said) -> Option<u32> {
        let key = serde_json::to_string(&said).ok()?;
        let next = u32::try_from(self.said.len()).ok()?;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.said.push(said);
        }
        Some(number)
    }

    /// The map.
    #[must_use]
    pub fn finish(self, space: &Space) -> Mapped {
        let told = |like: &u128| self.found.get(like)?.said.as_ref();
        let stretches = space.stretches.iter();
        let label = |stretch: &Stretch| {
            let label = told(&stretch.like).map_or(table::ANY, |(number, _)| *number);
            (stretch.start, label)
        };
        let labels: Vec<(u128, u32)> = stretches.clone().map(label).collect();
        let mut origins = stretches.filter_map(|stretch| told(&stretch.like));
        let Some((_, origin)) = origins.next() else {
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

/// An answer without its words.
fn said(ground: &Ground<'_, '_>, explain: &Explain, dst: IpAddr) -> Said {
    let inventory = ground.inventory;
    let by_program = |f: &&report::Finding| f.code == Code::ProgramDecides;
    let program = explain.findings.iter().find(by_program);
    let mut depends_on = explain.depends_on.clone();
    depends_on.extend(program.map(|finding| finding.text.clone()));
    let source_is = match explain.source_on_wire {
        addr if addr == explain.origin.addr && explain.source_kept() => SourceIs::Sender,
        Some(addr) if inventory.node_owns(addr) => SourceIs::Node,
        Some(_) => SourceIs::Other,
        None => SourceIs::Unknown,
    };
    Said {
        source: explain.source,
        source_on_wire: explain.source_on_wire,
        source_is,
        dest_on_wire: explain.dest_on_wire.filter(|to| *to != dst),
        fate: explain.fate,
        place: explain.place,
        rule: explain.rule.clone(),
        marked_by: explain.marked_by.clone(),
        candidates: explain.candidates.clone(),
        depends_on,
    }
}

/// The senders whose maps are told: pods, the node, clients that a pod forwards for.
#[must_use]
pub fn is_mapped(ground: &Ground<'_, '_>, sender: &Sender) -> bool {
    sender.kind != OriginKind::External && ground.inventory.role(sender.netns) != Role::External
}
