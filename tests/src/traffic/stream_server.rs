//! Servers of connection protocols, with the manners that scenarios need.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context as _, Result};
use socket2::Socket;

use super::{StreamKind, TICK, answer};
use crate::lab::Lab;

/// Connections that may wait to be accepted; more than the largest lab opens at once.
const BACKLOG: i32 = 4096;
/// A connection's thread needs next to nothing.
const STACK: usize = 64 * 1024;

/// What a server does with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers every chunk it reads with whom it sees, until the client closes.
    Answer,
    /// Reads everything until the client closes its half, then answers once.
    AnswerAtEnd,
    /// Reads and says nothing, ever.
    Silent,
    /// Closes as soon as the first data has come.
    CloseAfterFirstData,
}

/// A listening server; it serves until it is dropped.
#[derive(Debug)]
pub struct StreamServer {
    stop: Arc<AtomicBool>,
    listener: Arc<Socket>,
    open: Arc<Mutex<Vec<Arc<Socket>>>>,
    seen: Arc<Mutex<Vec<SocketAddr>>>,
    accepting: Option<JoinHandle<()>>,
}

impl StreamServer {
    /// A TCP server in namespace `ns`, listening when this returns.
    ///
    /// # Errors
    /// When the address cannot be bound there.
    pub fn start(lab: &Lab, ns: &str, addr: &str, behaviour: Behaviour) -> Result<Self> {
        Self::start_kind(lab, ns, addr, behaviour, StreamKind::Tcp)
    }

    /// A server of another connection protocol.
    ///
    /// # Errors
    /// When the address cannot be bound there, or the kernel lacks the protocol.
    pub fn start_kind(
        lab: &Lab,
        ns: &str,
        addr: &str,
        behaviour: Behaviour,
        kind: StreamKind,
    ) -> Result<Self> {
        let addr: SocketAddr = addr
            .parse()
            .with_context(|| format!("server address {addr}"))?;
        let listener = lab
            .in_ns(ns, || -> std::io::Result<Socket> {
                let socket = kind.socket(&addr)?;
                socket.set_reuse_address(true)?;
                socket.bind(&addr.into())?;
                socket.listen(BACKLOG)?;
                socket.set_read_timeout(Some(TICK))?;
                Ok(socket)
            })?
            .with_context(|| format!("listen on {addr} in {ns}"))?;
        let listener = Arc::new(listener);
        let stop = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let accepts = Accepting {
            listener: Arc::clone(&listener),
            stop: Arc::clone(&stop),
            open: Arc::clone(&open),
            seen: Arc::clone(&seen),
            behaviour,
        };
        let accepting = Builder::new()
            .stack_size(STACK)
            .spawn(move || accepts.run())
            .context("start the server's thread")?;
        Ok(Self {
            stop,
            listener,
            open,
            seen,
            accepting: Some(accepting),
        })
    }

    /// Every source address that connected, in the order of arrival.
    #[must_use]
    pub fn seen(&self) -> Vec<SocketAddr> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // This wakes a TCP or MPTCP listener at once; SCTP's refuses it and wakes at its next tick.
        let _ = self.listener.shutdown(Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for socket in self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// What the accepting thread shares with the server.
struct Accepting {
    listener: Arc<Socket>,
    stop: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<Arc<Socket>>>>,
    seen: Arc<Mutex<Vec<SocketAddr>>>,
    behaviour: Behaviour,
}

impl Accepting {
    fn run(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((socket, peer)) => self.serve(socket, peer.as_socket()),
                // A tick without a client, or one that went away before it was accepted.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => return,
            }
        }
    }

    /// Gives the connection a thread of its own.
    fn serve(&self, socket: Socket, peer: Option<SocketAddr>) {
        // The socket inherits the listener's tick.
        let (Some(peer), Ok(())) = (peer, socket.set_read_timeout(None)) else {
            return;
        };
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(peer);
        let socket = Arc::new(socket);
        let (serving, behaviour) = (Arc::clone(&socket), self.behaviour);
        let spawned = Builder::new()
            .stack_size(STACK)
            .spawn(move || serve(&serving, peer, behaviour));
        if spawned.is_ok() {
            self.open
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(socket);
        }
    }
}

/// Serves one connection. A client that vanishes ends it; that is the client's business.
fn serve(socket: &Socket, peer: SocketAddr, behaviour: Behaviour) {
    let mut stream = socket;
    let mut chunk = [0u8; 16 * 1024];
    while let Ok(read) = stream.read(&mut chunk) {
        let answer_now = match behaviour {
            Behaviour::Answer => read > 0,
            Behaviour::AnswerAtEnd => read == 0,
            Behaviour::Silent | Behaviour::CloseAfterFirstData => false,
        };
        if answer_now && stream.write_all(answer(peer).as_bytes()).is_err() {
            break;
        }
        if read == 0 || behaviour == Behaviour::CloseAfterFirstData {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
}
