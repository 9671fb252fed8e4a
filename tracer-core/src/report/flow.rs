//! The `flow` object.

use super::Finding;
use crate::packet::{Proto, Tuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::IpAddr;

/// What is told of one flow, or of a group of flows that took the same way (`count` > 1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// What a person on call should know.
    pub findings: Vec<Finding>,
    /// The answer.
    pub verdict: Verdict,
}

/// A tuple with its protocol's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtoTuple {
    /// tcp, udp, icmp, icmpv6, sctp, or the number.
    pub proto: ProtoName,
    /// The addresses and ports.
    #[serde(flatten)]
    pub tuple: TupleView,
}

impl From<Tuple> for ProtoTuple {
    fn from(tuple: Tuple) -> Self {
        Self {
            proto: ProtoName(tuple.proto),
            tuple: tuple.into(),
        }
    }
}

/// A protocol as the report prints it: its name, or its number where srctrace has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtoName(pub Proto);

impl Serialize for ProtoName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProtoName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let proto = match text.as_str() {
            "tcp" => Proto::TCP,
            "udp" => Proto::UDP,
            "icmp" => Proto::ICMP,
            "icmpv6" => Proto::ICMPV6,
            "sctp" => Proto::SCTP,
            number => Proto(number.parse().map_err(serde::de::Error::custom)?),
        };
        Ok(Self(proto))
    }
}

/// Addresses and ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TupleView {
    /// Source address.
    pub src: IpAddr,
    /// Source port; ICMP identifier.
    pub sport: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination port; 0 for ICMP.
    pub dport: u16,
}

impl From<Tuple> for TupleView {
    fn from(t: Tuple) -> Self {
        Self {
            src: t.src,
            sport: t.sport,
            dst: t.dst,
            dport: t.dport,
        }
    }
}

/// Why a flow is told now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Both sides ended it, or one reset it.
    Closed,
    /// Nothing new came for a while.
    Timeout,
    /// The trace ended first.
    TraceEnded,
}

/// Who began a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginProcess {
    /// Process id.
    pub pid: Option<u32>,
    /// Task name.
    pub comm: Option<String>,
    /// cgroup path.
    pub cgroup: Option<String>,
}

/// One sighting of the flow's first packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// An address and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddrPort {
    /// Address.
    pub addr: IpAddr,
    /// Port; ICMP identifier.
    pub port: u16,
}

/// A change of address or port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// Which way the packet went.
    pub direction: RewriteDirection,
    /// What changed.
    pub field: RewriteField,
    /// Before.
    pub from: AddrPort,
    /// After.
    pub to: AddrPort,
    /// The hop numbers around the change; `None` on a side that was not sighted.
    pub between: [Option<u32>; 2],
    /// Whose doing.
    #[serde(rename = "where")]
    pub place: Where,
    /// The namespace in which it happened.
    pub netns: Option<u32>,
    /// The hook at which it happened.
    pub hook: Option<RewriteHook>,
    /// What did it.
    pub agent: RewriteAgent,
    /// The rule, if known.
    pub rule: Option<Rule>,
    /// The rule that set the mark which the deciding rule tested.
    pub marked_by: Option<Rule>,
    /// The program, for tc-bpf.
    pub program: Option<Tc>,
    /// How the rewrite is known.
    pub evidence: RewriteEvidence,
}

/// Which way a rewritten packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteDirection {
    /// From the origin.
    Request,
    /// Toward the origin.
    Reply,
}

/// What a rewrite changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteField {
    /// The source address (its port may have changed with it).
    Src,
    /// The destination address (its port may have changed with it).
    Dst,
    /// Only the source port.
    Sport,
    /// Only the destination port.
    Dport,
}

/// Whose doing a rewrite was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// The origin's own namespace.
    Pod,
    /// The node's namespace.
    Node,
    /// On the node, by Service chains.
    Service,
    /// Another pod's namespace that forwards.
    Gateway,
    /// After the last local point.
    Downstream,
    /// A proxy.
    Proxy,
}

/// The hook at which a rewrite happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteHook {
    /// netfilter prerouting.
    Prerouting,
    /// netfilter input.
    Input,
    /// netfilter forward.
    Forward,
    /// netfilter output.
    Output,
    /// netfilter postrouting.
    Postrouting,
    /// A tc program at ingress.
    TcIngress,
    /// A tc program at egress.
    TcEgress,
    /// An XDP program.
    Xdp,
}

/// What did a rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteAgent {
    /// netfilter's NAT.
    Netfilter,
    /// A tc eBPF program.
    TcBpf,
    /// IPVS.
    Ipvs,
    /// Something stateless in netfilter.
    Stateless,
    /// A proxy process.
    Proxy,
    /// Not known.
    Unknown,
}

/// How a rewrite is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteEvidence {
    /// The kernel's binding shows it.
    Conntrack,
    /// Known only from two sightings.
    Between,
}

/// A rule in one of the rule stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// iptables-legacy, iptables-nft, nft.
    pub backend: String,
    /// ip, ip6, inet, netdev, bridge.
    pub family: String,
    /// Table.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// Number in the chain, from 1.
    pub index: Option<u32>,
    /// nftables' handle.
    pub handle: Option<u64>,
    /// The rule as its own tool prints it.
    pub text: String,
    /// Its comment.
    pub comment: Option<String>,
    /// Who manages it.
    pub owner: Option<String>,
    /// How it is known.
    pub evidence: RuleEvidence,
    /// The chain numbers on the way to it.
    pub path: Vec<String>,
}

/// How a rule is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleEvidence {
    /// The kernel ran it for this flow while we watched.
    Observed,
    /// Today's rules, evaluated for this packet, give it.
    Replayed,
}

/// A tc program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tc {
    /// Program id.
    pub id: u32,
    /// Program name.
    pub name: String,
}

/// Wire packets and bytes of each direction, at the first hop that sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Whether the exchange worked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryCode {
    /// Application data both ways, or an answered UDP/ICMP request.
    Completed,
    /// The handshake was answered, the application was silent.
    HandshakeOnly,
    /// Nothing came back.
    NoReply,
    /// A reply came, and is proven not to have arrived.
    ReplyLost,
    /// RST or an ICMP error answered.
    Refused,
    /// The request died on this host.
    Dropped,
    /// The trace ended before it could be told.
    InProgress,
}

/// Who refused a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedBy {
    /// The address that answered.
    pub addr: IpAddr,
    /// `rst` or the ICMP type's name.
    pub kind: String,
    /// The hop at which the refusal was first sighted.
    pub hop: Option<u32>,
}

/// A packet of the flow that died on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// Process id.
    pub pid: u32,
    /// Task name.
    pub comm: String,
    /// Container name.
    pub container: Option<String>,
    /// Where it listens.
    pub listen: Option<String>,
    /// Id of the new flow.
    pub new_flow: Option<String>,
    /// `payload` or `process`.
    pub evidence: String,
    /// The PROXY protocol header, if one was seen.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// What a PROXY protocol header says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyProtocol {
    /// 1 or 2.
    pub version: u8,
    /// The client it names.
    pub client: Option<String>,
    /// Whether that is the true one.
    pub true_client: Option<bool>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
