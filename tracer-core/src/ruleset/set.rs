//! Sets and maps: ipset's, and nftables' named and anonymous ones.

use super::{Action, TableId, Value};
use serde::{Deserialize, Serialize};

/// Identity of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SetId {
    /// An ipset of the namespace.
    Ipset(String),
    /// A named set or map of an nftables table.
    Named(TableId, String),
    /// The n-th anonymous set or map of an nftables table, in the order of the dump.
    Anonymous(TableId, u32),
}

/// A set or map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Its type as its tool prints it (`hash:net`, `ipv4_addr . inet_service`).
    pub kind: String,
    /// Its elements.
    pub elements: Vec<Element>,
    /// Packets add to it (`flags dynamic`, `SET --add-set`): today's elements are not those of the
    /// moment asked about.
    pub dynamic: bool,
}

/// An element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// The key, one part for each field; each must hold. A part with more than one value (a list
    /// inside a concatenation) is written as several elements. Without parts: what no other element
    /// of an nftables set takes (`*`); it is the last one.
    pub key: Vec<Value>,
    /// ipset's `nomatch`: an exception, not a member.
    pub except: bool,
    /// A map's value: what is done (verdict maps), or nothing.
    pub action: Option<Action>,
    /// A data map's value, one part for each field (address, port).
    pub data: Vec<Value>,
    /// The element as its tool prints it.
    pub text: String,
}
