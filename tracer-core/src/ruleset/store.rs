//! Tables, chains and rules.

use super::{Action, Set, SetId, Test};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Everything that was read of one namespace, IPv4 and IPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruleset {
    /// Tables of every store, in the order in which their stores list them.
    pub tables: Vec<Table>,
    /// The kernel's ipsets. Named nftables sets are found under their table's identity.
    pub sets: BTreeMap<SetId, Set>,
    /// Stores that are there and could not be read, wholly or in part: without them an answer is
    /// not certain.
    pub unread: Vec<Unread>,
}

/// A store, or a part of one, that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// Which.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do about it, where the reason does not say it all.
    pub fix: Option<String>,
}

impl Unread {
    /// One whose reason says it all.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
            fix: None,
        }
    }
}

/// Which tool a table belongs to. Its `Display` is the name in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Backend {
    /// `iptables-legacy`: x_tables' own tables.
    IptablesLegacy,
    /// `iptables-nft`: nftables tables with x_tables extensions in them.
    IptablesNft,
    /// `nft`.
    Nft,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IptablesLegacy => "iptables-legacy",
            Self::IptablesNft => "iptables-nft",
            Self::Nft => "nft",
        })
    }
}

/// Address family of a table. Its `Display` is nftables' word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Both.
    Inet,
    /// A device's ingress or egress.
    Netdev,
    /// Bridged frames.
    Bridge,
    /// ARP.
    Arp,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Inet => "inet",
            Self::Netdev => "netdev",
            Self::Bridge => "bridge",
            Self::Arp => "arp",
        })
    }
}

impl Family {
    /// Whether packets of an IP version (4 or 6) pass a table of this family.
    #[must_use]
    pub fn takes(self, version: u8) -> bool {
        match self {
            Self::Ip => version == 4,
            Self::Ip6 => version == 6,
            Self::Inet | Self::Netdev | Self::Bridge => true,
            Self::Arp => false,
        }
    }
}

/// Identity of a table: the same name may be in several stores at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId {
    /// Its tool.
    pub backend: Backend,
    /// Its family.
    pub family: Family,
    /// Its name.
    pub name: String,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Which one.
    pub id: TableId,
    /// `flags dormant`: its chains are not hooked.
    pub dormant: bool,
    /// Its chains, in the order of the dump.
    pub chains: Vec<Chain>,
}

impl Table {
    /// A chain by its exact name.
    #[must_use]
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| chain.name == name)
    }
}

/// A chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Where the kernel calls it; `None`: only other chains do.
    pub base: Option<Base>,
    /// Its rules in order.
    pub rules: Vec<Rule>,
}

/// Where and when the kernel calls a base chain (iptables' built-in chains are base chains).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// What it may do.
    pub kind: ChainKind,
    /// Which hook.
    pub hook: Hook,
    /// Lower runs first.
    pub priority: i32,
    /// When no rule decides.
    pub policy: Policy,
    /// Order of registration, where it is known; it compares chains of one hook and priority, which run
    /// newest first (measured for NAT, 6.18). Greater is newer.
    pub registered: Option<u64>,
    /// For netdev chains: the devices.
    pub devices: Vec<String>,
}

/// What a base chain may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ChainKind {
    /// Accept, drop, mark; sees every packet.
    Filter,
    /// Set up translations; sees only a flow's first packet.
    Nat,
    /// Re-routes when mark or addresses change (output only).
    Route,
}

/// netfilter's hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Hook {
    /// Before the route is chosen.
    Prerouting,
    /// To a local socket.
    Input,
    /// Through this namespace.
    Forward,
    /// From a local socket.
    Output,
    /// Last before the device.
    Postrouting,
    /// A device's ingress (netdev, and inet from 5.10).
    Ingress,
    /// A device's egress (netdev, from 5.16).
    Egress,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// A base chain's verdict when no rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Policy {
    /// Go on.
    Accept,
    /// Die here.
    Drop,
}

/// Identity of a rule, as observers of the kernel name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId {
    /// Its table.
    pub table: TableId,
    /// Its chain.
    pub chain: String,
    /// Number in the chain, from 1, as `iptables -L --line-numbers` counts.
    pub index: u32,
}

/// The name of a program that manages rules: one of those that this version knows.
pub type OwnerName = &'static str;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Number in its chain, from 1.
    pub index: u32,
    /// nftables' handle, where its store has handles and the dump tells them.
    pub handle: Option<u64>,
    /// The rule as its own tool prints it (iptables: from `-A`, without counters).
    pub text: String,
    /// Its comment, unescaped; several are joined by a space.
    pub comment: Option<String>,
    /// Who manages it, where chain or comment tell.
    #[serde(deserialize_with = "super::owner::known")]
    pub owner: Option<OwnerName>,
    /// What it tests and does, in order. x_tables rules are tests and then one action; nftables
    /// rules may mix both.
    pub steps: Vec<Step>,
}

/// One part of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The rule goes on only if this holds.
    Test(Test),
    /// This is done.
    Do(Action),
}
