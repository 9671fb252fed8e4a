//! Hearing of changes while the trace runs.
//!
//! Two ears. One rtnetlink socket in the node's namespace hears that namespace and every other
//! that it has a number for, which is every one at the far end of its veths. The kernel's mount
//! table (poll tells when it changes) hears named namespaces come and go: `ip netns`, CNIs and
//! engines hold a namespace by mounting it. What the messages say is not used, only where they
//! come from: that place is visited again, so there is one way to read a namespace, not two.

use super::netlink::messages;
use super::netns::{Netns, visit};
use super::{Roots, SystemError};
use netlink_packet_core::NetlinkBuffer;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Changes come in bursts (a pod's start is some thirty messages): they are told together.
const GATHER: Duration = Duration::from_millis(20);

/// Room for a burst, bytes. A full buffer is told as `lost`, and everything is read anew.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Datagrams taken at one go, so that a storm cannot keep the loop.
const AT_ONCE: usize = 4096;

const GROUPS: [libc::c_uint; 6] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
    libc::RTNLGRP_NSID,
];

/// What changed since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Something was mounted or unmounted, a namespace perhaps.
    pub mounts: bool,
    /// The node gave a number to a namespace, or took one back.
    pub numbers: bool,
    /// Where devices, addresses or routes changed: the node's number for the namespace, `None`
    /// for the node's own.
    pub nsids: BTreeSet<Option<i32>>,
    /// Messages were lost: everything may have changed.
    pub lost: bool,
}

/// The ears. Start them before the first look, so that nothing falls between.
#[derive(Debug)]
pub struct Watch {
    rtnetlink: Option<AsyncFd<Socket>>,
    mounts: Vec<AsyncFd<File>>,
    hears_all: bool,
    /// When the burst that is being gathered will be told.
    due: Option<Instant>,
}

impl Watch {
    /// Starts to listen. Must be called inside the async runtime.
    ///
    /// # Errors
    /// When the node's namespace cannot be entered or the kernel has no rtnetlink for us.
    pub fn start(roots: &Roots, node: &Netns) -> Result<Self, SystemError> {
        let (socket, hears_all) = visit(node, || {
            listen().map_err(|e| SystemError::os("listen to changes in", node, e))
        })?;
        let fail = |e| SystemError::os("watch", "the mount table", e);
        let first = super::netns::foreign_init(roots);
        let tables = std::iter::once(roots.proc().join("self")).chain(first);
        let mounts = tables
            .filter_map(|process| File::open(process.join("mountinfo")).ok())
            .map(|file| register(file, Interest::PRIORITY).map_err(fail))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            rtnetlink: Some(register(socket, Interest::READABLE).map_err(fail)?),
            mounts,
            hears_all,
            due: None,
        })
    }

    /// Whether other namespaces than the node's are heard; not without CAP_NET_BROADCAST.
    pub fn hears_all(&self) -> bool {
        self.hears_all
    }

    /// Lets go of the node's namespace, when that is gone itself.
    pub fn release_node(&mut self) {
        self.rtnetlink = None;
    }

    /// Waits for changes and gathers those that come together. Nothing is lost or delayed when
    /// the future is dropped before it is done and called again.
    ///
    /// # Errors
    /// When the kernel ends one of the ears.
    pub async fn changed(&mut self) -> Result<Changed, SystemError> {
        let fail = |e| SystemError::os("hear changes of", "devices and namespaces", e);
        if self.due.is_none() {
            tokio::select! {
                ready = readable(self.rtnetlink.as_ref()) => ready.map_err(fail)?,
                ready = any_mounts(&self.mounts) => ready.map_err(fail)?,
            }
        }
        let due = *self.due.get_or_insert_with(|| Instant::now() + GATHER);
        tokio::time::sleep_until(due).await;
        self.take()
    }

    /// What was heard by now, without waiting for what may come with it; `None` where that is nothing.
    ///
    /// # Errors
    /// When the kernel ends one of the ears.
    pub fn heard(&mut self) -> Result<Option<Changed>, SystemError> {
        let changed = self.take()?;
        Ok((changed != Changed::default()).then_some(changed))
    }

    fn take(&mut self) -> Result<Changed, SystemError> {
        self.due = None;
        let mut changed = Changed {
            mounts: self.mounts_changed(),
            ..Changed::default()
        };
        if let Some(socket) = &self.rtnetlink {
            let fail = |e| SystemError::os("hear changes of", "devices and namespaces", e);
            drain(socket, &mut changed).map_err(fail)?;
        }
        Ok(changed)
    }

    /// Whether a mount table changed; forgets it.
    fn mounts_changed(&self) -> bool {
        let mut changed = false;
        for table in &self.mounts {
            changed |= take(table, Interest::PRIORITY);
        }
        changed
    }
}

