//! Raw Ethernet frames, for packets that no honest stack would send.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};
use nix::net::if_::if_nametoindex;

use crate::lab::Lab;

/// Sends whole frames (from the destination address on) out of an interface, one after another.
///
/// # Errors
/// When the interface is not there or takes no frame of that length.
pub fn send_frames(lab: &Lab, ns: &str, ifname: &str, frames: &[Vec<u8>]) -> Result<()> {
    lab.in_ns(ns, || -> Result<()> {
        let index = if_nametoindex(ifname).with_context(|| format!("the index of {ifname}"))?;
        let socket = packet_socket().context("open a packet socket")?;
        for frame in frames {
            send(&socket, i32::try_from(index)?, frame)
                .with_context(|| format!("send {frame:02x?}"))?;
        }
        Ok(())
    })?
}

fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn send(socket: &OwnedFd, index: i32, frame: &[u8]) -> io::Result<()> {
    // SAFETY: all zero bytes are a valid sockaddr_ll.
    let mut to: libc::sockaddr_ll = unsafe { zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = index;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: frame and address are valid for the lengths given, and sendto keeps neither.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const to).cast(),
            length,
        )
    };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
