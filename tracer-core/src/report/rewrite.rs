//! Rewrites, and the rules and programs behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// An address and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddrPort {
    /// Address.
    pub addr: IpAddr,
    /// Port; ICMP identifier.
    pub port: u16,
}

/// A change of address or port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteDirection {
    /// From the origin.
    Request,
    /// Toward the origin.
    Reply,
}

/// What a rewrite changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash, JsonSchema)]
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
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash, JsonSchema,
)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteEvidence {
    /// The kernel's binding shows it.
    Conntrack,
    /// Known only from two sightings.
    Between,
}

/// A rule in one of the rule stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleEvidence {
    /// The kernel ran it for this flow while we watched.
    Observed,
    /// Today's rules, evaluated for this packet, give it.
    Replayed,
}

/// A tc program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tc {
    /// Program id.
    pub id: u32,
    /// Program name.
    pub name: String,
}
