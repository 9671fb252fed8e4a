//! A connection from the pod to the peer that stays open.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use srctrace_tests::lab::Lab;

use crate::lab::PEER;

const PORT: u16 = 9100;
const CHUNK: usize = 128 << 10;
/// What is sent before the flow counts as one that has been there for a while.
const BEFORE: usize = 4 << 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// The open connection, and the peer that reads what it sends.
pub(super) struct Held {
    stream: TcpStream,
    reader: JoinHandle<io::Result<()>>,
}

impl Held {
    /// Connects and sends until the flow is nothing new to anyone.
    pub(super) fn open(lab: &Lab) -> Result<Self> {
        let listener = lab
            .in_ns("peer", || TcpListener::bind((PEER, PORT)))?
            .with_context(|| format!("listen on {PEER}:{PORT}"))?;
        let reader = thread::spawn(move || read_all(&listener));
        let stream = lab
            .in_ns("pod", || TcpStream::connect((PEER, PORT)))?
            .with_context(|| format!("connect to {PEER}:{PORT}"))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut held = Self { stream, reader };
        for _ in 0..BEFORE / CHUNK {
            held.stream.write_all(&[0; CHUNK])?;
        }
        // What is in the buffers is not to be counted with what comes.
        thread::sleep(Duration::from_millis(300));
        Ok(held)
    }

    /// Sends for so long, and returns bytes a second.
    pub(super) fn send(&mut self, seconds: u32) -> Result<f64> {
        let (start, whole) = (Instant::now(), Duration::from_secs(u64::from(seconds)));
        let mut sent = 0;
        while start.elapsed() < whole {
            self.stream.write_all(&[0; CHUNK]).context("send")?;
            sent += CHUNK as u64;
        }
        Ok(crate::programs::as_f64(sent) / start.elapsed().as_secs_f64())
    }

    /// Closes it, once the peer has read all.
    pub(super) fn close(self) -> Result<()> {
        drop(self.stream);
        let read = self.reader.join().ok().context("the reader panicked")?;
        read.context("read what was sent")
    }
}

fn read_all(listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut chunk = vec![0; CHUNK];
    while stream.read(&mut chunk)? > 0 {}
    Ok(())
}
