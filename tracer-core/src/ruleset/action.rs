//! What rules do.

use super::{Field, SetId, Value};
use serde::{Deserialize, Serialize};

/// One thing that a rule does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Decides where the packet goes next.
    Verdict(Verdict),
    /// Looks the fields up in a verdict map and does what it says (nothing where it has no element).
    VerdictMap {
        /// What is looked up.
        fields: Vec<Field>,
        /// The map.
        map: SetId,
    },
    /// Takes one of several actions, and which cannot be predicted (`numgen … vmap`, `jhash … vmap`).
    ChanceOf(Vec<Action>),
    /// The packet's mark becomes `(mark & and) ^ xor`.
    SetMark {
        /// Bits that stay.
        and: u32,
        /// Bits that are flipped then.
        xor: u32,
    },
    /// The conntrack entry's mark becomes `(mark & and) ^ xor`.
    SetCtMark {
        /// Bits that stay.
        and: u32,
        /// Bits that are flipped then.
        xor: u32,
    },
    /// The packet's mark takes bits from the entry's: `(mark & ~nfmask) ^ (ctmark & ctmask)`.
    RestoreMark {
        /// Bits of the packet's mark that are replaced.
        nfmask: u32,
        /// Bits of the entry's mark that are taken.
        ctmask: u32,
    },
    /// The entry's mark takes bits from the packet's: `(ctmark & ~ctmask) ^ (mark & nfmask)`.
    SaveMark {
        /// Bits of the packet's mark that are taken.
        nfmask: u32,
        /// Bits of the entry's mark that are replaced.
        ctmask: u32,
    },
    /// Sets up a translation; ends the chain's traversal.
    Nat(Nat),
    /// The packet will not be tracked: NAT is skipped.
    Notrack,
    /// Conntrack zone for this packet (`--zone-orig`: for those of the original direction).
    SetZone(u16),
    /// Writes the field without conntrack (stateless NAT).
    SetField {
        /// Address or port.
        field: Field,
        /// Its new value, where the rule names one.
        value: Option<Value>,
    },
    /// Hands the packet to a local socket without changing it. Not a verdict: x_tables' TPROXY, which also
    /// accepts, is followed by one.
    Tproxy,
    /// Flows take the fast path from now on: later packets pass no hook (`flow add`).
    Offload,
    /// Nothing that matters here: counter, log, set update, comment; with its text.
    Pass(String),
    /// Not understood, with its text: it may do anything.
    Unknown(String),
}

/// Where a packet goes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Done with this base chain.
    Accept,
    /// Dies here.
    Drop,
    /// Dies here, and the sender is told (with what).
    Reject(String),
    /// Back to the calling chain; in a base chain: the policy.
    Return,
    /// The next rule.
    Continue,
    /// Into a chain, and back after it.
    Jump(String),
    /// Into a chain; after it, back to where this chain was called.
    Goto(String),
    /// To user space.
    Queue,
}

/// A translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nat {
    /// What kind.
    pub kind: NatKind,
    /// The addresses it may choose from (`Addrs`, `Masked` for NETMAP and prefixes); empty: decided
    /// elsewhere (masquerade: the device; redirect: this namespace) or out of `map`.
    pub addrs: Vec<Value>,
    /// The ports it may choose from; `None`: kept where they are free.
    pub ports: Option<(u16, u16)>,
    /// Where the address comes out of a data map: its fields and the map.
    pub map: Option<(Vec<Field>, SetId)>,
    /// `random`, `fully-random`: the port is chosen anew even where it is free.
    pub random: bool,
}

/// Kinds of translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NatKind {
    /// Source, by an address of the out device.
    Masquerade,
    /// Source.
    Snat,
    /// Destination.
    Dnat,
    /// Destination, to this namespace.
    Redirect,
    /// A whole prefix: source or destination, by the hook.
    Netmap,
}

impl NatKind {
    /// Whether it translates the source, at a hook.
    #[must_use]
    pub fn is_source(self, hook: super::Hook) -> bool {
        match self {
            Self::Masquerade | Self::Snat => true,
            Self::Dnat | Self::Redirect => false,
            Self::Netmap => matches!(hook, super::Hook::Postrouting | super::Hook::Input),
        }
    }
}
