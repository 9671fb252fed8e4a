//! A tun device whose other end is this test, as a VPN server's is the server.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::icmp::{checksum, message};
use crate::lab::Lab;

const PATIENCE: Duration = Duration::from_secs(10);
const ECHO_REQUEST: u8 = 8;
const IP_HEADER: usize = 20;

/// The program's end of a tun device. The device is gone when it is dropped.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// Makes a device in a namespace.
    ///
    /// # Errors
    /// When there is no /dev/net/tun, or the kernel refuses.
    pub fn open(lab: &Lab, ns: &str, ifname: &str) -> Result<Self> {
        lab.in_ns(ns, || -> Result<Self> {
            let file = File::options()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
                .context("open /dev/net/tun")?;
            // SAFETY: all zero bytes are a valid ifreq.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            ensure!(
                ifname.len() < request.ifr_name.len(),
                "{ifname} is too long"
            );
            for (to, from) in request.ifr_name.iter_mut().zip(ifname.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
            // SAFETY: the descriptor is open, and the request lives during the call.
            let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
            ensure!(
                made == 0,
                "make {ifname}: {}",
                std::io::Error::last_os_error()
            );
            Ok(Self(file))
        })?
    }

    /// A client behind the device sends an echo request; gives the source and destination of the answer that comes back to it.
    ///
    /// # Errors
    /// When none does.
    pub fn echo(&self, from: &str, to: &str, id: u16) -> Result<(String, String)> {
        let packet = packet(from.parse()?, to.parse()?, &message(ECHO_REQUEST, id));
        (&self.0)
            .write_all(&packet)
            .context("write to the tun device")?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(100u8)).context("wait for the tun device")?;
            if !fds[0].any().unwrap_or(false) {
                continue;
            }
            let mut got = [0; 2048];
            let read = (&self.0)
                .read(&mut got)
                .context("read from the tun device")?;
            // The device has neighbours to look for, too: only ICMP counts.
            if read > IP_HEADER && got[0] == 0x45 && got[9] == 1 {
                let addr =
                    |at: usize| Ipv4Addr::new(got[at], got[at + 1], got[at + 2], got[at + 3]);
                return Ok((addr(12).to_string(), addr(16).to_string()));
            }
        }
        bail!("no answer to {from} by the tun device within {PATIENCE:?}")
    }
}

/// An IPv4 packet with an ICMP message.
fn packet(from: Ipv4Addr, to: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let length = (IP_HEADER + message.len()) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0x12, 0x34, 0x40, 0, 64, 1, 0, 0]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    let sum = checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(message);
    bytes
}
