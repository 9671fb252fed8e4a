//! Expectations (`--expect-…`), and the exit status.

use crate::inventory::Inventory;
use crate::report::{
    Code, DeliveryCode, ExpectLine, Finding, Flow, OriginKind, Severity, SourceCode,
};
use crate::verdict::finding;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::json;
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

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(Source::Preserved) => f.write_str("source=preserved"),
            Self::Source(Source::Pod) => f.write_str("source=pod"),
            Self::Source(Source::Node) => f.write_str("source=node"),
            Self::Source(Source::Within(net)) if net.prefix_len() == net.max_prefix_len() => {
                write!(f, "source={}", net.addr())
            }
            Self::Source(Source::Within(net)) => write!(f, "source={net}"),
            Self::Reply => f.write_str("reply"),
        }
    }
}

/// How one flow did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Held,
    Violated,
    /// Older than the trace: it says nothing of today's rules.
    Skipped,
    /// It cannot be told from what was sighted.
    Uncertain,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    held: u64,
    violated: u64,
    skipped: u64,
    uncertain: u64,
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
            let count = match outcome(*expectation, flow, inventory) {
                Outcome::Held => &mut tally.held,
                Outcome::Violated => {
                    found.push(violation(*expectation, flow));
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

/// What a flow says of an expectation that it violates.
fn violation(expectation: Expectation, flow: &Flow) -> Finding {
    let is = match expectation {
        Expectation::Source(_) => match flow.verdict.source_on_wire {
            Some(wire) => format!("{wire} left"),
            None => "no source was sighted leaving".to_owned(),
        },
        Expectation::Reply => no_answer(flow.delivery.code).to_owned(),
    };
    let data = json!({ "expect": expectation.to_string() });
    Finding {
        text: format!("{expectation} was expected, and {is}"),
        data,
        ..finding(Code::ExpectationViolated, Severity::Error)
    }
}

/// What happened instead of an answer.
fn no_answer(code: DeliveryCode) -> &'static str {
    match code {
        DeliveryCode::Refused => "the request was refused",
        DeliveryCode::Dropped => "the request was dropped here",
        DeliveryCode::ReplyLost => "it did not serve the sender",
        _ => "none came",
    }
}

fn outcome(expectation: Expectation, flow: &Flow, inventory: &Inventory) -> Outcome {
    let found = |code| flow.findings.iter().any(|f| f.code == code);
    if found(Code::MappingPredatesTrace) {
        return Outcome::Skipped;
    }
    let held = match expectation {
        Expectation::Source(source) => source_held(source, flow, inventory),
        Expectation::Reply => reply_held(flow.delivery.code),
    };
    match held {
        // What was lost cannot undo an answer that was sighted, nor a source.
        Some(true) if flow.verdict.complete || expectation == Expectation::Reply => Outcome::Held,
        Some(false) if flow.verdict.complete => Outcome::Violated,
        _ => Outcome::Uncertain,
    }
}

fn source_held(source: Source, flow: &Flow, inventory: &Inventory) -> Option<bool> {
    if flow.verdict.source == SourceCode::SourceUnknown {
        return None;
    }
    let wire = flow.verdict.source_on_wire?;
    let kept = wire == flow.flow.tuple.src;
    Some(match source {
        Source::Preserved => kept,
        Source::Pod => kept && flow.origin.kind == OriginKind::Pod,
        Source::Node => inventory.node_owns(wire),
        Source::Within(net) => net.contains(&wire),
    })
}

fn reply_held(code: DeliveryCode) -> Option<bool> {
    match code {
        DeliveryCode::Completed | DeliveryCode::HandshakeOnly => Some(true),
        DeliveryCode::NoReply
        | DeliveryCode::ReplyLost
        | DeliveryCode::Refused
        | DeliveryCode::Dropped => Some(false),
        DeliveryCode::InProgress => None,
    }
}

/// The exit statuses, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Done; every expectation given holds.
    Done = 0,
    /// An expectation was violated.
    Violated = 1,
    /// Wrong usage, or an input file that cannot be read.
    Usage = 2,
    /// It cannot be traced here.
    CannotTrace = 3,
    /// No matching traffic in the time given.
    Nothing = 4,
    /// Not certain, and an expectation depended on it.
    Uncertain = 5,
    /// Output failed.
    OutputFailed = 6,
}

impl ExitStatus {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one that goes before the other: 2, 3, 6, 1, 5, 4, 0.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if self.rank() <= other.rank() {
            self
        } else {
            other
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Usage => 0,
            Self::CannotTrace => 1,
            Self::OutputFailed => 2,
            Self::Violated => 3,
            Self::Uncertain => 4,
            Self::Nothing => 5,
            Self::Done => 6,
        }
    }

    /// The status of a trace that ran to its end.
    #[must_use]
    pub fn of_trace(flows_reported: u64, expectations: &Expectations) -> Self {
        let traffic = if flows_reported == 0 {
            Self::Nothing
        } else {
            Self::Done
        };
        expectations.status().worse(traffic)
    }
}
