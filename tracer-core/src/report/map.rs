//! What every destination would get: the `map` and `map-change` objects.

use super::{Candidate, Fate, Rule, RuleEvidence, Sender, SourceCode, Where};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A prefix of destinations that one kind of sender reaches alike. As in a routing table the longest prefix
/// that holds a destination counts; together the lines of a sender hold the whole space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The destinations.
    #[schemars(with = "String")]
    pub prefix: IpNet,
    /// Who would send.
    pub origin: Sender,
    /// What they would get.
    #[serde(flatten)]
    pub said: Said,
    /// How the rule is known: always `replayed`, nothing ran.
    pub evidence: RuleEvidence,
}

/// What a destination gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Said {
    /// What would become of the source.
    pub source: SourceCode,
    /// The source with which it would leave, where it is one.
    pub source_on_wire: Option<IpAddr>,
    /// Whose address that is.
    pub source_is: SourceIs,
    /// The destination that it would be turned to; `None`: it stays, or is one of several.
    pub dest_on_wire: Option<IpAddr>,
    /// Where it would end.
    pub fate: Fate,
    /// Where there is no way: why.
    #[serde(default)]
    pub no_way: Option<NoWay>,
    /// Whose doing.
    #[serde(rename = "where")]
    pub place: Option<Where>,
    /// The rule that would decide.
    pub rule: Option<Rule>,
    /// The rule that would set the mark which the deciding rule tests.
    pub marked_by: Option<Rule>,
    /// Where something that is not known decides (a port, a protocol, chance): every answer.
    pub candidates: Vec<Candidate>,
    /// What decides between them.
    pub depends_on: Vec<String>,
}

/// Whose address a source is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SourceIs {
    /// The sender's own.
    Sender,
    /// The node's.
    Node,
    /// Another.
    Other,
    /// It is not known, or one of several.
    Unknown,
}

/// Why there is no way to a destination.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum NoWay {
    /// No route holds it.
    NoRoute,
    /// A route says so, or forwarding is off.
    Unreachable,
    /// A route says so.
    Prohibited,
    /// A route throws it away.
    Blackhole,
    /// Its source may not come in there.
    ReversePath,
    /// It would go out to a link of this machine on which nobody has its address.
    Nobody,
}

/// Destinations that get another source than an older map says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapChange {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The destinations, every one of them.
    #[schemars(with = "String")]
    pub prefix: IpNet,
    /// Who would send, as the newer map has it.
    pub origin: Sender,
    /// What they got.
    pub from: SaidShort,
    /// What they get.
    pub to: SaidShort,
    /// The rule that decided.
    pub rule_before: Option<Rule>,
    /// The rule that decides.
    pub rule_after: Option<Rule>,
}

/// Destinations of one sender that changed alike.
#[derive(Clone, Debug)]
pub struct Gathered<'c> {
    /// One of the changes; its prefix is only one of theirs.
    pub change: &'c MapChange,
    /// Prefixes, each with those within it that this change leaves out.
    pub prefixes: Vec<(IpNet, Vec<IpNet>)>,
}

/// What a destination gets, without the rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SaidShort {
    /// What becomes of the source.
    pub source: SourceCode,
    /// The source with which it leaves, where it is one.
    pub source_on_wire: Option<IpAddr>,
    /// Whose address that is.
    pub source_is: SourceIs,
    /// Where it ends.
    pub fate: Fate,
    /// What decides, where that is not known.
    pub depends_on: Vec<String>,
}

impl From<&Said> for SaidShort {
    fn from(said: &Said) -> Self {
        Self {
            source: said.source,
            source_on_wire: said.source_on_wire,
            source_is: said.source_is,
            fate: said.fate,
            depends_on: said.depends_on.clone(),
        }
    }
}
