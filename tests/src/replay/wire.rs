//! Sending whole packets, and seeing what arrives.

use super::packets::Arrival;
use crate::lab::Lab;
use anyhow::{Context as _, Result};
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;

/// Packets sent and not yet seen, at most: the peer's queue must hold them.
const QUEUE: usize = 4 << 20;

/// A raw socket that sends whole packets, headers included.
#[derive(Debug)]
pub(super) struct Sender(Socket);

impl Sender {
    pub(super) fn new(lab: &Lab, ns: &str, six: bool) -> Result<Self> {
        let socket = lab.in_ns(ns, || {
            // Protocol IPPROTO_RAW: the header is the caller's.
            Socket::new(
                if six { Domain::IPV6 } else { Domain::IPV4 },
                Type::RAW,
                Some(Protocol::from(libc::IPPROTO_RAW)),
            )
        })?;
        Ok(Self(socket.context("open a raw socket")?))
    }

    /// Sends one. A local drop is told as an error, which is no failure here.
    pub(super) fn send(&self, dst: IpAddr, packet: &[u8]) -> Result<()> {
        match self.0.send_to(packet, &SocketAddr::new(dst, 0).into()) {
            Err(e) if e.kind() == ErrorKind::PermissionDenied => Ok(()),
            sent => sent.map(drop).with_context(|| format!("send to {dst}")),
        }
    }
}

/// A packet socket on the peer's device.
#[derive(Debug)]
pub(super) struct Receiver(Socket);

impl Receiver {
    pub(super) fn new(lab: &Lab, ns: &str, ifname: &str, six: bool) -> Result<Self> {
        let socket = lab.in_ns(ns, || -> Result<Socket> {
            let index = i32::try_from(if_nametoindex(ifname)?)?;
            let kind = if six {
                libc::ETH_P_IPV6
            } else {
                libc::ETH_P_IP
            };
            let all = u16::to_be(kind as u16);
            let kind = Protocol::from(i32::from(all));
            let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(kind))?;
            bind(&socket, index, all)?;
            socket.set_recv_buffer_size(QUEUE)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?;
        Ok(Self(socket.context("open a packet socket")?))
    }

    /// Everything that has arrived.
    pub(super) fn drain(&self, seen: &mut Vec<Arrival>) -> Result<()> {
        let mut buffer = [0u8; 256];
        loop {
            // SAFETY: the buffer is valid for its length, and recv does not keep it.
            let got = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            match usize::try_from(got) {
                Ok(length) => seen.extend(Arrival::read(&buffer[..length])),
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    return match error.kind() {
                        ErrorKind::WouldBlock => Ok(()),
                        _ => Err(error).context("receive"),
                    };
                }
            }
        }
    }
}

fn bind(socket: &Socket, index: i32, protocol: u16) -> Result<()> {
    // SAFETY: all zero bytes are a valid sockaddr_ll.
    let mut at: libc::sockaddr_ll = unsafe { zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = protocol;
    at.sll_ifindex = index;
    // SAFETY: the address is valid for the length given, and bind does not keep it.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const at).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound < 0 {
        return Err(std::io::Error::last_os_error()).context("bind to the device");
    }
    Ok(())
}
