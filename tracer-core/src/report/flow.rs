//! The `flow` object.

use super::{
    Code, Delivery, Drop, Finding, PointView, ProtoTuple, Proxy, Rewrite, RewriteDirection,
    RewriteField, Rule, TupleView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What is told of one flow, or of a group of flows that took the same way (`count` > 1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// Stable name of the flow inside one run.
    pub id: String,
    /// When its first packet was sighted, RFC 3339 UTC.
    pub first_seen: String,
    /// Why it is told now.
    pub end: End,
    /// 1, or the size of the group.
    pub count: u64,
    /// The request's tuple as the origin sent it.
    pub flow: ProtoTuple,
    /// Who began it.
    pub origin: Origin,
    /// Sightings of its first packet, in the order in which the packet met them.
    pub hops: Vec<Hop>,
    /// What the explicit capture points saw of it.
    #[serde(default)]
    pub points: Vec<PointView>,
    /// Where addresses or ports changed.
    pub rewrites: Vec<Rewrite>,
    /// Wire packets and bytes, at the first hop that sees each direction.
    pub packets: Packets,
    /// Whether the exchange worked.
    pub delivery: Delivery,
    /// Where packets of it died.
    pub drops: Vec<Drop>,
    /// The proxy that ended it, if one did.
    pub proxy: Option<Proxy>,
    /// What a person on call should know; of a group, each holds for all of its flows.
    pub findings: Vec<Finding>,
    /// The answer.
    pub verdict: Verdict,
}

impl Flow {
    /// The expectations that it violates, as they were given.
    #[must_use]
    pub fn violated(&self) -> Vec<String> {
        let of_those = |f: &&Finding| f.code == Code::ExpectationViolated;
        let name = |f: &Finding| f.data["expect"].as_str().map(str::to_owned);
        self.findings
            .iter()
            .filter(of_those)
            .filter_map(name)
            .collect()
    }
}

impl Flow {
    /// Whether this was found.
    #[must_use]
    pub fn has(&self, code: Code) -> bool {
        self.findings.iter().any(|f| f.code == code)
    }

    /// The last change of its source on the way out.
    #[must_use]
    pub fn source_rewrite(&self) -> Option<&Rewrite> {
        self.rewrites
            .iter()
            .rfind(|r| r.direction == RewriteDirection::Request && r.field == RewriteField::Src)
    }

    /// The rule that gave it its source: the one that rewrote it, else the one that exempted it.
    #[must_use]
    pub fn source_rule(&self) -> Option<&Rule> {
        if let Some(rewrite) = self.source_rewrite() {
            return rewrite.rule.as_ref();
        }
        let exempts = |f: &&Finding| matches!(f.code, Code::ExemptByRule | Code::ExemptBySet);
        self.findings.iter().find(exempts)?.rule.as_ref()
    }

    /// The rule or policy that stopped it, or its answer.
    #[must_use]
    pub fn stopped_by(&self) -> Option<&Rule> {
        self.drops.iter().find_map(|drop| drop.rule.as_ref())
    }
}

/// Why a flow is told now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Both sides ended it, or one reset it.
    Closed,
    /// Nothing new came for a while.
    Timeout,
    /// The trace ended first (or the flow had to make room for others).
    TraceEnded,
}

/// Who began a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// What kind of place it began at.
    pub kind: OriginKind,
    /// Namespace inode number.
    pub netns: Option<u32>,
    /// Namespace name.
    pub netns_name: Option<String>,
    /// `namespace/name` of the pod.
    pub pod: Option<String>,
    /// The device by which it left the origin's namespace, or entered this host.
    pub ifname: Option<String>,
    /// For the node's own traffic: the process.
    pub process: Option<OriginProcess>,
}

/// Kinds of origin.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// A pod's namespace on this node.
    Pod,
    /// The node itself, or a hostNetwork pod.
    Node,
    /// Another pod's namespace forwarded it: the real sender is behind that.
    Gateway,
    /// It came from outside this host.
    External,
}

/// The process that made the node's own traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OriginProcess {
    /// Process id.
    pub pid: Option<u32>,
    /// Task name.
    pub comm: Option<String>,
    /// cgroup path.
    pub cgroup: Option<String>,
}

/// One sighting of the flow's first packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// From 1.
    pub n: u32,
    /// Which machine.
    pub host: String,
    /// Namespace inode number.
    pub netns: Option<u32>,
    /// Namespace name.
    pub netns_name: Option<String>,
    /// Device name.
    pub ifname: Option<String>,
    /// Device index in its namespace.
    pub ifindex: u32,
    /// `ingress` or `egress`.
    pub dir: crate::event::Dir,
    /// Name of an explicit capture point.
    pub point: Option<String>,
    /// Microseconds since the first hop.
    pub t_us: i64,
    /// The packet here.
    pub tuple: TupleView,
    /// The encapsulating tuple, where there is one.
    pub outer: Option<TupleView>,
    /// The packet's mark.
    pub mark: Option<u32>,
    /// The conntrack entry it carried.
    pub ct: Option<ConntrackView>,
}

/// A conntrack entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConntrackView {
    /// The request before translation.
    pub orig: TupleView,
    /// What an answer to the translated request looks like.
    pub reply: TupleView,
    /// Zone.
    pub zone: Option<u16>,
    /// The entry's mark.
    pub mark: Option<u32>,
    /// Names of the status bits: src-nat, dst-nat, confirmed, seen-reply, assured, dying.
    pub status: Vec<String>,
}

/// Wire packets and bytes of each direction, at the first hop that sees it; of the exemplar, for a
/// group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Packets {
    /// Packets from the origin.
    pub request: u64,
    /// Packets toward the origin.
    pub reply: u64,
    /// Bytes from the origin.
    pub request_bytes: u64,
    /// Bytes toward the origin.
    pub reply_bytes: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// What became of the source.
    pub source: SourceCode,
    /// The source as it left, where it was sighted.
    pub source_on_wire: Option<IpAddr>,
    /// False when events were lost or a point that was needed could not be observed.
    pub complete: bool,
    /// In one sentence.
    pub text: String,
}

/// What became of a flow's source address.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SourceCode {
    /// It left as it was sent.
    SourcePreserved,
    /// It was rewritten.
    SourceRewritten,
    /// A proxy ended the connection.
    SourceTerminated,
    /// It cannot be told.
    SourceUnknown,
}
