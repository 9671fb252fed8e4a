//! Tables of iptables-legacy, as the kernel hands them out.

use super::SystemError;
use super::netns::{Netns, visit};
use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketType};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use tracer_core::observed::blob::Blob;
use tracer_core::ruleset::Family;

/// `IPT_SO_GET_INFO`, and `IP6T_SO_GET_INFO`, which is the same.
const GET_INFO: i32 = 64;
/// `IPT_SO_GET_ENTRIES`.
const GET_ENTRIES: i32 = 65;
/// `IPPROTO_RAW`: what these questions are asked on.
const RAW: Protocol = Protocol::from_raw(RawProtocol::new(libc::IPPROTO_RAW as u32).unwrap());
/// A larger table than this is not read.
const MOST: u32 = 256 << 20;

/// `struct ipt_getinfo` (uapi linux/netfilter_ipv4/ip_tables.h).
#[repr(C)]
struct Info {
    name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; 5],
    underflow: [u32; 5],
    entries: u32,
    size: u32,
}

/// Bytes before the entries in `struct ipt_get_entries`: name, size, and alignment.
const ENTRIES_AT: usize = 40;

/// Reads one table of a namespace. `None` where the namespace has no such table: reading it
/// would make it, so the list of tables is asked first.
///
/// # Errors
/// When the namespace is gone or the kernel refuses.
pub fn table(netns: &Netns, family: Family, name: &str) -> Result<Option<Blob>, SystemError> {
    visit(netns, || {
        let (list, domain, level) = match family {
            Family::Ip6 => ("ip6_tables_names", AddressFamily::INET6, libc::SOL_IPV6),
            _ => ("ip_tables_names", AddressFamily::INET, libc::SOL_IP),
        };
        let path = format!("/proc/thread-self/net/{list}");
        let names = std::fs::read_to_string(path).unwrap_or_default();
        if !names.lines().any(|line| line == name) {
            return Ok(None);
        }
        let socket = rustix::net::socket(domain, SocketType::RAW, Some(RAW))
            .map_err(|e| SystemError::os("open", "a raw socket", e))?;
        let blob = read(&socket, level, family, name);
        blob.map(Some)
            .map_err(|e| SystemError::os("read", format_args!("iptables table {name}"), e))
    })
}

fn read(socket: &OwnedFd, level: i32, family: Family, name: &str) -> io::Result<Blob> {
    let mut bytes = question(name, size_of::<Info>())?;
    ask(socket, level, GET_INFO, &mut bytes)?;
    let word = |at: usize| {
        let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    let valid = word(std::mem::offset_of!(Info, valid_hooks));
    let hook = |n: usize| {
        let at = std::mem::offset_of!(Info, hook_entry) + 4 * n;
        (valid & (1 << n) != 0).then(|| word(at))
    };
    let hooks = std::array::from_fn(hook);
    let (number, size) = (
        word(std::mem::offset_of!(Info, entries)),
        word(std::mem::offset_of!(Info, size)),
    );
    if size > MOST {
        return Err(io::Error::other("it is too large"));
    }
    let mut answer = question(name, ENTRIES_AT + size as usize)?;
    answer[32..36].copy_from_slice(&size.to_ne_bytes());
    ask(socket, level, GET_ENTRIES, &mut answer)?;
    answer.drain(..ENTRIES_AT);
    Ok(Blob {
        family,
        hooks,
        number,
        bytes: answer,
    })
}

/// A buffer of so many bytes that begins with the table's name.
fn question(name: &str, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let place = bytes.get_mut(..name.len()).filter(|_| name.len() < 32);
    place
        .ok_or_else(|| io::Error::other("no table has such a name"))?
        .copy_from_slice(name.as_bytes());
    Ok(bytes)
}

/// `getsockopt` on a buffer that is question and answer.
fn ask(socket: &OwnedFd, level: i32, option: i32, bytes: &mut [u8]) -> io::Result<()> {
    let mut len = libc::socklen_t::try_from(bytes.len()).map_err(io::Error::other)?;
    // SAFETY: the buffer is writable and as long as said; the kernel writes no more than that.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
