//! Questions to an outcome.

use super::index::At;
use super::outcome::{Agreement, Answer, Assumption, Decision, End, Fate, Outcome, Port, Seen};
use crate::ruleset::{Condition, Field, Step};
use std::net::{IpAddr, SocketAddr};

impl<'r> Outcome<'r> {
    /// Which rule translates the source, if any does.
    #[must_use]
    pub fn source(&self) -> Answer<Option<&Decision<'r>>> {
        self.ask(
            |end| end.source.as_ref(),
            |a, b| a.map(|d| d.by) == b.map(|d| d.by),
        )
    }

    /// Which rule translates the destination, if any does.
    #[must_use]
    pub fn destination(&self) -> Answer<Option<&Decision<'r>>> {
        self.ask(
            |end| end.destination.as_ref(),
            |a, b| a.map(|d| d.by) == b.map(|d| d.by),
        )
    }

    /// Whether the packet comes through, and if not, what stops it.
    #[must_use]
    pub fn fate(&self) -> Answer<&Fate<'r>> {
        self.ask(|end| &end.fate, |a, b| a == b)
    }

    /// The rule that says not to track it.
    #[must_use]
    pub fn untracked(&self) -> Answer<Option<At<'r>>> {
        self.ask(|end| end.untracked, |a, b| a == b)
    }

    /// Only the ends that agree with what was seen of the packet afterwards: conntrack's entry
    /// tells which way a random branch went.
    #[must_use]
    pub fn given(&self, seen: &Seen) -> Self {
        let fitting = self.ends.iter().filter(|end| end.could_be(seen));
        let ends: Vec<End<'r>> = fitting.cloned().collect();
        let decided = |by: At<'r>| {
            let decisions = ends.iter().flat_map(|end| [&end.source, &end.destination]);
            decisions.flatten().any(|decision| decision.by == by)
        };
        let shadowed = self.shadowed.iter().filter(|note| decided(note.by));
        Self {
            shadowed: shadowed.cloned().collect(),
            ends,
            doubts: self.doubts.clone(),
            near_misses: self.near_misses.clone(),
            asks_transport: self.asks_transport,
        }
    }

    /// Whether these rules explain what was seen: for a flow that is older than the trace, whether
    /// today's rules would do to its first packet what its binding does.
    #[must_use]
    pub fn explains(&self, seen: &Seen) -> Agreement {
        let fitting = self.ends.iter().filter(|end| end.could_be(seen)).count();
        let exact = self.ends.iter().all(|end| end.is_just(seen));
        match (fitting, self.doubts.is_empty()) {
            (0, true) => Agreement::Unexplained,
            (n, true) if n == self.ends.len() && exact => Agreement::Explained,
            _ => Agreement::Possible,
        }
    }

    /// Whether the packet passes, no rule of any store translates its source, and none kept it from
    /// that.
    #[must_use]
    pub fn no_rule_matches(&self) -> bool {
        let untouched = |end: &End<'_>| {
            end.fate == Fate::Passes
                && end.source.is_none()
                && end.exemptions.is_empty()
                && end.untracked.is_none()
        };
        self.doubts.is_empty() && self.ends.iter().all(untouched)
    }

    fn ask<'s, T>(
        &'s self,
        read: impl Fn(&'s End<'r>) -> T,
        same: impl Fn(&T, &T) -> bool,
    ) -> Answer<T> {
        let mut candidates: Vec<T> = Vec::new();
        for end in &self.ends {
            let answer = read(end);
            if !candidates.iter().any(|known| same(known, &answer)) {
                candidates.push(answer);
            }
        }
        let mut depends_on = self.doubts.clone();
        if candidates.len() > 1 {
            depends_on.extend(self.differences());
        }
        Answer {
            candidates,
            depends_on,
        }
    }

    /// The assumptions that not all ends share.
    fn differences(&self) -> Vec<String> {
        let shared = |a: &Assumption| self.ends.iter().all(|end| end.assumed.contains(a));
        let mut texts: Vec<String> = Vec::new();
        for assumption in self.ends.iter().flat_map(|end| &end.assumed) {
            if !shared(assumption) && !texts.contains(&assumption.text) {
                texts.push(assumption.text.clone());
            }
        }
        texts
    }
}

impl super::Exemption<'_> {
    /// Whether the rule tests a mark and nothing else: it leaves alone what nobody marked, and says
    /// nothing of this packet.
    #[must_use]
    pub fn asks_only_a_mark(&self) -> bool {
        let tests = self.by.rule.steps.iter().filter_map(|step| match step {
            Step::Test(test) => Some(&test.condition),
            Step::Do(_) => None,
        });
        let is_mark = |c: &Condition| {
            let field = match c {
                Condition::Compare { field, .. } => Some(field),
                _ => None,
            };
            matches!(field, Some(Field::Mark { .. }))
        };
        let mut marks = tests.map(is_mark).peekable();
        marks.peek().is_some() && marks.all(|is| is)
    }
}

impl<'r> End<'r> {
    /// The exemption that speaks of this packet: one that asked for more than a mark which nobody
    /// had set, if there is one.
    #[must_use]
    pub fn exempted_by(&self) -> Option<&super::Exemption<'r>> {
        if self.source.is_some() {
            return None;
        }
        let exemptions = &self.exemptions;
        let speaking = exemptions.iter().find(|e| !e.asks_only_a_mark());
        speaking.or(exemptions.first())
    }

    fn could_be(&self, seen: &Seen) -> bool {
        seen.source
            .is_none_or(|s| fits(self.src.0, self.source.as_ref(), s))
            && seen
                .destination
                .is_none_or(|d| fits(self.dst.0, self.destination.as_ref(), d))
    }

    fn is_just(&self, seen: &Seen) -> bool {
        let known = |side: (Option<IpAddr>, _), seen: Option<SocketAddr>| {
            seen.is_none() || side.0.is_some()
        };
        known(self.src, seen.source) && known(self.dst, seen.destination)
    }
}

/// Whether a partly known end may be what was seen. Ports are compared only where the rule names
/// some: the kernel takes another where the packet's own is in use.
fn fits(addr: Option<IpAddr>, decision: Option<&Decision<'_>>, seen: SocketAddr) -> bool {
    let port = match decision.map(|decision| decision.translation.port) {
        Some(Port::Within(low, high)) => (low..=high).contains(&seen.port()),
        _ => true,
    };
    port && addr.is_none_or(|addr| addr == seen.ip())
}
