//! Flows against a contract.

use super::line;
use super::terms::{Contract, Terms};
use crate::expect::{ExitStatus, Nodes, Outcome, Source, source_outcome};
use crate::report::{
    Agreement, Code, DeliveryCode, ExpectLine, Finding, Flow, Severity, SourceCode,
};
use crate::verdict::{finding, rule_name};
use serde_json::json;
use std::net::IpAddr;

/// Most sources and rules that are kept of an entry.
pub(super) const MOST: usize = 8;

/// A contract, and how its entries fare.
#[derive(Clone, Debug)]
pub struct Checker {
    entries: Vec<(Terms, Tally)>,
}

/// What the flows of one entry were like.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) held: u64,
    pub(super) violated: u64,
    pub(super) skipped: u64,
    pub(super) uncertain: u64,
    pub(super) answered: u64,
    /// Each source that left, and what it is.
    pub(super) leaves: Vec<(IpAddr, &'static str)>,
    pub(super) rules: Vec<String>,
    pub(super) checked: Option<String>,
}

impl Checker {
    /// A contract with which nothing was compared yet.
    #[must_use]
    pub fn new(contract: Contract) -> Self {
        let entries = contract.terms.into_iter();
        Self {
            entries: entries.map(|terms| (terms, Tally::default())).collect(),
        }
    }

    /// Adds what a flow violates to its findings, before all others. What an earlier check against a contract
    /// found goes. Whether anything was added.
    pub fn mark(&mut self, flow: &mut Flow, nodes: Nodes<'_>) -> bool {
        flow.findings.retain(|finding| !is_of_a_contract(finding));
        let found = self.judge(flow, nodes);
        let any = !found.is_empty();
        flow.findings.splice(0..0, found);
        any
    }

    /// Compares a flow with the first entry that is for it; what it violates comes back as findings.
    #[must_use = "a violation that is not shown at its flow cannot be found again"]
    pub fn judge(&mut self, flow: &Flow, nodes: Nodes<'_>) -> Vec<Finding> {
        let concerned = self
            .entries
            .iter_mut()
            .filter(|(terms, _)| terms.is_for(flow));
        let mut concerned = concerned.peekable();
        let known = concerned.peek().is_some();
        let Some((terms, tally)) = concerned.find(|(terms, _)| terms.is_from(flow)) else {
            return known.then(|| outsider(flow)).into_iter().collect();
        };
        let source = source_outcome(terms.source, flow, nodes);
        let replies = source_outcome(Source::Within(terms.replies_to), flow, nodes);
        tally.note(both(source, replies), flow, nodes);
        let mut found = Vec::new();
        if source == Outcome::Violated {
            let expect = format!("source={}", terms.source);
            found.push(violation(
                terms,
                &expect,
                &format!("{} leaves", terms.source),
                flow,
            ));
        }
        if replies == Outcome::Violated {
            let expect = format!("replies={}", terms.replies_to);
            let says = format!("replies return to {}", terms.replies_to);
            found.push(violation(terms, &expect, &says, flow));
        }
        found
    }

    /// What became of each entry.
    #[must_use]
    pub fn agreements(&self) -> Vec<Agreement> {
        let all = self.entries.iter();
        all.map(|(terms, tally)| line::agreement(terms, tally))
            .collect()
    }

    /// The summary's lines.
    #[must_use]
    pub fn lines(&self) -> Vec<ExpectLine> {
        let line = |(terms, tally): &(Terms, Tally)| ExpectLine {
            expect: terms.name(),
            held: tally.verdict(),
            flows: tally.held + tally.violated,
            skipped: tally.skipped,
            violations: tally.violated,
            uncertain: tally.uncertain,
            by: tally.rules.clone(),
        };
        self.entries.iter().map(line).collect()
    }

    /// What they make of the exit status: an entry of which nothing was seen was not checked.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        let of = |(_, tally): &(Terms, Tally)| match tally.verdict() {
            Some(false) => ExitStatus::Violated,
            Some(true) => ExitStatus::Done,
            None if tally.uncertain + tally.skipped > 0 => ExitStatus::Uncertain,
            None => ExitStatus::Nothing,
        };
        self.entries
            .iter()
            .map(of)
            .fold(ExitStatus::Done, ExitStatus::worse)
    }
}

