//! Pairs of netkit devices (6.7), which Debian 12's `ip` cannot make.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use anyhow::{Context as _, Result};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoNetkit, LinkAttribute, LinkInfo, LinkMessage, NetkitMode,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::netns;

/// What a pair carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Ethernet, with addresses and ARP.
    L2,
    /// No neighbours: what one end sends, the other gets.
    L3,
}

/// A pair to be made: an end is a namespace's full name and the interface's name there.
#[derive(Debug)]
pub(super) struct Netkit {
    pub mode: Mode,
    /// The end that may have programs.
    pub first: (String, String),
    pub second: (String, String),
}

impl Netkit {
    /// Makes it; both ends are down.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(super) fn create(&self) -> Result<()> {
        let spaces = [&self.first.0, &self.second.0].map(|name| {
            let path = netns::path(name);
            File::open(&path).with_context(|| format!("open namespace {}", path.display()))
        });
        let [first, second] = spaces;
        let (first, second) = (first?, second?);
        let mode = match self.mode {
            Mode::L2 => NetkitMode::L2,
            Mode::L3 => NetkitMode::L3,
        };
        let data = vec![
            InfoNetkit::Mode(mode),
            InfoNetkit::Peer(end(&self.second.1, &second)),
        ];
        let mut message = end(&self.first.1, &first);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Netkit),
            LinkInfo::Data(InfoData::Netkit(data)),
        ]));
        ask(RouteNetlinkMessage::NewLink(message)).with_context(|| format!("make {self:?}"))
    }
}

fn end(name: &str, netns: &File) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::NetNsFd(netns.as_raw_fd()),
    ];
    message
}

/// Sends one request to make something and waits for the kernel's word on it.
fn ask(request: RouteNetlinkMessage) -> Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)?;
    match answer.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io().into()),
        _ => Ok(()),
    }
}
