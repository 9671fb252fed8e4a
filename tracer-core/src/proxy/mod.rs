//! Proxies: a connection that ends in a process of this host and goes on as a new one.
//!
//! No packet is rewritten there, so no packet shows which two connections belong together. What does:
//! the same process used the one and opened the other, in that order ([`SocketEvent`], and the process
//! of a flow's first packet), and the same bytes were sent first ([`Opening`]). With equal bytes, or a
//! PROXY header that names the client, the relation is proven (`payload`); else it is `process`: one
//! process held both. Where two connections fit, none is chosen.

mod header;
mod opening;
mod relations;
mod socket;

pub use header::{Header, read as read_header};
pub use opening::{Digest, Opening, decode_opening};
pub use relations::Relations;
pub use socket::{SocketEvent, decode_socket, is_opening, is_socket};

use crate::event::{NetnsId, Process};
use crate::packet::Tuple;
use std::net::IpAddr;

/// What is known of a flow as one side of a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    /// Both sides.
    pub joined: Option<Joined>,
    /// More than one connection of its process fits: how many, and whose.
    pub ambiguous: Option<(usize, Process)>,
    /// The PROXY header that the flow itself begins with.
    pub header: Option<Header>,
    /// It was not asked for: it is told only as the other side of one that was.
    pub unasked: bool,
    /// Sources from which its destination was reached otherwise, while the trace ran.
    pub around: Vec<IpAddr>,
}

/// Which side of a proxy a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It ended there.
    Ended,
    /// It was opened there.
    Opened,
}

/// How a join is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The same process and the same first bytes, or a PROXY header that names the client.
    Payload,
    /// The same process, which held no other connection that fits.
    Process,
}

/// The two sides of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Which one the flow is.
    pub side: Side,
    /// The process.
    pub process: Process,
    /// The namespace of the accepted connection's socket.
    pub netns: NetnsId,
    /// From the client to the listener, as the process has it.
    pub inbound: Tuple,
    /// The new connection as the process opened it.
    pub outbound: Tuple,
    /// The new connection's flow, where it was sighted.
    pub new_flow: Option<String>,
    /// How it is known.
    pub evidence: Evidence,
    /// The PROXY header that the new connection begins with.
    pub header: Option<Header>,
    /// The new connection's first bytes were sent and no tap read them.
    pub unread: bool,
}
