//! Clients of connection protocols: TCP, MPTCP and SCTP (its one-to-one style) have the same socket calls.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Outcome, SocketOption, parse_answer, setters};
use crate::lab::Lab;

/// How long a client waits unless told otherwise: far longer than any answer takes on one machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which connection protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Plain TCP.
    Tcp,
    /// Multipath TCP.
    Mptcp,
    /// SCTP with one stream socket per association.
    Sctp,
}

impl StreamKind {
    pub(super) fn socket(self, addr: &SocketAddr) -> io::Result<Socket> {
        let protocol = match self {
            Self::Tcp => Protocol::TCP,
            Self::Mptcp => Protocol::MPTCP,
            Self::Sctp => Protocol::SCTP,
        };
        Socket::new(Domain::for_address(*addr), Type::STREAM, Some(protocol))
    }
}

/// A request to be made: who asks whom, with what.
#[derive(Debug, Clone)]
pub struct StreamCall {
    kind: StreamKind,
    from: String,
    sport: u16,
    to: SocketAddr,
    payload: Vec<u8>,
    patience: Duration,
    options: Vec<SocketOption>,
}

setters!(StreamCall);

impl StreamCall {
    /// A TCP request from namespace `from` to `to` (`10.20.30.40:443`, `[fd50::20]:443`) and from port `sport` (0: any).
    ///
    /// # Panics
    /// When `to` is no address with a port.
    #[must_use]
    pub fn new(from: &str, to: &str, sport: u16) -> Self {
        Self {
            kind: StreamKind::Tcp,
            from: from.to_owned(),
            sport,
            to: to.parse().expect("an address with a port"),
            payload: b"hello".to_vec(),
            patience: PATIENCE,
            options: Vec::new(),
        }
    }

    /// By another protocol than TCP.
    #[must_use]
    pub fn kind(mut self, kind: StreamKind) -> Self {
        self.kind = kind;
        self
    }

    /// Connects, sends the payload, waits for the answer and for the far side's close, and closes.
    ///
    /// # Errors
    /// When the lab does not allow it at all. Silence and refusal are outcomes, not errors.
    pub fn run(&self, lab: &Lab) -> Result<Outcome> {
        match self.open(lab)? {
            Ok(stream) => stream.finish(&self.payload),
            Err(outcome) => Ok(outcome),
        }
    }

    /// Connects and keeps the connection. The inner error is why there is none.
    ///
    /// # Errors
    /// When the lab does not allow it at all.
    pub fn open(&self, lab: &Lab) -> Result<Result<Stream, Outcome>> {
        let connected = lab.in_ns(&self.from, || self.connect())?;
        match connected {
            Ok(socket) => Ok(Ok(Stream { socket })),
            Err(error) => match Outcome::of_error(error.kind()) {
                Some(outcome) => Ok(Err(outcome)),
                None => {
                    Err(error).with_context(|| format!("connect from {} to {}", self.from, self.to))
                }
            },
        }
    }

    fn connect(&self) -> io::Result<Socket> {
        let socket = self.kind.socket(&self.to)?;
        socket.set_reuse_address(true)?;
        for option in &self.options {
            option.set(&socket)?;
        }
        let any: IpAddr = if self.to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        socket.bind(&SocketAddr::new(any, self.sport).into())?;
        socket.connect_timeout(&self.to.into(), self.patience)?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_write_timeout(Some(self.patience))?;
        Ok(socket)
    }
}

/// An open connection of a client.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
}

impl Stream {
    /// The client's own address as it sees it.
    ///
    /// # Errors
    /// When the socket has none.
    pub fn local(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()?
            .as_socket()
            .context("a socket without an internet address")
    }

    /// Sends bytes and waits for nothing; the connection stays open.
    ///
    /// # Errors
    /// When the far side does not take them.
    pub fn send(&self, payload: &[u8]) -> Result<()> {
        (&self.socket).write_all(payload).context("send")
    }

    /// Sends a request and waits for the answer; the connection stays open.
    ///
    /// # Errors
    /// When the answer is not one of a lab's servers.
    pub fn ask(&self, payload: &[u8]) -> Result<Outcome> {
        if let Err(error) = (&self.socket).write_all(payload) {
            return Outcome::of_error(error.kind())
                .map_or_else(|| Err(error).context("send the request"), Ok);
        }
        self.read_answer()
    }

    /// Sends a request, waits for the answer and closes in good order: ours first, then the far side's.
    ///
    /// # Errors
    /// When the answer is not one of a lab's servers.
    pub fn finish(self, payload: &[u8]) -> Result<Outcome> {
        let outcome = self.ask(payload)?;
        if matches!(outcome, Outcome::Answered(_)) {
            self.close()?;
        }
        Ok(outcome)
    }

    /// Sends `bytes` bytes, closes our half, and waits for the answer of a server that answers at the end.
    ///
    /// # Errors
    /// When the far side does not take them all.
    pub fn bulk(self, bytes: usize) -> Result<Outcome> {
        let chunk = vec![b'x'; 64 * 1024];
        let mut left = bytes;
        while left > 0 {
            let now = left.min(chunk.len());
            (&self.socket)
                .write_all(&chunk[..now])
                .context("send bulk")?;
            left -= now;
        }
        self.socket
            .shutdown(Shutdown::Write)
            .context("close our half")?;
        self.read_answer()
    }

    /// Closes our half and waits for the far side to close its own.
    ///
    /// # Errors
    /// When the far side does not close.
    pub fn close(self) -> Result<()> {
        self.socket
            .shutdown(Shutdown::Write)
            .context("close our half")?;
        let mut rest = [0u8; 64];
        match (&self.socket).read(&mut rest) {
            Ok(0) => Ok(()),
            // SCTP knows no half-closed state: the association is gone with our shutdown.
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
            Ok(read) => bail!("the far side sent {read} bytes after its answer"),
            Err(error) => Err(error).context("wait for the far side to close"),
        }
    }

    /// Ends the connection at once, by a reset.
    ///
    /// # Errors
    /// When the socket does not take the option that makes it so.
    pub fn reset(self) -> Result<()> {
        self.socket
            .set_linger(Some(Duration::ZERO))
            .context("linger no longer")
    }

    fn read_answer(&self) -> Result<Outcome> {
        let mut text = Vec::new();
        let mut chunk = [0u8; 256];
        while !text.ends_with(b"\n") {
            match (&self.socket).read(&mut chunk) {
                Ok(0) => return Ok(Outcome::Closed),
                Ok(read) => text.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Outcome::of_error(error.kind())
                        .map_or_else(|| Err(error).context("read the answer"), Ok);
                }
            }
        }
        parse_answer(&text)
            .map(Outcome::Answered)
            .context("an answer that no lab server gives")
    }
}
