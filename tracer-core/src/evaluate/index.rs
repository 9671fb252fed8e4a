//! The rule stores by name and by hook: what the kernel resolves when rules are loaded.

use super::guards::Guards;
use super::members::Members;
use super::tracking;
use super::world::World;
use crate::ruleset::{Backend, Base, Chain, ChainKind, Family, Hook, Policy};
use crate::ruleset::{Rule, RuleId, Ruleset, SetId, Table};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::fmt;

/// A ruleset with its chains by name; made once, asked for many packets.
#[derive(Debug)]
pub struct Rules<'r> {
    pub(crate) ruleset: &'r Ruleset,
    pub(super) tables: Vec<Named<'r>>,
    pub(super) sets: HashMap<&'r SetId, Members<'r>, RandomState>,
    /// Whether conntrack runs, for IPv4 and IPv6.
    tracks: [bool; 2],
}

/// A table and its chains by name.
#[derive(Debug)]
pub(super) struct Named<'r> {
    pub(super) table: &'r Table,
    pub(super) chains: HashMap<&'r str, &'r Chain, RandomState>,
    /// Those that hang on a hook.
    bases: Vec<(&'r Chain, &'r Base)>,
    /// Of long chains, where many packets are asked about.
    guards: HashMap<&'r str, Guards, RandomState>,
}

impl<'r> Named<'r> {
    /// The next rule of one of its chains from `from` on that may match the packet in one of these worlds.
    pub(super) fn next_rule(
        &self,
        chain: &Chain,
        from: usize,
        worlds: &[World<'_>],
    ) -> Option<usize> {
        let Some(guards) = self.guards.get(chain.name.as_str()) else {
            return (from < chain.rules.len() && !worlds.is_empty()).then_some(from);
        };
        let next = |world: &World<'_>| guards.next(world.state.src, world.state.dst, from);
        worlds.iter().filter_map(next).min()
    }
}

impl<'r> Rules<'r> {
    /// Indexes a ruleset.
    #[must_use]
    pub fn new(ruleset: &'r Ruleset) -> Self {
        let named = |table: &'r Table| Named {
            table,
            chains: table.chains.iter().map(|c| (c.name.as_str(), c)).collect(),
            bases: (table.chains.iter())
                .filter_map(|chain| Some((chain, chain.base.as_ref()?)))
                .collect(),
            guards: HashMap::default(),
        };
        Self {
            ruleset,
            tables: ruleset.tables.iter().map(named).collect(),
            sets: (ruleset.sets.iter())
                .map(|(id, set)| (id, Members::of(set)))
                .collect(),
            tracks: [4, 6].map(|version| tracking::is_on(ruleset, version)),
        }
    }

    /// Indexes a ruleset that is asked about very many packets: what rules nearly did is not told then.
    #[must_use]
    pub fn of_many(ruleset: &'r Ruleset) -> Self {
        let mut rules = Self::new(ruleset);
        for named in &mut rules.tables {
            let chains = named.table.chains.iter();
            let long = chains.filter_map(|chain| Some((chain.name.as_str(), Guards::of(chain)?)));
            named.guards = long.collect();
        }
        rules
    }

    /// Whether conntrack runs for an IP version.
    pub(super) fn tracks(&self, version: u8) -> bool {
        let [v4, v6] = self.tracks;
        if version == 4 { v4 } else { v6 }
    }

    /// Base chains that a packet of this IP version meets at a hook, in no particular order.
    /// Chains that can do nothing (no rules, policy accept) are left out.
    pub(super) fn bases(&self, hook: Hook, version: u8) -> Vec<BaseAt<'_, 'r>> {
        let live = self.tables.iter().filter(|named| {
            let id = &named.table.id;
            !named.table.dormant && id.family.takes(version) && id.family != Family::Bridge
        });
        live.flat_map(|named| {
            let bases = named
                .bases
                .iter()
                .filter(move |(_, base)| base.hook == hook);
            bases.filter_map(move |(chain, base)| {
                let idle = chain.rules.is_empty() && base.policy == Policy::Accept;
                (!idle).then_some(BaseAt { named, chain, base })
            })
        })
        .collect()
    }
}

/// A base chain in its table.
#[derive(Clone, Copy, Debug)]
pub(super) struct BaseAt<'w, 'r> {
    pub(super) named: &'w Named<'r>,
    pub(super) chain: &'r Chain,
    pub(super) base: &'r Base,
}

impl BaseAt<'_, '_> {
    pub(super) fn is_nat(&self) -> bool {
        self.base.kind == ChainKind::Nat
    }

    /// Where it is, for texts.
    pub(super) fn name(&self) -> String {
        let id = &self.named.table.id;
        format!(
            "{} {} {} {}",
            id.backend, id.family, id.name, self.chain.name
        )
    }
}

/// A rule where it stands. Two are equal if they are the same rule of the same ruleset.
#[derive(Clone, Copy)]
pub struct At<'r> {
    /// Its table.
    pub table: &'r Table,
    /// Its chain.
    pub chain: &'r Chain,
    /// The rule.
    pub rule: &'r Rule,
}

impl At<'_> {
    /// The rule's identity.
    #[must_use]
    pub fn id(&self) -> RuleId {
        RuleId {
            table: self.table.id.clone(),
            chain: self.chain.name.clone(),
            index: self.rule.index,
        }
    }
}

impl PartialEq for At<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.rule, other.rule)
    }
}

impl Eq for At<'_> {}

/// As a path names it: `IP-MASQ 3` in iptables, `masquerading handle 12` in nft.
impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let native = self.table.id.backend == Backend::Nft;
        match self.rule.handle.filter(|_| native) {
            Some(handle) => write!(f, "{} handle {handle}", self.chain.name),
            None => write!(f, "{} {}", self.chain.name, self.rule.index),
        }
    }
}

impl fmt::Debug for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
