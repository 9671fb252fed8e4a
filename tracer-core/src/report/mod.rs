//! The report: the values that `--output json` prints and every renderer shows.
//!
//! Field names, codes and meanings are the contract with those who read the JSON. Fields may be
//! added; none is renamed or given another meaning without a new [`SCHEMA`] number. Every key is
//! always present, `null` when unknown or not applicable.

mod agreement;
mod change;
mod config;
mod delivery;
mod explain;
mod findings;
mod flow;
mod handover;
mod map;
mod point;
mod read;
mod rewrite;
mod rung;
mod summary;
mod tuple;

pub use crate::event::Dir;
pub use agreement::Agreement;
pub use change::{Change, Compared, PathView, SourceSeen};
pub use config::{
    AgentProcess, ConfigEntry, ConfigReport, EditReport, PlanPath, PlanReport, PlannedSource, Stage,
};
pub use delivery::{Delivery, DeliveryCode, Drop, Proxy, ProxyProtocol, RefusedBy};
pub use explain::{Asked, Candidate, ConfigState, Explain, Fate, Leg, Sender, Way};
pub use findings::{Code, Finding, Severity};
pub use flow::{
    ConntrackView, End, Flow, Hop, Origin, OriginKind, OriginProcess, Packets, SourceCode, Verdict,
};
pub use handover::Sheet;
pub use map::{Gathered, Map, MapChange, NoWay, Said, SaidShort, SourceIs};
pub use point::{PointSeen, PointSum, PointView};
pub use read::{BadReport, Item, Reader};
pub use rewrite::{
    AddrPort, Rewrite, RewriteAgent, RewriteDirection, RewriteEvidence, RewriteField, RewriteHook,
    Rule, RuleEvidence, Tc, Where,
};
pub use rung::{Layer, Rung, RungBy, RungCode};
pub use summary::{Capability, Events, ExpectLine, Flows, Group, ObservedBy, Summary, Unavailable};
pub use tuple::{ProtoName, ProtoTuple, TupleView};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of this contract.
pub const SCHEMA: u32 = 1;

/// One line of NDJSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Line {
    /// One flow, or a group of flows that took the same way.
    Flow(Box<Flow>),
    /// The last line.
    Summary(Box<Summary>),
    /// What became of one entry of a contract (`--contract`).
    Agreement(Box<Agreement>),
    /// One line of `doctor`.
    Capability(Capability),
    /// A path whose source changed, of `diff`.
    Change(Box<Change>),
    /// What `diff` compared.
    Compared(Box<Compared>),
    /// One line of `explain`.
    Explain(Box<Explain>),
    /// One prefix of `map`.
    Map(Box<Map>),
    /// One prefix that `map --diff` found changed.
    MapChange(Box<MapChange>),
    /// An agent's configuration against the rules (`explain`).
    Config(Box<ConfigReport>),
    /// What an edit of the configuration would change for one path (`explain --config`).
    Plan(Box<PlanReport>),
    /// The smallest edit that gives what is wanted (`explain --want`).
    Edit(Box<EditReport>),
    /// One rung of `ladder`.
    Rung(Box<Rung>),
}
