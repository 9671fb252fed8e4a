//! The `summary` object: the last line of every run.

use super::{DeliveryCode, OriginKind, PointSum, SourceCode, Where};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What a run saw in all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// srctrace's version.
    pub version: String,
    /// The kernel's release.
    pub kernel: String,
    /// Which machine.
    pub host: String,
    /// When the trace was armed, RFC 3339 UTC.
    pub started: String,
    /// Seconds from then to the end.
    pub duration_s: f64,
    /// What was attached, and what could not be.
    pub observed_by: ObservedBy,
    /// Flow counts.
    pub flows: Flows,
    /// Event counts.
    pub events: Events,
    /// Flows that took the same way.
    pub groups: Vec<Group>,
    /// What the explicit capture points saw.
    #[serde(default)]
    pub points: Vec<PointSum>,
    /// The expectations that were given.
    pub expect: Vec<ExpectLine>,
}

/// How many of each tap were attached at the most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedBy {
    /// Raw tracepoints.
    pub tracepoint: u32,
    /// tcx links.
    pub tcx: u32,
    /// clsact filters.
    pub clsact: u32,
    /// kprobes.
    pub kprobe: u32,
    /// nftrace tables.
    pub nftrace: u32,
    /// What could not be attached.
    pub unavailable: Vec<Unavailable>,
}

/// Something that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// What it costs the report.
    pub effect: String,
}

/// Flow counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// Flows sighted.
    pub seen: u64,
    /// Flows reported (singly or in groups).
    pub reported: u64,
    /// Flows left out because they do not match `--pod`, `--netns` or `-i`.
    pub left_out: u64,
    /// Groups.
    pub groups: u64,
}

/// Event counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Events read from the ring.
    pub received: u64,
    /// Events that the ring had no room for.
    pub lost: u64,
}

/// Flows that took the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// How many flows.
    pub count: u64,
    /// `pods`, `node`, `gateways`, `external`.
    pub origin: String,
    /// What became of the source.
    pub source: SourceCode,
    /// The source on the wire, where it is one.
    pub source_on_wire: Option<IpAddr>,
    /// Where the source changed.
    #[serde(rename = "where")]
    pub place: Option<Where>,
    /// The rule in short.
    pub rule: Option<String>,
    /// Whether the exchanges worked.
    pub delivery: DeliveryCode,
    /// The expectations that every one of these flows violates.
    pub violates: Vec<String>,
}

impl Group {
    /// The word for flows of one kind of origin.
    #[must_use]
    pub fn origin_word(kind: OriginKind) -> &'static str {
        match kind {
            OriginKind::Pod => "pods",
            OriginKind::Node => "node",
            OriginKind::Gateway => "gateways",
            OriginKind::External => "external",
        }
    }
}

/// One expectation and how it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectLine {
    /// As given: `source=node`, `reply`; of a contract: `contract 10.20.30.40:443: source=node`.
    pub expect: String,
    /// Whether it held; `None` when nothing could be judged.
    pub held: Option<bool>,
    /// Flows judged.
    pub flows: u64,
    /// Flows older than the trace: not judged.
    pub skipped: u64,
    /// Flows that violated it.
    pub violations: u64,
    /// Flows of which it cannot be told, from what was sighted: not judged.
    pub uncertain: u64,
    /// The rules that made the judged flows what they are, in short; at most eight.
    #[serde(default)]
    pub by: Vec<String>,
}

impl ExpectLine {
    /// How the lines about entries of a contract begin.
    pub const CONTRACT: &str = "contract ";

    /// Whether it is about an entry of a contract.
    #[must_use]
    pub fn is_of_a_contract(&self) -> bool {
        self.expect.starts_with(Self::CONTRACT)
    }
}

/// One line of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// What.
    pub what: String,
    /// Whether it is available here.
    pub available: bool,
    /// Why not, or what was found.
    pub why: String,
    /// What it is for, or what its absence costs.
    pub effect: String,
}
