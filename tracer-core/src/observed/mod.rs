//! Rules that the kernel ran while we watched: for which packet, in which namespace, at which hook.
//!
//! Observers differ in what they see. Probes on NAT targets ([`decode`]) see the one rule that
//! translated, by its place in memory; the kernel's own trace ([`nftrace`]) sees every rule on the
//! way. Both give [`RuleHit`]s. What a position is called in its store ([`RulePlace`]) needs, for
//! iptables-legacy, a look at the table's blob ([`blob`]).

mod attributes;
pub mod blob;
mod decode;
mod headers;
mod hits;
pub mod nflog;
pub mod nftrace;
mod pace;
mod traversals;

pub use attributes::attributes;
pub use decode::decode;
pub use hits::Hits;
pub use pace::Pace;
pub use traversals::Traversals;

use crate::event::{Conntrack, NetnsId};
use crate::packet::Tuple;
use crate::ruleset::{Family, Hook, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A rule decided about a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleHit {
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Address of the packet's buffer, where the observer knows it.
    pub skb: Option<u64>,
    /// In which namespace.
    pub netns: NetnsId,
    /// At which hook, where the observer knows it.
    pub hook: Option<Hook>,
    /// The packet as this namespace first had it: its conntrack entry's original tuple, or, where
    /// that is not known, the packet as it came to the hook.
    pub tuple: Tuple,
    /// The conntrack entry before the rule translated, where the observer knows it.
    pub conntrack: Option<Conntrack>,
    /// The rule.
    pub place: RulePlace,
    /// What it said; `None`: a target ran, or a mark was set.
    pub verdict: Option<Verdict>,
    /// The rules that matched before it in the same traversal, in order, and what they said. Empty
    /// where the observer does not see them.
    pub path: Vec<(RulePlace, Option<Verdict>)>,
    /// The packet's mark when the rule ran, where the observer knows it.
    pub mark: Option<u32>,
    /// The conntrack entry's id, where the observer knows it.
    pub ct_id: Option<u32>,
}

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RulePlace {
    /// In a table of iptables-legacy, by the place of its target's data in the table's blob.
    LegacyOffset {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// Bytes from the first entry.
        offset: u32,
        /// The blob's size then: another one was in force if it differs.
        size: u32,
        /// The blob's number of entries then.
        number: u32,
    },
    /// In a table of iptables-legacy, by its number.
    Legacy {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The chain.
        chain: String,
        /// Number in the chain, from 1.
        index: u32,
    },
    /// In an nftables table: native, or iptables-nft's.
    Nft {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The chain. The first bytes of it where `chain_cut`.
        chain: String,
        /// Whether the chain's name is longer than what was read.
        chain_cut: bool,
        /// The rule's handle, unique in its table.
        handle: u64,
        /// Number in the chain, from 1, among the rules that were in force.
        index: Option<u32>,
        /// The target is an x_tables extension: the rule is iptables-nft's.
        xt: bool,
    },
    /// A base chain's policy, or, where iptables-legacy says so, perhaps a rule: it calls an
    /// unconditional ACCEPT or DROP of a built-in chain a policy too.
    Policy {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The chain.
        chain: String,
        /// What iptables-legacy counts it as: a number that no rule of the chain has where it is
        /// the policy.
        index: Option<u32>,
    },
    /// A NAT target ran, and the search for its rule ended without finding it.
    NotFound,
}

impl fmt::Display for RulePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LegacyOffset {
                family,
                table,
                offset,
                size,
                number,
            } => write!(
                f,
                "iptables-legacy {family} {table} offset {offset} of {size} ({number} entries)"
            ),
            Self::Legacy {
                family,
                table,
                chain,
                index,
            } => write!(f, "iptables-legacy {family} {table}/{chain} rule {index}"),
            Self::Nft {
                family,
                table,
                chain,
                chain_cut,
                handle,
                index,
                xt,
            } => {
                let store = if *xt { "iptables-nft" } else { "nft" };
                let cut = if *chain_cut { "…" } else { "" };
                write!(f, "{store} {family} {table}/{chain}{cut} handle {handle}")?;
                index.map_or(Ok(()), |index| write!(f, " (rule {index})"))
            }
            Self::Policy {
                family,
                table,
                chain,
                ..
            } => write!(f, "{family} {table}/{chain} policy"),
            Self::NotFound => f.write_str("a rule that was not found"),
        }
    }
}
