//! What `ladder` prints: one line for each rung that was tried.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One rung of a ladder, the nearest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rung {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// From 1, as given.
    pub n: u32,
    /// As given: an address or a name, with its port where it has one.
    pub target: String,
    /// How it is asked.
    pub by: RungBy,
    /// Whether what was asked last (of a name without a port: its resolver) is a Service's address, by the rules of the node or
    /// by what was seen of the flow.
    pub service: bool,
    /// Whether a namespace was seen passing it on: what ends in the first one says nothing of forwarding.
    pub forwarded: bool,
    /// What came of it.
    pub code: RungCode,
    /// Where it ended; `null` where it was answered, or where nothing proves it.
    pub layer: Option<Layer>,
    /// The proof, in one sentence.
    pub text: String,
    /// What to look at or change.
    pub fix: Option<String>,
    /// Of a name: the resolver that was asked last.
    pub resolver: Option<IpAddr>,
    /// Of a name: its addresses, where the resolver gave any.
    pub addresses: Vec<IpAddr>,
    /// The flows that prove it, by their ids: of a name, the query's first.
    pub flows: Vec<String>,
}

/// How a rung is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RungBy {
    /// An echo request.
    Icmp,
    /// A TCP connection.
    Tcp,
    /// A DNS query.
    Dns,
}

/// What came of a rung. All but `answered` end the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RungCode {
    /// An answer came back.
    Answered,
    /// A reset or an ICMP error came back.
    Refused,
    /// The request died on this machine.
    Dropped,
    /// An answer was seen, and its sender did not get it.
    ReplyLost,
    /// Nothing came back.
    NoReply,
    /// The sender's own namespace had no way for it: no packet was made.
    NotSent,
    /// With `--client`: no packet of it came.
    NothingArrived,
    /// The resolver answered that there is no such name, or no address of it.
    NoSuchName,
    /// The resolver answered with an error.
    ResolverFailed,
}

impl RungCode {
    /// As it is printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Dropped => "dropped",
            Self::ReplyLost => "reply lost",
            Self::NoReply => "no reply",
            Self::NotSent => "not sent",
            Self::NothingArrived => "nothing arrived",
            Self::NoSuchName => "no such name",
            Self::ResolverFailed => "resolver failed",
        }
    }
}

/// Where a rung ended.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Before this machine: the client, or the tunnel that it comes by.
    Client,
    /// A namespace on the way does not pass packets on.
    Forwarding,
    /// A route is missing, refuses, or leads elsewhere on the way there or back; so does the reverse-path check.
    Route,
    /// A rule, a policy or a program stopped it.
    Policy,
    /// What stands for a Service did not translate it, or has nobody to translate it to.
    Service,
    /// The resolver did not answer, or not with an address.
    Dns,
    /// It left this machine or reached its destination, and nothing proves a cause here.
    FarSide,
}

impl Layer {
    /// As it is printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client or tunnel",
            Self::Forwarding => "forwarding",
            Self::Route => "route",
            Self::Policy => "policy",
            Self::Service => "Service",
            Self::Dns => "DNS",
            Self::FarSide => "far side",
        }
    }
}
