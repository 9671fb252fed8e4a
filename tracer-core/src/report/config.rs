//! An agent's configuration against the rules, and what an edit would change: the objects `config`,
//! `plan` and `edit`.

use super::{ConfigState, Finding, Rule, SourceCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// How an agent's configuration, the file in its pod, the kernel's rules and the wire compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReport {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Whose reading: ip-masq-agent, ip-masq-agent-v2, cilium.
    pub agent: String,
    /// The agent's process, where it runs and was found.
    pub process: Option<AgentProcess>,
    /// The chain that it writes.
    pub chain: String,
    /// The configuration that is meant against the rules. `null`: there is none, and no agent.
    pub config_state: Option<ConfigState>,
    /// The stages, in the order in which a change goes through them.
    pub stages: Vec<Stage>,
    /// The first stage that differs from the one before it.
    pub differs_at: Option<String>,
    /// Each destination of the list or of the rules.
    pub entries: Vec<ConfigEntry>,
    /// When the agent has looked at its file again at the latest, RFC 3339 UTC.
    pub next_resync: Option<String>,
    /// What a person on call should know.
    pub findings: Vec<Finding>,
    /// In one sentence.
    pub text: String,
}

/// The agent's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentProcess {
    /// Process id.
    pub pid: u32,
    /// When it started, RFC 3339 UTC.
    pub started: Option<String>,
    /// Its command line.
    pub command: Vec<String>,
}

/// One stage that a configuration goes through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// configmap, mounted-file, kernel, wire.
    pub stage: String,
    /// Where it was read.
    pub from: String,
    /// When it changed last, RFC 3339 UTC, where that is known.
    pub changed: Option<String>,
    /// Destinations that it exempts; `null`: nothing valid is there.
    pub exempt: Option<Vec<String>>,
    /// Why nothing valid is there.
    pub why: Option<String>,
    /// Whether it is what the stage before asks for; `null`: there is none, or it cannot be told.
    pub agrees: Option<bool>,
}

/// A destination of the list or of the rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigEntry {
    /// The prefix.
    pub prefix: String,
    /// Whether the configuration asks for it; `null`: there is no valid one.
    pub wanted: Option<bool>,
    /// The rule that exempts just it.
    pub rule: Option<Rule>,
    /// Whether addresses of it fare otherwise than the configuration asks for.
    pub differs: bool,
}

/// What an edit would change for one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanReport {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Whose packets, and where to.
    pub path: PlanPath,
    /// The source today.
    pub from: PlannedSource,
    /// The source after the edit.
    pub to: PlannedSource,
    /// Flows of this path that were seen; 0: none were asked about, the path is one that pods may take.
    pub count: u64,
}

impl PlanReport {
    /// Whether the source would be another.
    #[must_use]
    pub fn changes(&self) -> bool {
        (self.from.source, self.from.source_on_wire) != (self.to.source, self.to.source_on_wire)
    }
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PlanPath {
    /// The sender: a pod's name, `node`, or the address of a client.
    pub sender: String,
    /// How many other senders fare the same there.
    pub others: u64,
    /// The source address that it sends with.
    pub src: Option<IpAddr>,
    /// The destinations: an address or a prefix.
    pub dest: String,
    /// Prefixes of it that fare otherwise, and are told by themselves where they change.
    pub except: Vec<String>,
}

/// A source, and what decides it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedSource {
    /// What becomes of the source.
    pub source: SourceCode,
    /// The address on the wire, where it is one.
    pub source_on_wire: Option<IpAddr>,
    /// The rule that decides.
    pub rule: Option<Rule>,
}

/// The smallest edit of a configuration that gives what is wanted. Nothing applies it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EditReport {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The source that is wanted: pod, node.
    pub want: String,
    /// The destinations.
    pub dest: String,
    /// The changes: `+ PREFIX`, `- PREFIX`, `KEY: VALUE`. Empty: it is so already, or cannot be had.
    pub changes: Vec<String>,
    /// The configuration after it.
    pub config: Option<String>,
    /// The configuration of before, to go back to.
    pub rollback: Option<String>,
    /// The command that verifies it afterwards.
    pub verify: Option<String>,
    /// In one sentence; why it cannot be had, where it cannot.
    pub text: String,
}

impl ConfigState {
    /// Whether the rules are not those of the configuration, and will not be by themselves.
    #[must_use]
    pub fn is_drift(self) -> bool {
        !matches!(self, Self::Agrees | Self::Lagging)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Invalid => "invalid",
            Self::NotRead => "not-read",
            Self::ChainMissing => "chain-missing",
            Self::JumpMissing => "jump-missing",
            Self::Shadowed => "shadowed",
            Self::Differs => "differs",
            Self::Lagging => "lagging",
        }
    }
}

impl ConfigReport {
    /// Whether a stage is out of step with the one before it, and will not catch up by itself.
    #[must_use]
    pub fn is_drift(&self) -> bool {
        match self.config_state {
            Some(ConfigState::Lagging) | None => false,
            Some(state) => state.is_drift() || self.differs_at.is_some(),
        }
    }
}
