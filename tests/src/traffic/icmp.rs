//! ICMP and ICMPv6 echo by raw socket, so that the identifier is ours to choose.

use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use socket2::{Domain, Protocol, Socket, Type};

use crate::lab::Lab;

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_6: u8 = 128;
const ECHO_REPLY_6: u8 = 129;
/// Bytes of an echo message before its payload.
const HEADER: usize = 8;

/// Sends one echo request with the given identifier from namespace `from` and waits for its reply.
/// Returns whether the reply came within `patience`.
///
/// # Errors
/// When the lab does not allow it at all (no route, no permission).
pub fn ping(lab: &Lab, from: &str, to: &str, id: u16, patience: Duration) -> Result<bool> {
    let to: IpAddr = to.parse().with_context(|| format!("ping address {to}"))?;
    lab.in_ns(from, || echo(to, id, patience))?
        .with_context(|| format!("ping from {from} to {to}"))
}

fn echo(to: IpAddr, id: u16, patience: Duration) -> io::Result<bool> {
    let (domain, protocol, request, reply) = match to {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, ECHO_REQUEST, ECHO_REPLY),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, ECHO_REQUEST_6, ECHO_REPLY_6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.send_to(&message(request, id), &SocketAddr::new(to, 0).into())?;
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left))?;
        let mut packet = [0u8; 1500];
        match (&socket).read(&mut packet) {
            Ok(read) if is_reply(icmp_part(to, &packet[..read]), reply, id) => return Ok(true),
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
    }
}

/// An echo message with sequence number 1. The kernel fills in the checksum of ICMPv6 itself.
pub(super) fn message(kind: u8, id: u16) -> Vec<u8> {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&1u16.to_be_bytes());
    bytes.extend_from_slice(b"srctrace lab echo payload 012345");
    if kind == ECHO_REQUEST {
        let sum = checksum(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

/// A raw IPv4 socket gives the IP header too, an IPv6 one does not.
fn icmp_part(to: IpAddr, packet: &[u8]) -> &[u8] {
    let skip = match (to, packet.first()) {
        (IpAddr::V4(_), Some(first)) => usize::from(first & 0x0f) * 4,
        _ => 0,
    };
    packet.get(skip..).unwrap_or_default()
}

fn is_reply(message: &[u8], kind: u8, id: u16) -> bool {
    message.len() >= HEADER && message[0] == kind && message[4..6] == id.to_be_bytes()
}

/// The internet checksum (RFC 1071).
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| {
            u32::from(u16::from_be_bytes([
                pair[0],
                pair.get(1).copied().unwrap_or(0),
            ]))
        })
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