/// Puts an owned descriptor under the runtime's watch.
fn register<T: AsFd + AsRawFd>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `T` owns its descriptor (`AsFd`), which stays open and the same until it is
    // dropped with the AsyncFd; nothing here takes it out.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(Into::into)
}

fn listen() -> io::Result<(Socket, bool)> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.set_non_blocking(true)?;
    socket.set_rx_buf_sz(RECEIVE_BUFFER)?;
    socket.bind(&SocketAddr::new(0, 0))?;
    for group in GROUPS {
        socket.add_membership(group)?;
    }
    let hears_all = socket.set_listen_all_namespaces(true).is_ok();
    Ok((socket, hears_all))
}

/// Waits until the socket has something, and leaves it marked as readable.
async fn readable(socket: Option<&AsyncFd<Socket>>) -> io::Result<()> {
    match socket {
        Some(socket) => socket
            .readable()
            .await
            .map(|mut guard| guard.retain_ready()),
        None => std::future::pending().await,
    }
}

/// Waits until a mount table changed, and leaves it marked.
async fn any_mounts(tables: &[AsyncFd<File>]) -> io::Result<()> {
    let waits: Vec<_> = tables
        .iter()
        .map(|table| Box::pin(table.ready(Interest::PRIORITY)))
        .collect();
    if waits.is_empty() {
        return std::future::pending().await;
    }
    first(waits).await.map(|mut guard| guard.retain_ready())
}

/// The first of several futures to be done.
async fn first<F: Future + Unpin>(mut futures: Vec<F>) -> F::Output {
    std::future::poll_fn(|cx| {
        for future in &mut futures {
            if let std::task::Poll::Ready(done) = std::pin::Pin::new(future).poll(cx) {
                return std::task::Poll::Ready(done);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// Whether a descriptor is marked as ready; clears the mark.
fn take<T: AsRawFd>(fd: &AsyncFd<T>, interest: Interest) -> bool {
    let mut cleared = false;
    let _ = fd.try_io(interest, |_| {
        cleared = true;
        Err::<(), _>(io::Error::from(ErrorKind::WouldBlock))
    });
    cleared
}

/// Takes what is there, whether or not the runtime has noticed it yet.
fn drain(socket: &AsyncFd<Socket>, changed: &mut Changed) -> io::Result<()> {
    let mut buffer = vec![0; 32 << 10];
    for _ in 0..AT_ONCE {
        match receive(socket.as_raw_fd(), &mut buffer) {
            Ok((length, nsid)) => note(buffer.get(..length).unwrap_or(&buffer), nsid, changed),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                take(socket, Interest::READABLE);
                return Ok(());
            }
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => changed.lost = true,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Takes down what one datagram says: numbers given or taken, or a change in its namespace.
fn note(datagram: &[u8], nsid: Option<i32>, changed: &mut Changed) {
    for message in messages(datagram) {
        let kind = NetlinkBuffer::new_checked(message).map_or(0, |m| m.message_type());
        if matches!(kind, libc::RTM_NEWNSID | libc::RTM_DELNSID) {
            changed.numbers = true;
        } else {
            changed.nsids.insert(nsid);
        }
    }
}

/// Room for one control message with a number in it, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Receives one datagram and the number of the namespace it comes from, if that is not ours.
fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<i32>)> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid msghdr: null pointers and zero lengths.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = control.0.len();
    // SAFETY: the header points to a buffer and a control area that outlive the call, with
    // their true lengths.
    let length = unsafe { libc::recvmsg(fd, &raw mut header, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok((length, origin(&header)))
}

/// The namespace number in the control messages.
fn origin(header: &libc::msghdr) -> Option<i32> {
    // SAFETY: the header was filled by recvmsg; the CMSG macros stay inside its control area,
    // and a message of this level and type carries an int.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
            if level == libc::SOL_NETLINK && kind == libc::NETLINK_LISTEN_ALL_NSID {
                let data = libc::CMSG_DATA(message).cast::<i32>();
                return Some(data.read_unaligned());
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}
