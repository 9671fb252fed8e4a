//! What rules would do: the `explain` object.

use super::{Finding, OriginKind, ProtoName, Rule, RuleEvidence, SourceCode, Where};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What the rules, as they are now, would do to a new flow of one kind of origin. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explain {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// What was asked about.
    pub dest: Asked,
    /// Who would begin it.
    pub origin: Sender,
    /// What would become of its source.
    pub source: SourceCode,
    /// The source with which it would leave (or reach a socket or pod here), where it is one.
    pub source_on_wire: Option<IpAddr>,
    /// Its destination there: another one than was asked about where a Service or another rule turns it.
    pub dest_on_wire: Option<IpAddr>,
    /// Where it would end, as far as this machine tells.
    pub fate: Fate,
    /// Whose doing the change of the source would be, or what kept it.
    #[serde(rename = "where")]
    pub place: Option<Where>,
    /// The rule that would decide: that translates the source, or exempts it, or drops the packet.
    pub rule: Option<Rule>,
    /// The rule that would set the mark which the deciding rule tests.
    pub marked_by: Option<Rule>,
    /// The way through the namespaces of this machine.
    pub path: Vec<Leg>,
    /// Where something that is not known decides: every answer that may be true.
    pub candidates: Vec<Candidate>,
    /// What decides between them, and what else makes the answer uncertain.
    pub depends_on: Vec<String>,
    /// What a person on call should know.
    pub findings: Vec<Finding>,
    /// How the rule is known: always `replayed`, nothing ran.
    pub evidence: RuleEvidence,
    /// How the agent's configuration and the rules compare, where a configuration was found.
    pub config_state: Option<ConfigState>,
    /// In one sentence.
    pub text: String,
}

/// A destination that was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Address.
    pub addr: IpAddr,
    /// Protocol; `None`: TCP, UDP and ICMP were tried.
    pub proto: Option<ProtoName>,
    /// Destination port; `None`: it was not given.
    pub port: Option<u16>,
}

/// Who would send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    /// What kind of place it begins at. `gateway`: a client that a pod forwards for; `external`: a
    /// client whose packets come in by a device of the node.
    pub kind: OriginKind,
    /// Namespace inode number: the pod's, the node's, that of the pod which forwards.
    pub netns: Option<u32>,
    /// Namespace name.
    pub netns_name: Option<String>,
    /// `namespace/name` of the pod.
    pub pod: Option<String>,
    /// The device by which a client's packets come in.
    pub ifname: Option<String>,
    /// The source address that was assumed.
    pub addr: Option<IpAddr>,
    /// How many senders get this answer, this one counted.
    pub count: u64,
    /// The names of the others.
    pub others: Vec<String>,
}

/// Where a packet would end.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It leaves this machine.
    Leaves,
    /// It reaches a socket or pod of this machine.
    Delivered,
    /// A rule or a chain's policy drops it.
    Dropped,
    /// There is no way to the destination, or one that refuses.
    NoRoute,
    /// It cannot be told.
    Unknown,
}

/// One namespace on the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leg {
    /// Namespace inode number.
    pub netns: u32,
    /// Namespace name.
    pub netns_name: Option<String>,
    /// How the packet goes through it.
    pub way: Way,
    /// The device by which it comes in; `None`: it is made there.
    pub iif: Option<String>,
    /// The device by which it leaves; `None`: it goes to a socket there, or no further.
    pub oif: Option<String>,
    /// The next hop, where the route names one.
    pub via: Option<IpAddr>,
    /// Every rule there whose tests would hold, in order: `IP-MASQ 3`, `post handle 7`.
    pub rules: Vec<String>,
}

/// How a packet goes through a namespace.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// In by a device and out by another.
    Forwarded,
    /// In by a device and to a local socket.
    Delivered,
    /// From a local socket and out by a device.
    Sent,
    /// From one port of a bridge to another; `rules` is empty where these do not see it.
    Bridged,
}

/// One of several answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// What would become of the source.
    pub source: SourceCode,
    /// The source with which it would leave.
    pub source_on_wire: Option<IpAddr>,
    /// Where it would end.
    pub fate: Fate,
    /// The rule that would decide.
    pub rule: Option<Rule>,
    /// When: what must hold, each in words.
    pub when: Vec<String>,
}

/// How an agent's configuration and the kernel's rules compare.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ConfigState {
    /// The rules are what the configuration asks for.
    Agrees,
    /// The agent refuses the configuration as a whole: the rules of before stay.
    Invalid,
    /// The rules are the agent's defaults: it did not read the configuration.
    NotRead,
    /// The agent's chain is not there.
    ChainMissing,
    /// Nothing jumps to the agent's chain.
    JumpMissing,
    /// Another rule decides before the agent's chain is reached.
    Shadowed,
    /// Entries are missing or extra.
    Differs,
    /// They differ, and the agent's next look at the file is still to come.
    Lagging,
}
