//! What `diff` prints: the paths whose source changed, and what was compared.

use super::{DeliveryCode, OriginKind, ProtoName, Rule, SourceCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A path that had another source before than after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Which path.
    pub flow: PathView,
    /// The sources that it had before, the most frequent first.
    pub from: Vec<SourceSeen>,
    /// Those that it has after.
    pub to: Vec<SourceSeen>,
    /// The rule that gave it the first source of `from`, where that is known.
    pub rule_before: Option<Rule>,
    /// The rule that gave it the first source of `to`, where that is known.
    pub rule_after: Option<Rule>,
    /// What became of its exchanges before.
    pub delivery_before: Vec<DeliveryCode>,
    /// What became of them after.
    pub delivery_after: Vec<DeliveryCode>,
    /// False when a flow of either side was not told completely.
    pub complete: bool,
}

/// A path: whoever sends, to one destination. Flows of it differ in the sender's port only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathView {
    /// What kind of place it begins at.
    pub kind: OriginKind,
    /// The sender: `shop/web-7d9f`, `shop/web-*`, an address or a prefix; for the node its word.
    pub who: String,
    /// The protocol.
    pub proto: ProtoName,
    /// The destination as the sender has it.
    pub dst: IpAddr,
    /// Its port; 0 for ICMP.
    pub dport: u16,
}

/// A source with which flows of a path left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceSeen {
    /// What became of the source.
    pub source: SourceCode,
    /// The address that left: of flows that kept theirs, the first one's.
    pub addr: Option<IpAddr>,
    /// How many flows.
    pub flows: u64,
}

/// What `diff` compared: the line before the summary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Paths that are in both.
    pub paths: u64,
    /// Those of them whose source changed.
    pub changed: u64,
    /// Those of them that have the same source as before.
    pub unchanged: u64,
    /// Those of them whose source cannot be told on one side.
    pub untold: u64,
    /// Paths that only the first file has, at most a hundred.
    pub only_before: Vec<PathView>,
    /// Paths that only the second file has, at most a hundred.
    pub only_after: Vec<PathView>,
    /// How many those are in all: before, after.
    pub only: [u64; 2],
    /// Flows that were left out, because they were older than their trace: before, after.
    pub older: [u64; 2],
    /// Flows that were left out, because there were too many different paths: before, after.
    pub overflow: [u64; 2],
}
