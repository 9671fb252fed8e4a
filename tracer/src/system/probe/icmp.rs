//! Echo request and reply, by a ping socket where the namespace allows it to our group, else by
//! a raw one.

use super::PAYLOAD;
use super::socket::socket;
use rustix::net::{SendFlags, SocketType, getsockname, ipproto, send};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

const SEQUENCE: u16 = 1;

/// An echo request.
pub(super) struct Echo {
    to: IpAddr,
    id: u16,
    raw: bool,
}

impl Echo {
    /// Makes the socket in the thread's namespace.
    pub(super) fn open(to: IpAddr) -> io::Result<(Self, OwnedFd)> {
        let protocol = match to {
            IpAddr::V4(_) => ipproto::ICMP,
            IpAddr::V6(_) => ipproto::ICMPV6,
        };
        let open = |kind| socket(SocketAddr::new(to, 0), kind, Some(protocol));
        let (fd, raw) = match open(SocketType::DGRAM) {
            Ok(fd) => (fd, false),
            Err(_) => (open(SocketType::RAW)?, true),
        };
        let id = u16::try_from(std::process::id() & 0xffff).unwrap_or(1);
        Ok((Self { to, id, raw }, fd))
    }

    /// Sends it on the connected socket.
    pub(super) fn send(&mut self, fd: &OwnedFd) -> io::Result<()> {
        send(fd, &message(self.to, self.id), SendFlags::NOSIGNAL)?;
        // The kernel chooses a ping socket's id itself, and tells it as the port.
        if !self.raw {
            self.id = SocketAddr::try_from(getsockname(fd)?)?.port();
        }
        Ok(())
    }

    /// The echo id on the wire.
    pub(super) fn id(&self) -> u16 {
        self.id
    }

    /// Whether a message that was received is the reply to this request.
    pub(super) fn is_answer(&self, message: &[u8]) -> bool {
        is_reply(message, self.to, self.id, self.raw && self.to.is_ipv4())
    }
}

/// Types of request and reply.
fn types(to: IpAddr) -> (u8, u8) {
    match to {
        IpAddr::V4(_) => (8, 0),
        IpAddr::V6(_) => (128, 129),
    }
}

/// An echo request. The kernel fills in ICMPv6's checksum, which covers addresses.
fn message(to: IpAddr, id: u16) -> Vec<u8> {
    let mut message = vec![types(to).0, 0, 0, 0];
    message.extend(id.to_be_bytes());
    message.extend(SEQUENCE.to_be_bytes());
    message.extend(PAYLOAD);
    if to.is_ipv4() {
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

/// Whether a received message is the echo reply with our id and sequence.
fn is_reply(received: &[u8], to: IpAddr, id: u16, with_header: bool) -> bool {
    let header = match (with_header, received.first()) {
        (false, _) => 0,
        (true, Some(first)) => usize::from(first & 0x0f) * 4,
        (true, None) => return false,
    };
    match received.get(header..) {
        Some([kind, _, _, _, a, b, c, d, ..]) => {
            *kind == types(to).1
                && u16::from_be_bytes([*a, *b]) == id
                && u16::from_be_bytes([*c, *d]) == SEQUENCE
        }
        _ => false,
    }
}

#[cfg(test)]
mod wire_tests {
    use super::*;

    const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_request_sums_to_nothing_and_is_no_reply() {
        let request = message(V4, 0x1234);
        assert_eq!(checksum(&request), 0);
        assert!(!is_reply(&request, V4, 0x1234, false));
    }

    #[test]
    fn replies_are_known_by_type_id_and_sequence() {
        let mut reply = message(V4, 7);
        reply[0] = 0;
        assert!(is_reply(&reply, V4, 7, false));
        assert!(!is_reply(&reply, V4, 8, false));
        let mut with_header = vec![0x46; 24];
        with_header.extend(&reply);
        assert!(is_reply(&with_header, V4, 7, true));
        for cut in 0..8 {
            assert!(!is_reply(&reply[..cut], V4, 7, false));
            assert!(!is_reply(&with_header[..cut], V4, 7, true));
        }
    }
}
