//! Asking the kernel over netlink: one socket, one question, all answers.

use super::SystemError;
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::ops::ControlFlow;

/// More than the kernel puts into one answer (32 KiB).
const BUFFER: usize = 64 << 10;

/// Size of a message's header, bytes.
const HEADER: usize = 16;

/// A blocking netlink socket in the namespace of the thread that opens it. Close it soon.
pub(super) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel has no rtnetlink for us.
    pub(super) fn open() -> Result<Self, SystemError> {
        Self::of(NETLINK_ROUTE).map_err(|e| SystemError::os("open", "rtnetlink", e))
    }

    /// Opens a socket for netfilter's messages in the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel has no netfilter netlink for us.
    pub(super) fn open_netfilter() -> Result<Self, SystemError> {
        Self::of(NETLINK_NETFILTER).map_err(|e| SystemError::os("open", "netfilter netlink", e))
    }

    fn of(protocol: isize) -> io::Result<Self> {
        Ok(Self {
            socket: connected(protocol)?,
            buffer: Vec::with_capacity(BUFFER),
            sequence: 0,
        })
    }

    /// Asks for everything of a kind and hands over each answer until `take` breaks off, after
    /// which the socket is of no more use. Answers that cannot be decoded are left out.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn dump(
        &mut self,
        question: RouteNetlinkMessage,
        mut take: impl FnMut(RouteNetlinkMessage) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.send(question, NLM_F_REQUEST | NLM_F_DUMP)?;
        while !self.receive(&mut take)? {}
        Ok(())
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// The kernel's refusal; "not found" is one.
    pub(super) fn get(
        &mut self,
        question: RouteNetlinkMessage,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        self.send(question, NLM_F_REQUEST)?;
        let mut answer = None;
        let mut take = |message| {
            answer = Some(message);
            ControlFlow::Break(())
        };
        while !self.receive(&mut take)? {}
        Ok(answer)
    }

    /// Sends one message that is built elsewhere and hands over the type and body of each answer,
    /// as the kernel sent them: nothing is left out because it cannot be decoded. Needs
    /// `NLM_F_DUMP` or `NLM_F_ACK` in `flags`, or there is no end to wait for.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn raw(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut take: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(HEADER + body.len()).map_err(io::Error::other)?;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        self.socket.send(&bytes, 0)?;
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(_) if read_raw(&self.buffer, self.sequence, &mut take)? => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    /// Takes one datagram of answers; whether it was the last.
    fn receive(
        &mut self,
        take: &mut impl FnMut(RouteNetlinkMessage) -> ControlFlow<()>,
    ) -> io::Result<bool> {
        self.buffer.clear();
        match self.socket.recv(&mut self.buffer, 0) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(e) => Err(e),
            Ok(_) => read(&self.buffer, self.sequence, take),
        }
    }

    fn send(&mut self, question: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }
}

fn connected(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Lets the kernel filter dumps (routes by table) and refuse what it does not understand.
    socket.set_netlink_get_strict_chk(true)?;
    Ok(socket)
}

/// Reads one datagram of answers; whether it was the last, or enough.
fn read(
    datagram: &[u8],
    sequence: u32,
    take: &mut impl FnMut(RouteNetlinkMessage) -> ControlFlow<()>,
) -> io::Result<bool> {
    for bytes in messages(datagram) {
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) else {
            continue;
        };
        if message.header.sequence_number != sequence {
            continue;
        }
        match message.payload {
            NetlinkPayload::Done(done) if done.code < 0 => {
                return Err(io::Error::from_raw_os_error(-done.code));
            }
            NetlinkPayload::Error(e) if e.code.is_some() => return Err(e.to_io()),
            NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(true),
            NetlinkPayload::InnerMessage(inner) => {
                let ControlFlow::Continue(()) = take(inner) else {
                    return Ok(true);
                };
            }
            _ => {}
        }
    }
    Ok(false)
}

/// As [`read`], but for undecoded answers.
fn read_raw(datagram: &[u8], sequence: u32, take: &mut impl FnMut(u16, &[u8])) -> io::Result<bool> {
    for bytes in messages(datagram) {
        let Ok(message) = NetlinkBuffer::new_checked(bytes) else {
            continue;
        };
        if message.sequence_number() != sequence {
            continue;
        }
        let body = bytes.get(HEADER..).unwrap_or_default();
        if !matches!(message.message_type(), NLMSG_ERROR | NLMSG_DONE) {
            take(message.message_type(), body);
            continue;
        }
        let code = body
            .first_chunk()
            .map_or(0, |code| i32::from_ne_bytes(*code));
        return match code {
            0.. => Ok(true),
            refused => Err(io::Error::from_raw_os_error(refused.saturating_neg())),
        };
    }
    Ok(false)
}

/// The messages of one datagram, each with its header.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let header = NetlinkBuffer::new_checked(rest).ok()?;
        let length = usize::try_from(header.length()).ok()?;
        let (message, _) = rest.split_at_checked(length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_split_and_lying_lengths_end_them() {
        let mut two = vec![20, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        two.extend([16, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let lengths = |bytes: &[u8]| messages(bytes).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&two), [20, 16]);
        for (lie, expected) in [(0, 0), (15, 0), (37, 0), (255, 0), (36, 1)] {
            two[0] = lie;
            assert_eq!(lengths(&two).len(), expected, "{lie}");
        }
        for cut in 0..16 {
            assert_eq!(lengths(&two[..cut]), [0; 0]);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_datagram_is_read_without_harm(bytes: Vec<u8>) {
            let mut count = 0;
            let _ = read(&bytes, 0, &mut |_| {
                count += 1;
                ControlFlow::Continue(())
            });
            proptest::prop_assert!(count <= bytes.len() / 16);
        }
    }
}
