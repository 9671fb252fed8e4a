//! The probe's socket: connected, waited on, closed in order.

use super::icmp::Echo;
use super::{Kind, PAYLOAD, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, connect, getsockname,
    recv, send, shutdown, socket_with, sockopt,
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
    /// Makes the socket in the thread's namespace and starts the request.
    pub(super) fn open(request: &Request) -> io::Result<Self> {
        match request.kind {
            Kind::Tcp => {
                let fd = stream(request.to)?;
                Ok(Self {
                    fd,
                    kind: Sent::Tcp,
                })
            }
            Kind::Udp => {
                let fd = connected(request.to, SocketType::DGRAM)?;
                send(&fd, PAYLOAD, SendFlags::NOSIGNAL)?;
                Ok(Self {
                    fd,
                    kind: Sent::Udp,
                })
            }
            Kind::Icmp => {
                let (fd, echo) = Echo::send(request.to.ip())?;
                Ok(Self {
                    fd,
                    kind: Sent::Icmp(echo),
                })
            }
        }
    }

    /// Waits for the answer; the network's errors come out as errors.
    pub(super) fn run(&self, deadline: Instant) -> io::Result<()> {
        match &self.kind {
            Sent::Tcp => {
                wait(&self.fd, PollFlags::OUT, deadline)?;
                Ok(sockopt::socket_error(&self.fd)??)
            }
            Sent::Udp => {
                wait(&self.fd, PollFlags::IN, deadline)?;
                let mut buffer = [0_u8; 16];
                recv(&self.fd, &mut buffer, RecvFlags::TRUNC)?;
                Ok(())
            }
            Sent::Icmp(echo) => loop {
                wait(&self.fd, PollFlags::IN, deadline)?;
                if echo.is_answered(&self.fd)? {
                    return Ok(());
                }
            },
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

fn stream(to: SocketAddr) -> io::Result<OwnedFd> {
    connected(to, SocketType::STREAM)
}

/// A socket that is connected, or on its way there.
pub(super) fn connected(to: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family(to), kind, flags, None)?;
    begin(&fd, to)?;
    Ok(fd)
}

/// Connects; being on the way is no error.
pub(super) fn begin(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    match connect(fd, &to) {
        Err(rustix::io::Errno::INPROGRESS) => Ok(()),
        other => Ok(other?),
    }
}

/// The address family of a destination.
pub(super) fn family(to: SocketAddr) -> AddressFamily {
    match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
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
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}
