//! What the programs say of connections that end in a process of this host, and of the first bytes of
//! connections: one [`RawSocket`] or [`RawOpening`] each.

use crate::{RawProcess, RawTuple};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Values of [`RawSocket::what`].
pub mod socket_event {
    /// A process used an accepted connection for the first time: it read from it or shut it.
    pub const USED: u8 = 1;
    /// An accepted connection of which `USED` was told is over.
    pub const OVER: u8 = 2;
}

/// Values of [`RawSocket::followed`].
pub mod socket_follow {
    /// Nothing of it was followed by the programs.
    pub const NOT: u8 = 0;
    /// It is part of a flow that was asked for.
    pub const ASKED: u8 = 1;
    /// It was not asked for; its packets are followed because its process opens such flows.
    pub const RELATED: u8 = 2;
}

/// A connection that was accepted on this host.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct RawSocket {
    /// [`crate::event_kind::SOCKET`].
    pub kind: u8,
    /// One of [`socket_event`].
    pub what: u8,
    /// One of [`socket_follow`].
    pub followed: u8,
    /// 1: its process has used more connections than are remembered of it.
    pub more: u8,
    /// Inode number of the socket's namespace.
    pub netns: u32,
    /// `bpf_ktime_get_ns`, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// When the connection was established, likewise.
    pub since_ns: u64,
    /// Address of the `struct sock`: its identity while it lives.
    pub sk: u64,
    /// From the client to the listener, as the socket has it: after any translation.
    pub tuple: RawTuple,
    /// The task that used it.
    pub process: RawProcess,
}

const _: () = assert!(size_of::<RawSocket>() == 104);

/// What is remembered of an accepted connection.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Accepted {
    /// As in [`RawSocket`].
    pub tuple: RawTuple,
    /// Who used it, once that is known.
    pub process: RawProcess,
    /// When it was established, CLOCK_MONOTONIC nanoseconds.
    pub since_ns: u64,
    /// Inode number of its namespace.
    pub netns: u32,
    /// One of [`socket_follow`].
    pub followed: u8,
    /// 1 once it was told.
    pub told: u8,
    /// Zero.
    pub pad: [u8; 2],
}

const _: () = assert!(size_of::<Accepted>() == 88);

/// How many accepted connections are remembered of a process: the last ones.
pub const MAX_RECENT: usize = 8;

/// The accepted connections that a process used last.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct RecentSockets {
    /// How many there were.
    pub count: u64,
    /// Addresses of their `struct sock`, each at its number's place.
    pub sockets: [u64; MAX_RECENT],
}

/// Processes of one container in one namespace: who shares a listener is among them.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct GroupKey {
    /// cgroup v2 id; zero where it cannot be read.
    pub cgroup: u64,
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Zero.
    pub pad: u32,
}

/// How many of a connection's first bytes are told: a PROXY header of version 1 (at most 107 bytes)
/// or of version 2 with addresses (28 or 52 bytes) and as much of what follows as is compared.
pub const OPENING: usize = 192;

/// How many segments with payload are told of each direction, at each traffic-control tap.
pub const MAX_OPENINGS: u8 = 2;

/// The first bytes that one side of a connection sent, or the segment after those.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct RawOpening {
    /// [`crate::event_kind::OPENING`].
    pub kind: u8,
    /// One of [`crate::tap`].
    pub tap: u8,
    /// How many of `bytes` were read.
    pub len: u16,
    /// TCP sequence number of the first of them.
    pub seq: u32,
    /// `bpf_ktime_get_ns`, CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// Inode number of the device's namespace.
    pub netns: u32,
    /// The device, in its namespace.
    pub ifindex: u32,
    /// Bytes of payload in the segment.
    pub payload_len: u32,
    /// Zero.
    pub pad: u32,
    /// The packet's tuple there.
    pub tuple: RawTuple,
    /// The beginning of the payload.
    pub bytes: [u8; OPENING],
}

const _: () = assert!(size_of::<RawOpening>() == 72 + OPENING);
