//! Accepted connections and the processes that use them, as the kernel half tells them.

use crate::event::{NetnsId, Process};
use crate::packet::Tuple;
use serde::{Deserialize, Serialize};
use tracer_common::{RawSocket, event_kind, socket_event, socket_follow};
use zerocopy::FromBytes;

/// A process used an accepted connection for the first time, or that connection is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketEvent {
    /// CLOCK_MONOTONIC nanoseconds.
    pub time_ns: u64,
    /// When the connection was established, likewise.
    pub since_ns: u64,
    /// The socket's namespace.
    pub netns: NetnsId,
    /// Address of the `struct sock`: its identity while it lives.
    pub sk: u64,
    /// From the client to the listener, as the socket has it.
    pub tuple: Tuple,
    /// It is over.
    pub over: bool,
    /// Its flow was asked for.
    pub asked: bool,
    /// Its process has used more connections than the kernel half remembers.
    pub more: bool,
    /// Who used it.
    pub process: Process,
}

/// Whether a record of the kernel half tells of a socket.
#[must_use]
pub fn is_socket(bytes: &[u8]) -> bool {
    bytes.first() == Some(&event_kind::SOCKET)
}

/// Whether a record tells how a connection begins.
#[must_use]
pub fn is_opening(bytes: &[u8]) -> bool {
    bytes.first() == Some(&event_kind::OPENING)
}

/// Reads one record; `None` where it is none (a bug, or a foreign object).
#[must_use]
pub fn decode_socket(bytes: &[u8]) -> Option<SocketEvent> {
    let raw = RawSocket::read_from_bytes(bytes).ok()?;
    let known = matches!(raw.what, socket_event::USED | socket_event::OVER);
    if raw.kind != event_kind::SOCKET || !known {
        return None;
    }
    let comm = raw.process.comm.split(|byte| *byte == 0).next();
    let comm = comm.map(|name| String::from_utf8_lossy(name).into_owned());
    Some(SocketEvent {
        time_ns: raw.time_ns,
        since_ns: raw.since_ns,
        netns: NetnsId(raw.netns),
        sk: raw.sk,
        tuple: Tuple::from_raw(&raw.tuple)?,
        over: raw.what == socket_event::OVER,
        asked: raw.followed == socket_follow::ASKED,
        more: raw.more != 0,
        process: Process {
            pid: Some(raw.process.pid),
            comm,
            cgroup: Some(raw.process.cgroup),
        },
    })
}
