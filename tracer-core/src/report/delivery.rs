//! Whether an exchange worked, and what stopped it.

use super::TupleView;
use super::{RewriteDirection, Rule, Tc, Where};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Whether the exchange worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// The answer.
    pub code: DeliveryCode,
    /// Hop number at which the request was last sighted.
    pub last_seen: Option<u32>,
    /// Hop number at which the reply was last sighted.
    pub reply_last_seen: Option<u32>,
    /// Who refused it.
    pub refused_by: Option<RefusedBy>,
}

/// Whether an exchange worked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryCode {
    /// Application data both ways, or an answered UDP/ICMP request.
    Completed,
    /// The handshake was answered, the application was silent.
    HandshakeOnly,
    /// Nothing came back.
    NoReply,
    /// A reply came, and is proven not to have arrived, or not as the answer that was asked for.
    ReplyLost,
    /// RST or an ICMP error answered.
    Refused,
    /// The request died on this host.
    Dropped,
    /// The trace ended before it could be told.
    InProgress,
}

/// Who refused a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedBy {
    /// The address that answered.
    pub addr: IpAddr,
    /// `rst` or the ICMP type's name.
    pub kind: String,
    /// The hop at which the refusal was first sighted.
    pub hop: Option<u32>,
    /// `node` where the node itself refused: the refusal was made there, or its address is the
    /// node's. `None` where it came from elsewhere.
    #[serde(rename = "where")]
    pub place: Option<Where>,
}

/// A packet of the flow that died on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drop {
    /// Which way it went.
    pub direction: RewriteDirection,
    /// The hop after which it died.
    pub after: Option<u32>,
    /// Namespace inode number.
    pub netns: Option<u32>,
    /// Namespace name.
    pub netns_name: Option<String>,
    /// The kernel's reason.
    pub reason: Option<String>,
    /// The kernel function.
    pub location: Option<String>,
    /// In words.
    pub explain: Option<String>,
    /// The rule, if a rule did it.
    pub rule: Option<Rule>,
    /// The program, if a program did it.
    pub program: Option<Tc>,
    /// How many packets.
    pub count: u64,
}

/// A process that ended the connection and opened another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proxy {
    /// Process id.
    pub pid: u32,
    /// Task name.
    pub comm: String,
    /// `namespace/name` of the pod that it runs in; where that is not known, the id of its container.
    pub container: Option<String>,
    /// Where it listens.
    pub listen: Option<String>,
    /// Id of the new flow.
    pub new_flow: Option<String>,
    /// `payload` or `process`.
    pub evidence: String,
    /// The PROXY protocol header, if one was seen.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The connection that ended there, as the process has it.
    pub inbound: Option<TupleView>,
    /// The new connection, as the process opened it.
    pub outbound: Option<TupleView>,
}

/// What a PROXY protocol header says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProxyProtocol {
    /// 1 or 2.
    pub version: u8,
    /// The client it names.
    pub client: Option<String>,
    /// Whether that is the true one.
    pub true_client: Option<bool>,
}