impl Terms {
    /// Which entry it is, in a few words.
    pub(super) fn name(&self) -> String {
        format!(
            "{}{}: source={}",
            ExpectLine::CONTRACT,
            self.dest,
            self.source
        )
    }
}

impl Tally {
    pub(super) fn verdict(&self) -> Option<bool> {
        match (self.held, self.violated, self.uncertain) {
            (_, 1.., _) => Some(false),
            (1.., 0, 0) => Some(true),
            _ => None,
        }
    }

    fn note(&mut self, outcome: Outcome, flow: &Flow, nodes: Nodes<'_>) {
        let count = match outcome {
            Outcome::Held => &mut self.held,
            Outcome::Violated => &mut self.violated,
            Outcome::Skipped => &mut self.skipped,
            Outcome::Uncertain => &mut self.uncertain,
        };
        *count += flow.count;
        if !matches!(outcome, Outcome::Held | Outcome::Violated) {
            return;
        }
        if matches!(
            flow.delivery.code,
            DeliveryCode::Completed | DeliveryCode::HandshakeOnly
        ) {
            self.answered += flow.count;
        }
        if let Some(wire) = flow.verdict.source_on_wire {
            push(&mut self.leaves, (wire, what(wire, flow, nodes)));
        }
        if let Some(rule) = flow.source_rule() {
            push(&mut self.rules, rule.short());
        }
        self.checked = self.checked.take().max(Some(flow.first_seen.clone()));
    }
}

fn push<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if all.len() < MOST && !all.contains(&one) {
        all.push(one);
    }
}

/// What a source on the wire is, in a word.
fn what(wire: IpAddr, flow: &Flow, nodes: Nodes<'_>) -> &'static str {
    let node = source_outcome(Source::Node, flow, nodes) == Outcome::Held;
    match flow.verdict.source {
        _ if node => "node",
        SourceCode::SourcePreserved if wire == flow.flow.tuple.src => "kept",
        SourceCode::SourceTerminated => "a proxy's",
        _ => "rewritten",
    }
}

fn both(source: Outcome, replies: Outcome) -> Outcome {
    let is = |outcome| source == outcome || replies == outcome;
    [Outcome::Violated, Outcome::Skipped, Outcome::Uncertain]
        .into_iter()
        .find(|outcome| is(*outcome))
        .unwrap_or(Outcome::Held)
}

fn violation(terms: &Terms, expect: &str, says: &str, flow: &Flow) -> Finding {
    let rule = flow.source_rule();
    let wire = flow.verdict.source_on_wire;
    let left = wire.map_or_else(
        || "none was sighted".to_owned(),
        |wire| format!("{wire} left"),
    );
    let did = match flow.source_rewrite() {
        Some(_) => "rewrote",
        None => "exempts",
    };
    let by = match rule {
        Some(rule) => format!(": {} {did} it", rule_name(rule)),
        None if flow.has(Code::NoRuleMatches) => ": no rule of any store rewrites it".to_owned(),
        None => String::new(),
    };
    Finding {
        text: format!(
            "agreed with {} on {} is that to {} {says}, and {left}{by}",
            terms.agreed.by, terms.agreed.on, terms.dest
        ),
        rule: rule.cloned(),
        data: json!({
            "expect": format!("{}{}: {expect}", ExpectLine::CONTRACT, terms.dest),
            "line": terms.line,
            "agreed": {"by": terms.agreed.by, "on": terms.agreed.on},
        }),
        ..finding(Code::ExpectationViolated, Severity::Error)
    }
}

fn is_of_a_contract(finding: &Finding) -> bool {
    let expect = finding.data["expect"].as_str().unwrap_or_default();
    finding.code == Code::OutsideContract || expect.starts_with(ExpectLine::CONTRACT)
}

/// Its destination is in the contract, its sender in none of that destination's entries.
fn outsider(flow: &Flow) -> Finding {
    let who = flow.origin.pod.clone().or(flow.origin.netns_name.clone());
    let who = who.unwrap_or_else(|| flow.flow.tuple.src.to_string());
    Finding {
        text: format!(
            "{who} sends to {}, and the contract has no entry for that sender: nothing is agreed about its source",
            flow.flow.tuple.dst
        ),
        fix: Some("agree on it, and add it to `from` or as an entry of its own".to_owned()),
        data: json!({"sender": who}),
        ..finding(Code::OutsideContract, Severity::Warning)
    }
}
