//! The node's own sockets: what arrives there, and from whom.

use super::packets::Arrival;
use super::words::PORTS;
use crate::lab::Lab;
use anyhow::{Context as _, Result};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// UDP sockets that never answer.
#[derive(Debug)]
pub(super) struct Server(Vec<UdpSocket>);

impl Server {
    pub(super) fn new(lab: &Lab, ns: &str, six: bool) -> Result<Self> {
        let any: IpAddr = if six {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        let bind = |port: &u16| -> Result<UdpSocket> {
            let socket = UdpSocket::bind((any, *port))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let sockets = lab.in_ns(ns, || PORTS.iter().map(bind).collect::<Result<_>>())?;
        Ok(Self(sockets.context("bind the node's sockets")?))
    }

    /// Everything that has arrived. A probe's number is its payload; whom it was sent to is not told.
    pub(super) fn drain(&self, seen: &mut Vec<Arrival>) -> Result<()> {
        for socket in &self.0 {
            loop {
                let mut id = [0; 2];
                match socket.recv_from(&mut id) {
                    Ok((_, from)) => seen.push(Arrival {
                        id: u16::from_be_bytes(id),
                        src: from.ip(),
                        dst: None,
                    }),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error).context("receive at the node"),
                }
            }
        }
        Ok(())
    }
}
