//! UDP: a request is one datagram, an answer another.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::{Outcome, SocketOption, TICK, answer, parse_answer, setters};
use crate::lab::Lab;

/// A server that answers every datagram with whom it saw; it serves until it is dropped.
#[derive(Debug)]
pub struct UdpServer {
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl UdpServer {
    /// Starts it in namespace `ns`; bound when this returns.
    ///
    /// # Errors
    /// When the address cannot be bound there.
    pub fn start(lab: &Lab, ns: &str, addr: &str) -> Result<Self> {
        let socket = bound(lab, ns, addr)?;
        let answering = socket
            .try_clone()
            .context("a second handle on the socket")?;
        Ok(Self::serve(socket, answering))
    }

    /// As [`UdpServer::start`], and its answers leave with another address, `from`: what a server
    /// with several does that does not look at whom it was asked as.
    ///
    /// # Errors
    /// When an address cannot be bound there.
    pub fn answering_from(lab: &Lab, ns: &str, addr: &str, from: &str) -> Result<Self> {
        Ok(Self::serve(bound(lab, ns, addr)?, bound(lab, ns, from)?))
    }

    fn serve(asked: UdpSocket, answering: UdpSocket) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serving = thread::spawn(move || {
            let mut datagram = vec![0u8; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((_, peer)) = asked.recv_from(&mut datagram) {
                    // An answer that cannot be sent shows at the client, as silence.
                    let _ = answering.send_to(answer(peer).as_bytes(), peer);
                }
            }
        });
        Self {
            stop,
            serving: Some(serving),
        }
    }
}

fn bound(lab: &Lab, ns: &str, addr: &str) -> Result<UdpSocket> {
    lab.in_ns(ns, || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(addr)?;
        socket.set_read_timeout(Some(TICK))?;
        Ok(socket)
    })?
    .with_context(|| format!("bind udp {addr} in {ns}"))
}

impl Drop for UdpServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// One datagram to be sent, and how long to wait for the answer.
#[derive(Debug, Clone)]
pub struct UdpCall {
    from: String,
    sport: u16,
    to: SocketAddr,
    payload: Vec<u8>,
    patience: Duration,
    answers: usize,
    options: Vec<SocketOption>,
}

setters!(UdpCall);

impl UdpCall {
    /// A datagram from namespace `from` and port `sport` to `to`.
    ///
    /// # Panics
    /// When `to` is no address with a port.
    #[must_use]
    pub fn new(from: &str, sport: u16, to: &str) -> Self {
        Self {
            from: from.to_owned(),
            sport,
            to: to.parse().expect("an address with a port"),
            payload: b"hello".to_vec(),
            patience: Duration::from_secs(5),
            answers: 1,
            options: Vec::new(),
        }
    }

    /// Waiting for so many answers; the last one counts.
    #[must_use]
    pub fn answers(mut self, answers: usize) -> Self {
        self.answers = answers;
        self
    }

    /// Sends it and waits for the answer.
    ///
    /// # Errors
    /// When the lab does not allow it at all. Silence and refusal are outcomes, not errors.
    pub fn run(&self, lab: &Lab) -> Result<Outcome> {
        let asked = lab.in_ns(&self.from, || self.ask())?;
        match asked {
            Ok(Some(seen)) => Ok(Outcome::Answered(seen)),
            Ok(None) => anyhow::bail!("an answer that no lab server gives"),
            Err(error) => match Outcome::of_error(error.kind()) {
                Some(outcome) => Ok(outcome),
                None => {
                    Err(error).with_context(|| format!("udp from {} to {}", self.from, self.to))
                }
            },
        }
    }

    fn ask(&self) -> io::Result<Option<SocketAddr>> {
        let any: IpAddr = if self.to.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = once_free(SocketAddr::new(any, self.sport))?;
        socket.set_read_timeout(Some(self.patience))?;
        for option in &self.options {
            option.set(&socket)?;
        }
        socket.connect(self.to)?;
        socket.send(&self.payload)?;
        let mut seen = None;
        for _ in 0..self.answers {
            let mut text = [0u8; 256];
            let read = socket.recv(&mut text)?;
            seen = parse_answer(&text[..read]);
        }
        Ok(seen)
    }
}

/// A socket at this address. Where another thread is starting a program, that child holds the sockets of
/// calls that have ended until it runs: so it is asked for again while it is taken.
fn once_free(at: SocketAddr) -> io::Result<UdpSocket> {
    let end = Instant::now() + HELD;
    loop {
        match UdpSocket::bind(at) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                thread::yield_now();
            }
            outcome => return outcome,
        }
    }
}

/// No child takes longer to run.
const HELD: Duration = Duration::from_secs(10);
