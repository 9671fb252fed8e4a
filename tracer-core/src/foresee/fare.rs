//! One way in which a packet may fare.

use crate::evaluate::{Assumption, End, NearMiss, Shadowed, Way};
use crate::event::NetnsId;
use crate::inventory::Refusal;
use std::net::IpAddr;

/// One way in which a packet may fare, from its sender to where this machine loses sight of it.
#[derive(Clone, Debug)]
pub struct Fare<'r> {
    /// The namespaces on the way, in order.
    pub legs: Vec<Leg<'r>>,
    /// How it ends.
    pub ended: Ended,
    /// Its source at the start; `None`: a client's, which is not known.
    pub from: Option<IpAddr>,
    /// Its source at the end; `None`: not known, or one of several.
    pub source: Option<IpAddr>,
    /// Its destination at the end.
    pub dst: Option<IpAddr>,
    /// What was assumed on the way.
    pub assumed: Vec<Assumption>,
}

/// How a way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It leaves this machine by a device of a namespace.
    Left {
        /// The namespace.
        netns: NetnsId,
        /// The device.
        ifindex: u32,
    },
    /// A socket of that namespace gets it.
    Delivered(NetnsId),
    /// A rule or policy stops it: the last leg's end tells which.
    Stopped,
    /// The namespace has no way for it.
    Refused(NetnsId, Refusal),
    /// It cannot be told what becomes of it.
    Unknown,
}

/// One namespace on the way.
#[derive(Clone, Debug)]
pub struct Leg<'r> {
    /// Which.
    pub netns: NetnsId,
    /// How the packet goes through it.
    pub way: Way,
    /// The device by which it comes in; `None`: it is made there.
    pub iif: Option<u32>,
    /// The device by which it leaves.
    pub oif: Option<u32>,
    /// The next hop.
    pub via: Option<IpAddr>,
    /// Its source before the namespace's rules.
    pub before: Option<IpAddr>,
    /// What the rules do.
    pub end: End<'r>,
    /// NAT rules that one condition alone kept from translating it.
    pub near_misses: Vec<NearMiss<'r>>,
    /// NAT rules that come too late.
    pub shadowed: Vec<Shadowed<'r>>,
}
