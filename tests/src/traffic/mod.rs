//! Real traffic from inside a lab's namespaces. Servers say which source they saw, so a test can hold a report against
//! the far side's truth.

mod frames;
mod icmp;
mod option;
mod sniffer;
mod stream;
mod stream_server;
pub mod tun;
mod udp;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

pub use frames::send_frames;
pub use icmp::ping;
pub use option::SocketOption;
pub use sniffer::Sniffer;
pub use stream::{Stream, StreamCall, StreamKind};
pub use stream_server::{Behaviour, StreamServer};
pub use udp::{UdpCall, UdpServer};

/// What can be set of a call of either kind.
macro_rules! setters {
    ($call:ident) => {
        impl $call {
            /// With this payload instead of "hello"; a datagram larger than the MTU makes fragments.
            #[must_use]
            pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
                self.payload = payload.into();
                self
            }

            /// With a socket option.
            #[must_use]
            pub fn option(mut self, option: SocketOption) -> Self {
                self.options.push(option);
                self
            }

            /// Giving up after this long, while connecting and while waiting for the answer.
            #[must_use]
            pub fn patience(mut self, patience: Duration) -> Self {
                self.patience = patience;
                self
            }
        }
    };
}
use setters;

/// How often a waiting server looks whether it should stop.
const TICK: Duration = Duration::from_millis(50);

/// How a request ended for the one who sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The far side answered and said whom it saw.
    Answered(SocketAddr),
    /// No answer within the time allowed, connected or not.
    Silence,
    /// A reset or an ICMP error said no.
    Refused,
    /// The far side closed without an answer.
    Closed,
}

impl Outcome {
    /// The source that the far side saw.
    #[must_use]
    pub fn seen(self) -> Option<SocketAddr> {
        match self {
            Self::Answered(seen) => Some(seen),
            _ => None,
        }
    }

    fn of_error(kind: ErrorKind) -> Option<Self> {
        match kind {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Some(Self::Silence),
            ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::PermissionDenied => Some(Self::Refused),
            _ => None,
        }
    }
}

/// The answer of every server: whom it saw.
fn answer(peer: SocketAddr) -> String {
    format!("seen {peer}\n")
}

/// Reads an [`answer`].
fn parse_answer(text: &[u8]) -> Option<SocketAddr> {
    std::str::from_utf8(text)
        .ok()?
        .trim_end()
        .strip_prefix("seen ")?
        .parse()
        .ok()
}
