//! The probe's socket: connected, waited on, closed in order.

use super::icmp::Echo;
use super::{Kind, PAYLOAD, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, connect,
    getsockname, recv, send, shutdown, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long an accepted connection is given to end in order before it is just closed.
const FAREWELL: Duration = Duration::from_millis(300);

/// A request on its way.
pub(super) struct Probing {
    fd: OwnedFd,
    kind: Sent,
}

/// What was sent, and so what an answer looks like.
enum Sent {
    Tcp,
    Udp,
    Icmp(Echo),
}

impl Probing {
    /// Makes the socket, in the thread's namespace.
    pub(super) fn open(request: &Request) -> io::Result<Self> {
        let (kind, fd) = match request.kind {
            Kind::Tcp => (Sent::Tcp, socket(request.to, SocketType::STREAM, None)?),
            Kind::Udp => (Sent::Udp, socket(request.to, SocketType::DGRAM, None)?),
            Kind::Icmp => {
                let (echo, fd) = Echo::open(request.to.ip())?;
                (Sent::Icmp(echo), fd)
            }
        };
        Ok(Self { fd, kind })
    }

    /// Sends the request and waits for the answer; the network's errors come out as errors.
    pub(super) fn run(&mut self, to: SocketAddr, deadline: Instant) -> io::Result<()> {
        match connect(&self.fd, &to) {
            Err(Errno::INPROGRESS) | Ok(()) => {}
            Err(e) => return Err(e.into()),
        }
        match &mut self.kind {
            Sent::Tcp => {
                wait(&self.fd, PollFlags::OUT, deadline)?;
                Ok(sockopt::socket_error(&self.fd)??)
            }
            Sent::Udp => {
                send(&self.fd, PAYLOAD, SendFlags::NOSIGNAL)?;
                receive(&self.fd, deadline, |_| true)
            }
            Sent::Icmp(echo) => {
                echo.send(&self.fd)?;
                receive(&self.fd, deadline, |message| echo.is_answer(message))
            }
        }
    }

    /// Where it was sent from.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        let mut local = SocketAddr::try_from(getsockname(&self.fd).ok()?).ok()?;
        if let Sent::Icmp(echo) = &self.kind {
            local.set_port(echo.id());
        }
        (!local.ip().is_unspecified()).then_some(local)
    }

    /// Closes in order: tells the end, and takes what the other side says until it ends too.
    /// Closing with unread bytes would reset the connection.
    pub(super) fn finish(self) {
        if !matches!(self.kind, Sent::Tcp) || shutdown(&self.fd, Shutdown::Write).is_err() {
            return;
        }
        let deadline = Instant::now() + FAREWELL;
        let mut buffer = [0_u8; 4096];
        while wait(&self.fd, PollFlags::IN, deadline).is_ok() {
            match recv(&self.fd, &mut buffer, RecvFlags::empty()) {
                Ok((0, _)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// A socket of the thread's namespace for a destination.
pub(super) fn socket(
    to: SocketAddr,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    Ok(socket_with(family, kind, flags, protocol)?)
}

/// Receives until a message is the one waited for.
fn receive(fd: &OwnedFd, deadline: Instant, is_answer: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    receive_into(fd, &mut [0_u8; 256], deadline, is_answer)
}

/// As [`receive`], with room for longer messages.
pub(super) fn receive_into(
    fd: &OwnedFd,
    buffer: &mut [u8],
    deadline: Instant,
    mut is_answer: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    loop {
        wait(fd, PollFlags::IN, deadline)?;
        match recv(fd, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) if is_answer(&buffer[..length]) => return Ok(()),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Waits for the socket to be ready, or to have failed.
fn wait(fd: &OwnedFd, what: PollFlags, deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(fd, what)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
