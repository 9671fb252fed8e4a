//! The answer: what the rules do to a packet, and on what that depends.

use super::Bits;
use super::index::At;
use crate::ruleset::{Chain, NatKind, Table, Test, Value};
use std::net::{IpAddr, SocketAddr};

/// What the rules of a namespace do to a packet.
#[derive(Clone, Debug)]
pub struct Outcome<'r> {
    /// How the packet may fare. More than one where something that is not known, or chance,
    /// decides between them.
    pub ends: Vec<End<'r>>,
    /// Why nothing of this is certain (a store could not be read, an action was not understood,
    /// the walk was cut short); empty otherwise.
    pub doubts: Vec<String>,
    /// NAT rules on the way that one condition alone kept from translating the packet.
    pub near_misses: Vec<NearMiss<'r>>,
    /// NAT rules that would have translated the packet had not another done so before.
    pub shadowed: Vec<Shadowed<'r>>,
    /// Whether a rule on the way asked for the protocol or its header: if none did, packets of other
    /// protocols and ports fare alike.
    pub asks_transport: bool,
}

/// One way in which a packet may fare.
#[derive(Clone, Debug)]
pub struct End<'r> {
    /// Whether it came through.
    pub fate: Fate<'r>,
    /// What translates its source.
    pub source: Option<Decision<'r>>,
    /// What translates its destination.
    pub destination: Option<Decision<'r>>,
    /// Rules that kept it from a translation which it would else have met, in the order of the walk.
    pub exemptions: Vec<Exemption<'r>>,
    /// The rule that said not to track it: NAT was skipped.
    pub untracked: Option<At<'r>>,
    /// Rules that wrote addresses or ports without conntrack.
    pub stateless: Vec<At<'r>>,
    /// Rules that handed it to a local socket (TPROXY) or its flow to the fast path (`flow add`).
    pub diverted: Vec<At<'r>>,
    /// Source as it leaves; `None` parts are not known.
    pub src: (Option<IpAddr>, Option<u16>),
    /// Destination as it leaves; `None` parts are not known.
    pub dst: (Option<IpAddr>, Option<u16>),
    /// Its mark as it leaves, where every bit is known.
    pub mark: Option<u32>,
    /// Its mark when its way was chosen.
    pub routed: Bits,
    /// What was assumed to come to this end.
    pub assumed: Vec<Assumption>,
    /// Every rule whose tests held, in the order in which the packet met them.
    pub trace: Vec<Met<'r>>,
}

/// A rule whose tests held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met<'r> {
    /// The rule.
    pub at: At<'r>,
    /// Whether it was carried out to its end. nftables gives up a rule whose map has no element for
    /// the packet, or which reads from a conntrack entry that is not there (`NFT_BREAK`): its
    /// counter has moved, and the kernel's trace does not show it.
    pub whole: bool,
}

/// Something undecided that was taken to be one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption {
    /// What.
    pub text: String,
    /// Which way.
    pub holds: bool,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate<'r> {
    /// Every hook lets it pass.
    Passes,
    /// A rule drops it (or rejects it, then with what).
    Dropped {
        /// The rule.
        by: At<'r>,
        /// The rules that led to it, itself last.
        path: Vec<At<'r>>,
        /// What the sender is told.
        reject: Option<String>,
    },
    /// No rule of a base chain decided, and its policy is drop.
    Policy {
        /// The chain's table.
        table: PtrEq<'r, Table>,
        /// The chain.
        chain: PtrEq<'r, Chain>,
    },
    /// A rule hands it to user space, which decides.
    Queued(At<'r>),
}

/// A reference that equals only itself.
#[derive(Clone, Copy, Debug)]
pub struct PtrEq<'r, T>(pub &'r T);

impl<T> PartialEq for PtrEq<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<T> Eq for PtrEq<'_, T> {}

/// A rule that translates the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'r> {
    /// The rule.
    pub by: At<'r>,
    /// The rules that led to it, itself last.
    pub path: Vec<At<'r>>,
    /// Into what.
    pub translation: Translation,
    /// Rules that set the mark bits which rules on this path tested.
    pub marked_by: Vec<Marker<'r>>,
}

/// A rule that wrote bits of the packet's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker<'r> {
    /// The rule.
    pub by: At<'r>,
    /// The rules that led to it, itself last.
    pub path: Vec<At<'r>>,
}

/// What a packet's source or destination becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// By what kind of rule.
    pub kind: NatKind,
    /// The address.
    pub addr: Target,
    /// The port.
    pub port: Port,
}

/// An address that a translation chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It stays.
    Same,
    /// This one.
    One(IpAddr),
    /// One of these.
    OneOf(Vec<Value>),
    /// Not known, and why.
    Unknown(String),
}

/// A port that a translation chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// It stays, where it is free.
    Kept,
    /// One of these, both ends included.
    Within(u16, u16),
    /// Any: chosen anew, or not known.
    Any,
}

/// A rule that kept the packet from a translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemption<'r> {
    /// The rule: its RETURN or ACCEPT ended the walk of a NAT chain, or its own set test failed.
    pub by: At<'r>,
    /// The rules that led to it, itself last.
    pub path: Vec<At<'r>>,
    /// The member of a set that decided, as its tool prints it.
    pub member: Option<String>,
    /// The NAT rule which the packet would else have met.
    pub from: Option<At<'r>>,
}

/// A NAT rule that failed on exactly one condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss<'r> {
    /// The rule.
    pub rule: At<'r>,
    /// The condition.
    pub test: &'r Test,
}

/// A NAT rule that came too late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed<'r> {
    /// The rule that translates.
    pub by: At<'r>,
    /// The rule that would have.
    pub rule: At<'r>,
}

/// An answer to one question, over all ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// Every answer that may be true.
    pub candidates: Vec<T>,
    /// What decides between them, and what else makes the answer uncertain.
    pub depends_on: Vec<String>,
}

impl<T> Answer<T> {
    /// The answer, where there is only one and nothing puts it in doubt.
    #[must_use]
    pub fn certain(&self) -> Option<&T> {
        match self.candidates.as_slice() {
            [one] if self.depends_on.is_empty() => Some(one),
            _ => None,
        }
    }
}

/// What became of a packet's addresses, as sighted or as conntrack tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its source after the namespace.
    pub source: Option<SocketAddr>,
    /// Its destination after the namespace.
    pub destination: Option<SocketAddr>,
}

/// Whether rules explain what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They give just this.
    Explained,
    /// They may, but something that is not known decides.
    Possible,
    /// They cannot.
    Unexplained,
}
