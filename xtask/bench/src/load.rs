//! New connections at a given rate: each is opened, asks, is answered and closed in good order.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::socket::{Shutdown, shutdown};
use srctrace_tests::lab::Lab;

use crate::lab::PEER;

/// Each has a thread, so that one connection in trouble does not hold up all.
const PORTS: std::ops::Range<u16> = 9000..9016;
/// Clients that connect in turn.
const CLIENTS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

/// The peer's side.
pub(crate) struct Server {
    listeners: Vec<Arc<TcpListener>>,
    threads: Vec<JoinHandle<()>>,
    served: Arc<AtomicU64>,
}

impl Server {
    /// Listens on the peer.
    ///
    /// # Errors
    /// When a port cannot be had.
    pub(crate) fn start(lab: &Lab) -> Result<Self> {
        let mut server = Self {
            listeners: Vec::new(),
            threads: Vec::new(),
            served: Arc::default(),
        };
        for port in PORTS {
            let listener = lab
                .in_ns("peer", || TcpListener::bind((PEER, port)))?
                .with_context(|| format!("listen on {PEER}:{port}"))?;
            let listener = Arc::new(listener);
            server.listeners.push(Arc::clone(&listener));
            let served = Arc::clone(&server.served);
            server.threads.push(thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    if answer(stream).is_ok() {
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }));
        }
        Ok(server)
    }

    /// Stops, and says how many connections were served to their end.
    pub(crate) fn stop(mut self) -> u64 {
        for listener in &self.listeners {
            // Wakes the thread that waits in it.
            let _ = shutdown(listener.as_raw_fd(), Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.served.load(Ordering::Relaxed)
    }
}

/// Answers one request and waits for the client to close.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = [0; 16];
    stream.read_exact(&mut request)?;
    stream.write_all(&request)?;
    stream.read(&mut request).map(drop)
}

/// What the clients did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Connections opened, answered and closed.
    pub(crate) connections: u64,
    /// Attempts that failed.
    pub(crate) failed: u64,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Opens `total` connections from the pod, `rate` a second or as many as this machine can. `progress` counts them.
///
/// # Errors
/// When the lab's namespace cannot be entered.
pub(crate) fn connect(lab: &Lab, total: u64, rate: u32, progress: &AtomicU64) -> Result<Sent> {
    let addresses: Vec<SocketAddr> = PORTS
        .map(|port| format!("{PEER}:{port}").parse().context("an address"))
        .collect::<Result<_>>()?;
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let pace = Duration::from_secs(1) / rate;
    let start = Instant::now();
    let client = || loop {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        if turn >= total {
            return;
        }
        let due = start + pace * u32::try_from(turn).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let address = addresses[usize::try_from(turn).unwrap_or(0) % addresses.len()];
        let counter = if ask(address).is_ok() {
            progress
        } else {
            &failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    };
    lab.in_ns("pod", || {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(client);
            }
        });
    })?;
    Ok(Sent {
        connections: progress.load(Ordering::Relaxed),
        failed: failed.load(Ordering::Relaxed),
        took: start.elapsed(),
    })
}

fn ask(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = [b'x'; 16];
    stream.write_all(&answer)?;
    stream.read_exact(&mut answer)
}
