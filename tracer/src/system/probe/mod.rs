//! One real request, sent from inside a namespace: what `--probe` traces.
//!
//! The socket is made by a visitor thread and closed by it, so it keeps the namespace no longer
//! than the probe lasts. It runs in the pod's network namespace, but not with its cgroup, uid or
//! other exemptions.

mod dns;
mod icmp;
mod socket;
#[cfg(test)]
mod tests;

pub use dns::{Question, Resolved, ask};

use super::SystemError;
use super::netns::{Netns, visit};
use socket::Probing;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// How long an answer is waited for.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// What a UDP probe carries, and an echo request.
pub const PAYLOAD: &[u8] = b"srctrace probe\n";

/// The kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A TCP connection, opened and closed in order; no data is sent.
    Tcp,
    /// One datagram.
    Udp,
    /// One echo request.
    Icmp,
}

impl Kind {
    /// IP protocol number.
    pub fn protocol(self, to: IpAddr) -> u8 {
        match (self, to) {
            (Self::Tcp, _) => 6,
            (Self::Udp, _) => 17,
            (Self::Icmp, IpAddr::V4(_)) => 1,
            (Self::Icmp, IpAddr::V6(_)) => 58,
        }
    }
}

/// What to send, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Kind of request.
    pub kind: Kind,
    /// Destination; the port counts for TCP and UDP.
    pub to: SocketAddr,
    /// How long to wait.
    pub timeout: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// TCP: the connection was established. UDP and ICMP: an answer came.
    Answered,
    /// TCP: a reset. UDP: "port unreachable".
    Refused,
    /// Nothing came in time.
    Timeout,
    /// The network, ours or another, said that it cannot be reached: the error's number.
    Unreachable(i32),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => f.write_str("answered"),
            Self::Refused => f.write_str("refused"),
            Self::Timeout => f.write_str("no answer"),
            Self::Unreachable(code) => {
                write!(f, "not reachable: {}", io::Error::from_raw_os_error(*code))
            }
        }
    }
}

/// The end of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What came of it.
    pub outcome: Outcome,
    /// The address and port it was sent from (ICMP: the echo id as port), where the kernel chose
    /// one: without a route there is none.
    pub from: Option<SocketAddr>,
    /// From sending to the outcome.
    pub took: Duration,
}

/// Sends one request from inside a namespace and waits for what comes of it. Blocks: call it
/// from a thread of its own (`spawn_blocking`).
///
/// # Errors
/// When the namespace is gone or may not be entered, or no such socket is to be had there.
/// An answer that is a refusal is no error.
pub fn probe(netns: &Netns, request: &Request) -> Result<Answer, SystemError> {
    visit(netns, || {
        let start = Instant::now();
        let deadline = start + request.timeout;
        let fail = |e| SystemError::os("send a probe to", request.to, e);
        let mut probing = Probing::open(request).map_err(fail)?;
        let outcome = probing.run(request.to, deadline);
        let took = start.elapsed();
        let from = probing.local();
        probing.finish();
        Ok(Answer {
            outcome: judge(outcome).map_err(fail)?,
            from,
            took,
        })
    })
}

/// Tells the network's answers from our own failures.
fn judge(result: io::Result<()>) -> io::Result<Outcome> {
    let Err(error) = result else {
        return Ok(Outcome::Answered);
    };
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED | libc::ECONNRESET) => Ok(Outcome::Refused),
        Some(
            code @ (libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EACCES
            | libc::EPERM
            | libc::EADDRNOTAVAIL
            | libc::EINVAL
            | libc::EPROTO
            | libc::EMSGSIZE
            | libc::ENOPROTOOPT),
        ) => Ok(Outcome::Unreachable(code)),
        Some(libc::ETIMEDOUT) => Ok(Outcome::Timeout),
        _ if error.kind() == io::ErrorKind::TimedOut => Ok(Outcome::Timeout),
        _ => Err(error),
    }
}
