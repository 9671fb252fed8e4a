//! What became of one entry of a contract: a line for the change record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One entry of a contract, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// The destination, with its port where one was agreed.
    pub to: String,
    /// From whom, as the contract says; `anyone` where it names nobody.
    pub from: String,
    /// The source that was agreed: preserved, pod, node, an address or a prefix.
    pub source: String,
    /// The prefix to which replies return.
    pub replies_to: String,
    /// Where the far side learns who the client is: source, proxy-protocol, application, none.
    pub identity: String,
    /// Who agreed.
    pub agreed_by: String,
    /// When, as a date.
    pub agreed_on: String,
    /// Whether it holds; `None` when nothing could be judged.
    pub held: Option<bool>,
    /// Flows judged.
    pub flows: u64,
    /// Flows that violated it.
    pub violations: u64,
    /// Flows older than the trace: not judged.
    pub skipped: u64,
    /// Flows of which it cannot be told.
    pub uncertain: u64,
    /// Flows that were answered.
    pub answered: u64,
    /// The sources that left, at most eight.
    pub leaves: Vec<IpAddr>,
    /// The rules that gave these sources, at most eight.
    pub rules: Vec<String>,
    /// When the last judged flow began, RFC 3339 UTC.
    pub checked: Option<String>,
    /// All of it in one sentence, to be pasted into a ticket.
    pub line: String,
}
