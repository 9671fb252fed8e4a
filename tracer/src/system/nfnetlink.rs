//! Asking and telling netfilter over netlink.

use super::netlink::messages;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use std::io;

/// `NFNL_SUBSYS_NFTABLES`.
const NFTABLES: u16 = 10;
/// `NFNL_SUBSYS_ULOG`.
pub(super) const ULOG: u16 = 4;
/// `NFNL_MSG_BATCH_BEGIN` and its end.
const BATCH: [u16; 2] = [16, 17];
/// Size of a message's header, and of that with `struct nfgenmsg`.
const HEADER: usize = 16;
const GENERAL: usize = HEADER + 4;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// `enum nf_tables_msg_types`.
pub(super) mod nft {
    pub(crate) const NEW_TABLE: u16 = 0;
    pub(crate) const NEW_CHAIN: u16 = 3;
    pub(crate) const GET_CHAIN: u16 = 4;
    pub(crate) const NEW_RULE: u16 = 6;
    pub(crate) const TRACE: u16 = 17;
}

/// `NFPROTO_INET`.
pub(super) const INET: u8 = 1;

/// Attributes under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    pub(super) fn bytes(mut self, kind: u16, payload: &[u8]) -> Self {
        let len = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(len.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn text(self, kind: u16, text: &str) -> Self {
        self.bytes(kind, &[text.as_bytes(), b"\0"].concat())
    }

    pub(super) fn be32(self, kind: u16, number: u32) -> Self {
        self.bytes(kind, &number.to_be_bytes())
    }

    pub(super) fn nest(self, kind: u16, inner: Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    /// One expression of a rule: `NFTA_LIST_ELEM` {name, data}.
    pub(super) fn expression(self, name: &str, data: Self) -> Self {
        self.nest(1, Self::default().text(1, name).nest(2, data))
    }
}

/// A socket of the namespace of the thread that opens it.
pub(super) struct Nfnetlink {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Nfnetlink {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            buffer: Vec::with_capacity(64 << 10),
            sequence: 0,
        })
    }

    /// Joins a multicast group; from then on reading does not wait.
    pub(super) fn listen(&mut self, group: u32, bytes: usize) -> io::Result<()> {
        self.socket.add_membership(group)?;
        self.receive_up_to(bytes)
    }

    /// Makes room for messages that come unasked; from then on reading does not wait.
    pub(super) fn receive_up_to(&mut self, bytes: usize) -> io::Result<()> {
        // The machine's limit, where that is less, is no error.
        let _ = self.socket.set_rx_buf_sz(bytes);
        self.socket.set_non_blocking(true)
    }

    /// Sends one message and waits for its acknowledgement.
    pub(super) fn ask(
        &mut self,
        kind: u16,
        family: u8,
        resource: u16,
        body: &Attributes,
    ) -> io::Result<()> {
        let question = self.message(kind, NLM_F_REQUEST | NLM_F_ACK, family, resource, body);
        self.socket.send(&question, 0)?;
        loop {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0)?;
            let mut answers = messages(&self.buffer);
            if let Some(answer) = answers.find(|answer| half(answer, 4) == NLMSG_ERROR) {
                return refusal(answer);
            }
        }
    }

    /// Hands over the type and body of each message that waits.
    pub(super) fn drain(&mut self, mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Ok(_) => {
                    for message in messages(&self.buffer) {
                        let kind = half(message, 4);
                        take(kind, message.get(HEADER..).unwrap_or_default());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Asks nftables for everything of a kind.
    pub(super) fn dump(&mut self, what: u16, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let kind = NFTABLES << 8 | what;
        let question = self.message(
            kind,
            NLM_F_REQUEST | NLM_F_DUMP,
            0,
            0,
            &Attributes::default(),
        );
        self.socket.send(&question, 0)?;
        loop {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0)?;
            for message in messages(&self.buffer) {
                match half(message, 4) {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return refusal(message),
                    _ => take(message.get(GENERAL..).unwrap_or_default()),
                }
            }
        }
    }

    /// Has nftables make these objects, all or none: what each is, and its attributes.
    pub(super) fn create(&mut self, family: u8, objects: &[(u16, Attributes)]) -> io::Result<()> {
        let [begin, end] = BATCH;
        let none = Attributes::default();
        let mut batch = self.message(begin, NLM_F_REQUEST, 0, NFTABLES, &none);
        for (what, attributes) in objects {
            let flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK;
            batch.extend(self.message(NFTABLES << 8 | what, flags, family, 0, attributes));
        }
        batch.extend(self.message(end, NLM_F_REQUEST, 0, NFTABLES, &none));
        self.socket.send(&batch, 0)?;
        let mut answered = 0;
        while answered < objects.len() {
            self.buffer.clear();
            self.socket.recv(&mut self.buffer, 0)?;
            for message in messages(&self.buffer) {
                if half(message, 4) == NLMSG_ERROR {
                    refusal(message)?;
                    answered += 1;
                }
            }
        }
        Ok(())
    }

    fn message(
        &mut self,
        kind: u16,
        flags: u16,
        family: u8,
        resource: u16,
        body: &Attributes,
    ) -> Vec<u8> {
        self.sequence += 1;
        let len = u32::try_from(GENERAL + body.0.len()).unwrap_or(u32::MAX);
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend([family, 0]);
        bytes.extend(resource.to_be_bytes());
        bytes.extend(&body.0);
        bytes
    }
}

fn half(message: &[u8], at: usize) -> u16 {
    let bytes = message.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

/// The error in an answer; zero is an acknowledgement.
fn refusal(message: &[u8]) -> io::Result<()> {
    let code = message.get(HEADER..).and_then(|rest| rest.first_chunk());
    match code.map_or(0, |code| i32::from_ne_bytes(*code)) {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}
