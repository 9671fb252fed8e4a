//! Expectations (`--expect-…`), and the exit status.

mod denied;
mod held;
mod status;

pub use denied::Denied;
pub use held::{Nodes, Outcome, source_outcome};
pub use status::ExitStatus;

use crate::inventory::Inventory;
use crate::report::{ExpectLine, Finding, Flow, Rule};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What a flow is expected to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expectation {
    /// `--expect-source`.
    Source(Source),
    /// `--expect-reply`: an answer came.
    Reply,
    /// `--expect-denied`: the request was stopped, and by this.
    Denied(Denied),
}

/// What source is expected to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The one that the origin sent.
    Preserved,
    /// The pod's own.
    Pod,
    /// One of the node's.
    Node,
    /// One of these.
    Within(IpNet),
}

/// An argument of `--expect-source` that is none of the accepted words, an address or a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a source to expect: give preserved, pod, node, an address or a prefix")]
pub struct BadSource(String);

impl FromStr for Source {
    type Err = BadSource;

    fn from_str(text: &str) -> Result<Self, BadSource> {
        Ok(match text {
            "preserved" => Self::Preserved,
            "pod" => Self::Pod,
            "node" => Self::Node,
            _ => {
                let address = text.parse::<IpAddr>().map(IpNet::from);
                let net = address.or_else(|_| text.parse::<IpNet>());
                Self::Within(net.map_err(|_| BadSource(text.to_owned()))?)
            }
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preserved => f.write_str("preserved"),
            Self::Pod => f.write_str("pod"),
            Self::Node => f.write_str("node"),
            Self::Within(net) if net.prefix_len() == net.max_prefix_len() => {
                write!(f, "{}", net.addr())
            }
            Self::Within(net) => write!(f, "{net}"),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => write!(f, "source={source}"),
            Self::Reply => f.write_str("reply"),
            Self::Denied(by) => write!(f, "denied={by}"),
        }
    }
}

/// Most rules that are named as having decided an expectation.
const MOST_RULES: usize = 8;

#[derive(Clone, Debug, Default)]
struct Tally {
    held: u64,
    violated: u64,
    skipped: u64,
    uncertain: u64,
    by: Vec<String>,
}

impl Tally {
    fn note_rule(&mut self, rule: Option<&Rule>) {
        let Some(name) = rule.map(Rule::short) else {
            return;
        };
        if self.by.len() < MOST_RULES && !self.by.contains(&name) {
            self.by.push(name);
        }
    }
}

/// The expectations of a run and how they fare.
#[derive(Clone, Debug, Default)]
pub struct Expectations(Vec<(Expectation, Tally)>);

impl Expectations {
    /// Expectations that nothing was compared with yet.
    pub fn new(expectations: impl IntoIterator<Item = Expectation>) -> Self {
        Self(
            expectations
                .into_iter()
                .map(|e| (e, Tally::default()))
                .collect(),
        )
    }

    /// Compares a flow; what it violates comes back as findings.
    #[must_use = "a violation that is not shown at its flow cannot be found again"]
    pub fn judge(&mut self, flow: &Flow, inventory: &Inventory) -> Vec<Finding> {
        let mut found = Vec::new();
        for (expectation, tally) in &mut self.0 {
            let outcome = held::outcome(*expectation, flow, inventory);
            if matches!(outcome, Outcome::Held | Outcome::Violated) {
                tally.note_rule(held::decider(*expectation, flow));
            }
            let count = match outcome {
                Outcome::Held => &mut tally.held,
                Outcome::Violated => {
                    found.push(held::violation(*expectation, flow));
                    &mut tally.violated
                }
                Outcome::Skipped => &mut tally.skipped,
                Outcome::Uncertain => &mut tally.uncertain,
            };
            *count += flow.count;
        }
        found
    }

    /// The summary's lines.
    #[must_use]
    pub fn lines(&self) -> Vec<ExpectLine> {
        let line = |(expectation, tally): &(Expectation, Tally)| {
            let flows = tally.held + tally.violated;
            ExpectLine {
                expect: expectation.to_string(),
                held: match (flows, tally.violated, tally.uncertain) {
                    (_, 1.., _) => Some(false),
                    (1.., 0, 0) => Some(true),
                    _ => None,
                },
                flows,
                skipped: tally.skipped,
                violations: tally.violated,
                uncertain: tally.uncertain,
                by: tally.by.clone(),
            }
        };
        self.0.iter().map(line).collect()
    }

    /// What they make of the exit status.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        let of = |(_, tally): &(Expectation, Tally)| match tally {
            Tally { violated: 1.., .. } => ExitStatus::Violated,
            Tally { uncertain: 1.., .. } => ExitStatus::Uncertain,
            // Only flows that are older than the trace: nothing was judged.
            Tally {
                held: 0,
                skipped: 1..,
                ..
            } => ExitStatus::Uncertain,
            _ => ExitStatus::Done,
        };
        self.0
            .iter()
            .map(of)
            .fold(ExitStatus::Done, ExitStatus::worse)
    }
}
