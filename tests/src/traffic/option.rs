//! Socket options that have no wrapper of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// One socket option, to be set before anything is sent.
#[derive(Debug, Clone)]
pub struct SocketOption {
    level: i32,
    name: i32,
    value: Vec<u8>,
}

impl SocketOption {
    /// The first packet of a connection carries the first data (TCP fast open).
    #[must_use]
    pub fn data_in_syn() -> Self {
        Self::number(libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
    }

    /// What is sent at once leaves as datagrams of so many bytes, cut by the kernel as late as it can (UDP GSO).
    #[must_use]
    pub fn datagrams_of(bytes: i32) -> Self {
        Self::number(libc::SOL_UDP, libc::UDP_SEGMENT, bytes)
    }

    /// IPv4 packets that so many routers let pass, less one.
    #[must_use]
    pub fn ttl(hops: i32) -> Self {
        Self::number(libc::IPPROTO_IP, libc::IP_TTL, hops)
    }

    /// An IPv4 header with options (three times "no operation", and the end).
    #[must_use]
    pub fn ipv4_options() -> Self {
        Self {
            level: libc::IPPROTO_IP,
            name: libc::IP_OPTIONS,
            value: vec![1, 1, 1, 0],
        }
    }

    /// An IPv6 destination options header of eight bytes of padding before the transport header.
    #[must_use]
    pub fn ipv6_destination_options() -> Self {
        Self {
            level: libc::IPPROTO_IPV6,
            name: libc::IPV6_DSTOPTS,
            value: vec![0, 0, 1, 4, 0, 0, 0, 0],
        }
    }

    fn number(level: i32, name: i32, value: i32) -> Self {
        Self {
            level,
            name,
            value: value.to_ne_bytes().to_vec(),
        }
    }

    /// Sets it.
    pub(super) fn set(&self, socket: &impl AsFd) -> io::Result<()> {
        // SAFETY: the value is valid for the length given, and setsockopt does not keep it.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                self.level,
                self.name,
                self.value.as_ptr().cast(),
                self.value.len() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
