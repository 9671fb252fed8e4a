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

impl Rule {
    /// What stands for the number where it is no rule, but what a chain does where none decides.
    pub(crate) const POLICY: &str = " policy";

    /// The rule in a sentence: `iptables-legacy nat/IP-MASQ rule 3`, `nft ip agent/masq handle 6`.
    #[must_use]
    pub fn name(&self) -> String {
        self.named(" rule")
    }

    /// As [`Rule::name`], for tables and keys: `iptables-legacy nat/IP-MASQ 3`.
    #[must_use]
    pub fn short(&self) -> String {
        self.named("")
    }

    /// Numbered as its own tool does.
    fn named(&self, word: &str) -> String {
        let native = self.backend == "nft";
        let number = match (self.index, self.handle) {
            (_, Some(handle)) if native => format!(" handle {handle}"),
            (Some(index), _) => format!("{word} {index}"),
            (None, Some(handle)) => format!(" handle {handle}"),
            (None, None) => Self::POLICY.to_owned(),
        };
        let store = tool(&self.backend, &self.family);
        format!("{store} {}/{}{number}", self.table, self.chain)
    }
}

/// The tool that shows a store's tables of a family, with the family where it shows all of them:
/// `ip6tables-legacy`, `nft ip`.
fn tool(backend: &str, family: &str) -> String {
    match backend.strip_prefix("iptables-") {
        Some(kind) if family == "ip6" => format!("ip6tables-{kind}"),
        None if backend == "nft" => format!("nft {family}"),
        _ => backend.to_owned(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_named_and_numbered_as_by_its_own_tool() {
        let names = |backend: &str, family: &str, handle| {
            let rule = Rule {
                backend: backend.into(),
                family: family.into(),
                table: "nat".into(),
                chain: "X".into(),
                index: Some(2),
                handle,
                text: String::new(),
                comment: None,
                owner: None,
                evidence: RuleEvidence::Replayed,
                path: Vec::new(),
            };
            [rule.name(), rule.short()]
        };
        let same = |name: &str| [name.to_owned(), name.to_owned()];
        for (backend, family, tool) in [
            ("iptables-legacy", "ip", "iptables-legacy"),
            ("iptables-nft", "ip", "iptables-nft"),
            ("iptables-legacy", "ip6", "ip6tables-legacy"),
            ("iptables-nft", "ip6", "ip6tables-nft"),
        ] {
            let named = [format!("{tool} nat/X rule 2"), format!("{tool} nat/X 2")];
            assert_eq!(names(backend, family, Some(7)), named);
        }
        assert_eq!(
            names("nft", "inet", Some(7)),
            same("nft inet nat/X handle 7")
        );
        let unsaved = ["nft ip nat/X rule 2", "nft ip nat/X 2"];
        assert_eq!(names("nft", "ip", None), unsaved);
    }
}
