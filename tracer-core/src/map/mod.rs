//! The whole destination space of a sender, from rules alone.
//!
//! Every value that a rule, set, map, route or address compares a destination with is an edge
//! ([`edges`]). Between two edges all destinations fare alike, so one of each such stretch is foreseen
//! ([`crate::foresee`]), and stretches that get the same are written as a table in which, as in a routing
//! table, the longest prefix counts ([`table`]). Where a rule asks for protocol or port, TCP, UDP and ICMP
//! are foreseen with any port.

mod alike;
mod diff;
mod edges;
mod table;
#[cfg(test)]
mod tests;

pub use alike::alike;
pub use diff::{diff, lookup};

use crate::foresee::{Forecast, Ground, Needs, Request, Sender, foresee, tell};
use crate::inventory::Role;
use crate::packet::Proto;
use crate::report::{self, Code, Explain, Map, OriginKind, RuleEvidence, SCHEMA, Said, SourceIs};
use edges::Space;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// A sender's map.
#[derive(Clone, Debug, Default)]
pub struct Mapped {
    /// Its lines, in order of their prefixes.
    pub lines: Vec<Map>,
    /// What was not known and could be asked; the map is whole once that is empty.
    pub needs: Needs,
    /// Stretches that were foreseen.
    pub stretches: usize,
    /// What makes the map inexact.
    pub doubts: Vec<String>,
}

/// What every destination of a family gets from a sender.
#[must_use]
pub fn map(ground: &Ground<'_, '_>, sender: &Sender, v4: bool) -> Mapped {
    let space = Space::of(ground, v4);
    let mut mapper = Mapper {
        ground,
        sender,
        v4,
        everybodys: edges::everybodys(ground),
        labels: HashMap::new(),
        said: Vec::new(),
        origin: None,
        found: Mapped {
            doubts: space.doubts.clone(),
            stretches: space.starts.len(),
            ..Mapped::default()
        },
    };
    let label = |start: &u128| (*start, mapper.label(*start).unwrap_or(table::ANY));
    let stretches: Vec<(u128, u32)> = space.starts.iter().map(label).collect();
    mapper.finish(&stretches)
}

struct Mapper<'g, 'r> {
    ground: &'g Ground<'g, 'r>,
    sender: &'g Sender,
    v4: bool,
    everybodys: HashSet<IpAddr>,
    labels: HashMap<String, u32>,
    said: Vec<Said>,
    origin: Option<report::Sender>,
    found: Mapped,
}

impl Mapper<'_, '_> {
    /// The number of what a destination gets; `None`: nobody asks about it.
    fn label(&mut self, start: u128) -> Option<u32> {
        let dst = edges::addr(start, self.v4);
        let nobody = edges::is_special(dst) || self.everybodys.contains(&dst);
        if nobody || self.ground.inventory.owns(self.sender.netns, dst) {
            return None;
        }
        let explain = self.explain(dst)?;
        let said = self.said(&explain, dst);
        self.origin.get_or_insert(explain.origin);
        let key = serde_json::to_string(&said).unwrap_or_default();
        let next = u32::try_from(self.said.len()).ok()?;
        let label = *self.labels.entry(key).or_insert(next);
        if label == next {
            self.said.push(said);
        }
        Some(label)
    }

    fn explain(&mut self, dst: IpAddr) -> Option<Explain> {
        let icmp = if self.v4 { Proto::ICMP } else { Proto::ICMPV6 };
        let mut forecasts: Vec<(Request, Forecast<'_>)> = Vec::new();
        for proto in [Proto::TCP, Proto::UDP, icmp] {
            let request = Request {
                dst,
                proto,
                sport: None,
                dport: None,
            };
            let forecast = foresee(self.ground, self.sender, &request);
            let alike = !forecast.asks_transport;
            self.found.needs.absorb(forecast.needs.clone());
            forecasts.push((request, forecast));
            if alike {
                break;
            }
        }
        tell(self.ground, self.sender, &forecasts)
    }

    fn said(&self, explain: &Explain, dst: IpAddr) -> Said {
        let inventory = self.ground.inventory;
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

    fn finish(mut self, stretches: &[(u128, u32)]) -> Mapped {
        let Some(origin) = self.origin.take() else {
            return self.found;
        };
        for (prefix, label) in table::table(self.v4, stretches) {
            let said = self.said.get(label as usize).cloned();
            self.found.lines.extend(said.map(|said| Map {
                schema: SCHEMA,
                prefix,
                origin: origin.clone(),
                said,
                evidence: RuleEvidence::Replayed,
            }));
        }
        self.found
    }
}

/// The senders whose maps are told: pods, the node, clients that a pod forwards for.
#[must_use]
pub fn is_mapped(ground: &Ground<'_, '_>, sender: &Sender) -> bool {
    sender.kind != OriginKind::External && ground.inventory.role(sender.netns) != Role::External
}
