//! A socket to netfilter's netlink, as far as listening needs one.

use anyhow::{Context as _, Result, bail};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{ErrorKind, Read as _, Write as _};
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd as _;

/// Room for so many bytes of messages between two looks.
const QUEUE: libc::c_int = 32 << 20;
/// `struct nlmsghdr` {len u32, type u16, flags u16, sequence u32, port u32}.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const ASK: u16 = 5;

#[derive(Debug)]
pub(super) struct Netlink(Socket);

impl Netlink {
    /// Opens a socket in the calling thread's namespace.
    pub(super) fn open() -> Result<Self> {
        let socket = Socket::new(
            Domain::from(libc::AF_NETLINK),
            Type::RAW,
            Some(Protocol::from(libc::NETLINK_NETFILTER)),
        )
        .context("open a netlink socket")?;
        socket.set_nonblocking(true)?;
        let this = Self(socket);
        this.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUE)?;
        this.bind()?;
        Ok(this)
    }

    /// Takes an address: without one, nothing that is sent to groups comes.
    fn bind(&self) -> Result<()> {
        // SAFETY: all zero bytes are a valid sockaddr_nl; its address is then the kernel's choice.
        let mut at: libc::sockaddr_nl = unsafe { zeroed() };
        at.nl_family = libc::AF_NETLINK as u16;
        // SAFETY: the address is valid for the length given, and bind does not keep it.
        let bound = unsafe {
            libc::bind(
                self.0.as_raw_fd(),
                (&raw const at).cast(),
                size_of::<libc::sockaddr_nl>() as libc::socklen_t,
            )
        };
        if bound < 0 {
            return Err(std::io::Error::last_os_error()).context("bind the netlink socket");
        }
        Ok(())
    }

    /// Joins a multicast group.
    pub(super) fn join(&self, group: libc::c_int) -> Result<()> {
        self.set(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)
    }

    fn set(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Result<()> {
        // SAFETY: the value is valid for the size given, and setsockopt does not keep it.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if set < 0 {
            return Err(std::io::Error::last_os_error()).context("set up the netlink socket");
        }
        Ok(())
    }

    /// Sends one request and waits for its acknowledgement.
    pub(super) fn ask(&mut self, kind: u16, body: &[u8]) -> Result<()> {
        let length = u32::try_from(HEADER + body.len())?;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(ASK.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        self.0.write_all(&message).context("ask netfilter")?;
        let mut answer = None;
        while answer.is_none() {
            self.drain(|kind, body| {
                let error = body.first_chunk().map(|error| i32::from_ne_bytes(*error));
                answer = answer.or(error.filter(|_| kind == NLMSG_ERROR));
            })?;
        }
        match answer {
            Some(0) => Ok(()),
            Some(error) => bail!(
                "netfilter refuses: {}",
                std::io::Error::from_raw_os_error(-error)
            ),
            None => Ok(()),
        }
    }

    /// Hands over type and body of each message that came in.
    pub(super) fn drain(&mut self, mut take: impl FnMut(u16, &[u8])) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        loop {
            let length = match self.0.read(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("messages of the trace were lost"),
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while let Some(header) = rest.first_chunk::<HEADER>() {
                let [a, b, c, d, e, f, ..] = *header;
                let length = u32::from_ne_bytes([a, b, c, d]) as usize;
                let Some(body) = rest.get(HEADER..length) else {
                    break;
                };
                take(u16::from_ne_bytes([e, f]), body);
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// A netlink attribute, padded.
pub(super) fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ((payload.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
