//! What the rules of this machine would do to a packet that nobody sent: which source would leave,
//! by which rule, on which way.
//!
//! The packet is walked from its sender through every namespace on its way: each time the route is
//! asked ([`Routes`]) and the rules are, by [`crate::evaluate`], as for a flow that was seen. Where
//! something that is not known decides, every way is walked ([`Fare`]). So an answer is `replayed`
//! evidence, as of the rules and routes that were read.
//!
//! What is missing for an answer is told ([`Needs`]): the caller asks the machine, and foresees again.

mod answer;
mod bridged;
mod datapath;
mod doubts;
mod ends;
mod fare;
mod next;
mod route;
mod said;
mod senders;
mod sources;
mod stretches;
mod told;
mod turns;
mod walk;

pub use fare::{Ended, Fare, Leg};
pub use route::{Asked, Routed, Routes, Steering};
pub use said::{as_it_asks, said};
pub use senders::senders;
pub use sources::told_apart;
pub use told::{grouped, tell};

use crate::evaluate::Rules;
use crate::event::NetnsId;
use crate::inventory::{Attached, Inventory};
use crate::masqconfig::Pinned;
use crate::packet::Proto;
use crate::report::OriginKind;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What a forecast is made from.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'g, 'r> {
    /// The host: namespaces, devices, addresses, main routing tables, programs on devices.
    pub inventory: &'g Inventory,
    /// The rules of the namespaces, as far as they were read.
    pub rules: &'g BTreeMap<NetnsId, Rules<'r>>,
    /// What the kernel said of its ways; what it was not asked is taken from the inventory.
    pub routes: &'g Routes,
    /// The destinations that Cilium's data path exempts, where its maps were found.
    pub pinned: Option<&'g Pinned>,
}

/// Who would send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    /// What kind of place that is.
    pub kind: OriginKind,
    /// The namespace it is in; of a client: the one that its packets come into.
    pub netns: NetnsId,
    /// For a client: the device by which its packets come in.
    pub iif: Option<u32>,
    /// Its address; `None`: what the route to the destination prefers, of a client: not known.
    pub src: Option<IpAddr>,
}

/// What it would send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where to.
    pub dst: IpAddr,
    /// By which protocol.
    pub proto: Proto,
    /// From which port; `None`: any.
    pub sport: Option<u16>,
    /// To which port; `None`: not given.
    pub dport: Option<u16>,
}

/// What would become of it.
#[derive(Clone, Debug)]
pub struct Forecast<'r> {
    /// Each way in which it may fare: more than one where something that is not known decides.
    pub fares: Vec<Fare<'r>>,
    /// Why nothing of this is certain; empty otherwise.
    pub doubts: Vec<String>,
    /// What was not known and could be asked.
    pub needs: Needs,
    /// Whether a rule on the way asked for the protocol or its header.
    pub asks_transport: bool,
}

/// What could be asked of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Ways.
    pub routes: BTreeSet<(NetnsId, Asked)>,
    /// Rules of these namespaces.
    pub rules: BTreeSet<NetnsId>,
}

impl Needs {
    /// Whether all that was needed was known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty() && self.rules.is_empty()
    }

    /// Takes in what another forecast needs.
    pub fn absorb(&mut self, other: Self) {
        self.routes.extend(other.routes);
        self.rules.extend(other.rules);
    }
}

/// What would become of a request.
#[must_use]
pub fn foresee<'r>(ground: &Ground<'_, 'r>, sender: &Sender, request: &Request) -> Forecast<'r> {
    walk::Walk::of(ground, sender, request)
}

/// Whether this is a program of Cilium's data path.
#[must_use]
pub fn is_ciliums(program: &Attached) -> bool {
    doubts::is_ciliums(program)
}
