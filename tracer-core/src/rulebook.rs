//! The rules of each namespace, as they were read, and for which moments a reading holds.
//!
//! Rules are read again and again while a trace runs. A reading that equals the one before only
//! makes that one hold longer; one that differs begins a new version, and flows of the time between
//! the two cannot be sure which of them they met.

use crate::event::NetnsId;
use crate::recording::Reading as Noted;
use crate::ruleset::{Ruleset, Unread};
use std::collections::BTreeMap;

/// Most versions of one namespace's rules that are kept.
const MAX_VERSIONS: usize = 4;

/// What was read of every namespace.
#[derive(Clone, Debug, Default)]
pub struct Rulebook {
    spaces: BTreeMap<NetnsId, Vec<Version>>,
    /// What was taken in, where that is asked for.
    log: Option<Vec<Noted>>,
    /// Those whose rules could not be waited for, as long as there are none.
    missing: BTreeMap<NetnsId, Ruleset>,
}

/// Rules that were read alike from one moment to another.
#[derive(Clone, Debug)]
struct Version {
    rules: Ruleset,
    /// Before the first reading of it began.
    from_ns: u64,
    /// Before the last reading of it began.
    to_ns: u64,
}

/// What is known of a namespace's rules at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The rules.
    pub rules: &'a Ruleset,
    /// They were changed between two readings around that moment: these are those read after it.
    pub changed: bool,
}

impl Rulebook {
    /// Keeps a log from now on of what it takes in.
    pub(crate) fn keep_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The log since this was last asked.
    pub(crate) fn take_log(&mut self) -> Vec<Noted> {
        self.log.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Takes in a reading that was begun at `at_ns` (CLOCK_MONOTONIC).
    pub fn add(&mut self, netns: NetnsId, at_ns: u64, rules: Ruleset) {
        if let Some(log) = &mut self.log {
            let rules = Some(rules.clone());
            log.push(Noted {
                netns,
                at_ns,
                rules,
                given_up: None,
            });
        }
        self.missing.remove(&netns);
        let versions = self.spaces.entry(netns).or_default();
        match versions.last_mut() {
            Some(last) if last.rules == rules => last.to_ns = last.to_ns.max(at_ns),
            _ => versions.push(Version {
                rules,
                from_ns: at_ns,
                to_ns: at_ns,
            }),
        }
        if versions.len() > MAX_VERSIONS {
            versions.remove(0);
        }
    }

    /// Flows are told without the rules of a namespace, for this reason, unless some were read before.
    pub fn give_up(&mut self, netns: NetnsId, why: impl Into<String>) {
        if self.read_ns(netns).is_none() {
            let why = why.into();
            if let Some(log) = &mut self.log {
                log.push(Noted {
                    netns,
                    at_ns: 0,
                    rules: None,
                    given_up: Some(why.clone()),
                });
            }
            let unread = vec![Unread::new("the rules", why)];
            let without = Ruleset {
                unread,
                ..Ruleset::default()
            };
            self.missing.insert(netns, without);
        }
    }

    /// When the last reading of a namespace began.
    #[must_use]
    pub fn read_ns(&self, netns: NetnsId) -> Option<u64> {
        self.spaces.get(&netns)?.last().map(|v| v.to_ns)
    }

    /// The rules that a packet of that moment met.
    #[must_use]
    pub fn at(&self, netns: NetnsId, time_ns: u64) -> Option<Reading<'_>> {
        if let Some(rules) = self.missing.get(&netns) {
            let changed = false;
            return Some(Reading { rules, changed });
        }
        let versions = self.spaces.get(&netns)?;
        let next = versions.iter().position(|v| v.to_ns >= time_ns);
        let (index, after) = match next {
            Some(index) => (index, versions[index].from_ns > time_ns),
            None => (versions.len().checked_sub(1)?, false),
        };
        Some(Reading {
            rules: &versions[index].rules,
            changed: after && index > 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NetnsId = NetnsId(1);

    /// Rulesets that differ.
    fn rules(n: u32) -> Ruleset {
        Ruleset {
            unread: vec![Unread::new(n.to_string(), "")],
            ..Ruleset::default()
        }
    }

    fn at(book: &Rulebook, time: u64) -> Option<(String, bool)> {
        book.at(NODE, time)
            .map(|r| (r.rules.unread[0].what.clone(), r.changed))
    }

    #[test]
    fn a_moment_between_two_versions_is_uncertain() {
        let mut book = Rulebook::default();
        assert_eq!(at(&book, 5), None);
        for (time, version) in [(10, 1), (20, 1), (30, 2), (40, 2)] {
            book.add(NODE, time, rules(version));
        }
        assert_eq!(at(&book, 5), Some(("1".into(), false)));
        assert_eq!(at(&book, 15), Some(("1".into(), false)));
        assert_eq!(at(&book, 25), Some(("2".into(), true)));
        assert_eq!(at(&book, 35), Some(("2".into(), false)));
        assert_eq!(at(&book, 99), Some(("2".into(), false)));
        assert_eq!(book.read_ns(NODE), Some(40));
    }

    #[test]
    fn what_could_not_be_waited_for_is_unread_until_it_is_read() {
        let mut book = Rulebook::default();
        book.give_up(NODE, "late");
        assert_eq!(at(&book, 5), Some(("the rules".into(), false)));
        assert_eq!(book.read_ns(NODE), None);
        book.add(NODE, 10, rules(1));
        book.give_up(NODE, "late again");
        assert_eq!(at(&book, 5), Some(("1".into(), false)));
    }

    #[test]
    fn old_versions_are_dropped() {
        let mut book = Rulebook::default();
        for n in 0..100 {
            book.add(NODE, u64::from(n), rules(n));
        }
        assert_eq!(book.spaces[&NODE].len(), MAX_VERSIONS);
    }
}
