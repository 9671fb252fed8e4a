//! The paths of one report, each with the sources that its flows had.

use super::is_told;
use super::path::{Loose, Path};
use crate::report::{Code, DeliveryCode, Flow, PathView, Rule, SourceCode, SourceSeen};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Most different paths of one report.
const MAX_PATHS: usize = 65_536;
/// Most different sources of one path; the rest is counted with the last one.
const MAX_SOURCES: usize = 64;

/// The paths of one report.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub(super) paths: BTreeMap<Path, Sight>,
    pub(super) older: u64,
    pub(super) overflow: u64,
    flows: u64,
}

/// What was seen of one path.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) view: PathView,
    pub(super) deliveries: BTreeSet<DeliveryCode>,
    pub(super) complete: bool,
    sources: BTreeMap<Source, Told>,
}

/// A source: kept ones are all alike, of rewritten ones the address counts.
type Source = (SourceCode, Option<IpAddr>);

#[derive(Clone, Debug)]
struct Told {
    flows: u64,
    addr: Option<IpAddr>,
    rule: Option<Rule>,
}

impl Seen {
    /// Flows taken in.
    #[must_use]
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Adds a flow.
    pub fn add(&mut self, flow: &Flow) {
        self.flows = self.flows.saturating_add(flow.count);
        if flow.has(Code::MappingPredatesTrace) {
            self.older = self.older.saturating_add(flow.count);
            return;
        }
        let path = Path::of(flow);
        if self.paths.len() >= MAX_PATHS && !self.paths.contains_key(&path) {
            self.overflow = self.overflow.saturating_add(flow.count);
            return;
        }
        let view = path.view(flow.origin.kind);
        let sight = self.paths.entry(path).or_insert_with(|| Sight {
            view,
            deliveries: BTreeSet::new(),
            complete: true,
            sources: BTreeMap::new(),
        });
        sight.deliveries.insert(flow.delivery.code);
        sight.complete &= flow.verdict.complete;
        let code = flow.verdict.source;
        let kept = code == SourceCode::SourcePreserved;
        let told = Told {
            flows: flow.count,
            addr: flow.verdict.source_on_wire.filter(|_| is_told(code)),
            rule: flow.source_rule().cloned(),
        };
        sight.add((code, told.addr.filter(|_| !kept)), told);
    }
}

impl Sight {
    fn add(&mut self, source: Source, told: Told) {
        let full = self.sources.len() >= MAX_SOURCES && !self.sources.contains_key(&source);
        let slot = match full {
            true => self.sources.values_mut().next_back(),
            false => Some(self.sources.entry(source).or_insert(Told {
                flows: 0,
                ..told.clone()
            })),
        };
        if let Some(slot) = slot {
            slot.flows = slot.flows.saturating_add(told.flows);
            slot.rule = slot.rule.take().or(told.rule);
        }
    }

    /// Takes in another path that is the same by a looser name.
    pub(super) fn join(&mut self, other: Self, name: &Loose) {
        self.view = name.view(&self.view);
        self.deliveries.extend(other.deliveries);
        self.complete &= other.complete;
        for (source, told) in other.sources {
            self.add(source, told);
        }
    }

    /// Whether no flow of it tells a source.
    pub(super) fn is_untold(&self) -> bool {
        !self.sources.keys().any(|(code, _)| is_told(*code))
    }

    /// The sources that it had, without those of flows that do not tell.
    pub(super) fn sources(&self) -> BTreeSet<Source> {
        let told = self.sources.keys().filter(|(code, _)| is_told(*code));
        told.copied().collect()
    }

    /// For the report: the most frequent first, and the rule that gave it.
    pub(super) fn told(&self) -> (Vec<SourceSeen>, Option<Rule>) {
        let mut all: Vec<_> = self
            .sources
            .iter()
            .filter(|((code, _), _)| is_told(*code))
            .collect();
        all.sort_by_key(|(_, told)| std::cmp::Reverse(told.flows));
        let rule = all.first().and_then(|(_, told)| told.rule.clone());
        let seen = all.iter().map(|((source, _), told)| SourceSeen {
            source: *source,
            addr: told.addr,
            flows: told.flows,
        });
        (seen.collect(), rule)
    }
}
