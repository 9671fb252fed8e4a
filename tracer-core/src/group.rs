//! Flows that took the same way, told as one.

use crate::event::Dir;
use crate::report::{
    Code, DeliveryCode, Flow, Group, OriginKind, PointSeen, RewriteDirection, RewriteField, Rule,
    SourceCode, Where,
};
use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Most different ways that are kept apart.
const MAX_WAYS: usize = 4096;

/// What flows of one way have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Way {
    origin: OriginKind,
    /// Namespace (not the origin's own), direction, and the device by which the packet left.
    hops: Vec<(Option<u32>, Dir, Option<String>)>,
    /// What each point saw of it.
    points: Vec<PointSeen>,
    rewrites: Vec<Change>,
    source: SourceCode,
    /// Where it was rewritten: to what.
    source_on_wire: Option<IpAddr>,
    delivery: DeliveryCode,
    /// What was found, so that each finding of the exemplar holds for the whole group.
    findings: Vec<Code>,
    violates: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Change {
    request: bool,
    field: RewriteField,
    place: Where,
    rule: Option<String>,
}

impl Way {
    fn of(flow: &Flow) -> Self {
        let hops = flow.hops.iter().map(|hop| {
            let own = hop.netns == flow.origin.netns;
            // Each pod has devices of its own; by which of them it came is not another way.
            let device = (hop.dir == Dir::Egress && !own).then(|| hop.ifname.clone());
            (hop.netns.filter(|_| !own), hop.dir, device.flatten())
        });
        let rewrites = flow.rewrites.iter().map(|r| Change {
            request: r.direction == RewriteDirection::Request,
            field: r.field,
            place: r.place,
            rule: r.rule.as_ref().map(Rule::short),
        });
        let rewritten = flow.verdict.source == SourceCode::SourceRewritten;
        Self {
            origin: flow.origin.kind,
            hops: hops.collect(),
            points: flow.points.iter().map(|point| point.seen).collect(),
            rewrites: rewrites.collect(),
            source: flow.verdict.source,
            source_on_wire: flow.verdict.source_on_wire.filter(|_| rewritten),
            delivery: flow.delivery.code,
            findings: flow.findings.iter().map(|f| f.code).collect(),
            violates: flow.violated(),
        }
    }
}

#[derive(Clone, Debug)]
struct Member {
    exemplar: Flow,
    sources: Option<IpAddr>,
    origins: HashSet<String, RandomState>,
}

/// Most origins that are told apart in one group.
const MAX_ORIGINS: usize = 1024;

/// One way and the flows that took it.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The first flow that took it, with `count` set to how many did.
    pub exemplar: Flow,
    /// The source on the wire, if it is one and the same for all.
    pub source_on_wire: Option<IpAddr>,
    /// From how many pods (other namespaces, or addresses) they came; counted up to 1024.
    pub origins: usize,
}

/// The ways seen so far. Memory is bounded: beyond a number of different ways only counts grow.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    numbers: HashMap<Way, usize, RandomState>,
    members: Vec<Member>,
    /// Flows whose way was one too many.
    overflow: u64,
}

impl Groups {
    /// Adds a flow.
    pub fn add(&mut self, flow: &Flow) {
        let origin = origin_name(flow);
        match self.numbers.entry(Way::of(flow)) {
            Entry::Occupied(number) => {
                let member = &mut self.members[*number.get()];
                member.exemplar.count += flow.count;
                if member.sources != flow.verdict.source_on_wire {
                    member.sources = None;
                }
                if member.origins.len() < MAX_ORIGINS {
                    member.origins.insert(origin);
                }
            }
            Entry::Vacant(_) if self.members.len() >= MAX_WAYS => self.overflow += flow.count,
            Entry::Vacant(slot) => {
                slot.insert(self.members.len());
                self.members.push(Member {
                    exemplar: flow.clone(),
                    sources: flow.verdict.source_on_wire,
                    origins: HashSet::from_iter([origin]),
                });
            }
        }
    }

    /// Each way with its first flow and its count, the most frequent first.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut paths: Vec<Path> = self
            .members
            .iter()
            .map(|m| Path {
                exemplar: m.exemplar.clone(),
                source_on_wire: m.sources,
                origins: m.origins.len(),
            })
            .collect();
        // Stable: among equals the earlier.
        paths.sort_by_key(|p| std::cmp::Reverse(p.exemplar.count));
        paths
    }

    /// Flows that were counted but belong to no group, because there were too many ways.
    #[must_use]
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The groups of the summary: coarser than ways, without hops.
    #[must_use]
    pub fn summary(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for path in self.paths() {
            let group = group(&path);
            let same = |g: &&mut Group| {
                let apart = group.source == SourceCode::SourceRewritten
                    && g.source_on_wire != group.source_on_wire;
                !apart
                    && (&g.origin, g.source, g.place, &g.rule, g.delivery)
                        == (
                            &group.origin,
                            group.source,
                            group.place,
                            &group.rule,
                            group.delivery,
                        )
                    && g.violates == group.violates
            };
            match groups.iter_mut().find(same) {
                Some(known) => {
                    known.count += group.count;
                    if known.source_on_wire != group.source_on_wire {
                        known.source_on_wire = None;
                    }
                }
                None => groups.push(group),
            }
        }
        groups.sort_by_key(|g| std::cmp::Reverse(g.count));
        groups
    }
}

fn group(path: &Path) -> Group {
    let flow = &path.exemplar;
    let change = flow
        .rewrites
        .iter()
        .rev()
        .find(|r| r.direction == RewriteDirection::Request && r.field == RewriteField::Src);
    Group {
        count: flow.count,
        origin: Group::origin_word(flow.origin.kind).to_owned(),
        source: flow.verdict.source,
        source_on_wire: path.source_on_wire,
        place: change.map(|r| r.place),
        rule: change.and_then(|r| r.rule.as_ref()).map(Rule::short),
        delivery: flow.delivery.code,
        violates: flow.violated(),
    }
}

fn origin_name(flow: &Flow) -> String {
    let origin = &flow.origin;
    let name = origin.pod.as_ref().or(origin.netns_name.as_ref());
    match (name, origin.netns) {
        (Some(name), _) => name.clone(),
        (None, Some(netns)) => netns.to_string(),
        (None, None) => flow.flow.tuple.src.to_string(),
    }
}
