//! The packet log, to which iptables-legacy's part of the rule trace goes.
//!
//! Binding to it replaces the namespace's logger of packets; closing the socket does not put the
//! former one back. So the former one's name is read before, and whoever binds sees to it that
//! [`restore`] is called, however the run ends.

use super::SystemError;
use super::netns::{Netns, visit};
use super::nfnetlink::{Attributes, Nfnetlink, ULOG};
use std::io;

/// Address families of which packets are logged, as the kernel's files are called.
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// Traces always go to this group.
const GROUP: u16 = 0;
/// `NFULNL_MSG_CONFIG`, and `NFULNL_MSG_PACKET` with its subsystem.
const CONFIG: u16 = ULOG << 8 | 1;
const PACKET: u16 = ULOG << 8;
/// `NFULNL_CFG_CMD_BIND`, `NFULNL_CFG_CMD_PF_BIND`.
const BIND: u8 = 1;
const PF_BIND: u8 = 3;
/// `NFULNL_COPY_PACKET`, and how much of it: headers.
const COPY: u8 = 2;
const LENGTH: u32 = 128;
/// Room for so many bytes of messages between two looks.
const BUFFER: usize = 8 << 20;

fn file(family: u8) -> String {
    format!("/proc/sys/net/netfilter/nf_log/{family}")
}

/// The loggers of a namespace, one for each family, as [`restore`] takes them.
///
/// # Errors
/// When the namespace is gone or the kernel does not tell.
pub fn loggers(netns: &Netns) -> Result<String, SystemError> {
    visit(netns, || {
        let names = FAMILIES.map(|family| {
            let name = std::fs::read_to_string(file(family))
                .map_err(|e| SystemError::os("read", file(family), e))?;
            Ok(name.trim().to_owned())
        });
        let [four, six] = names;
        Ok(format!("{},{}", four?, six?))
    })
}

/// Puts loggers back in the calling process's namespace.
///
/// # Errors
/// When the kernel refuses.
pub fn restore(loggers: &str) -> io::Result<()> {
    for (family, name) in FAMILIES.iter().zip(loggers.split(',')) {
        std::fs::write(file(*family), name)?;
    }
    Ok(())
}

/// Listens to a namespace's packet log.
pub struct Nflog(Nfnetlink);

impl Nflog {
    /// Replaces the namespace's loggers. The socket keeps the namespace: for the node's own only.
    ///
    /// # Errors
    /// When someone else listens to that group already, or the kernel refuses.
    pub fn start(netns: &Netns) -> Result<Self, SystemError> {
        visit(netns, || {
            let failed = |e: io::Error| {
                SystemError::os(
                    "bind to",
                    "the packet log (does a ulogd listen to group 0?)",
                    e,
                )
            };
            let mut socket = Nfnetlink::open().map_err(failed)?;
            bind(&mut socket).map_err(failed)?;
            socket.receive_up_to(BUFFER).map_err(failed)?;
            Ok(Self(socket))
        })
    }

    /// Hands over the body of each message that came in.
    ///
    /// # Errors
    /// When messages were lost, or the socket fails.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        self.0.drain(|kind, body| {
            if kind == PACKET {
                take(body);
            }
        })
    }
}

fn bind(socket: &mut Nfnetlink) -> io::Result<()> {
    let new = Attributes::default;
    let group = libc::AF_UNSPEC as u8;
    socket.ask(CONFIG, group, GROUP, &new().bytes(1, &[BIND]))?;
    let [a, b, c, d] = LENGTH.to_be_bytes();
    let mode = new().bytes(2, &[a, b, c, d, COPY, 0]);
    socket.ask(CONFIG, group, GROUP, &mode.be32(5, 1))?; // each message at once
    for family in FAMILIES {
        socket.ask(CONFIG, family, 0, &new().bytes(1, &[PF_BIND]))?;
    }
    Ok(())
}
