//! The few calls of bpf(2) that labs need: does an object still exist, and an XDP program that passes everything.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};

/// Kinds of BPF objects that have ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A program.
    Program,
    /// A map.
    Map,
    /// A link.
    Link,
}

const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const PROG_TYPE_XDP: u32 = 6;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const ATTACH_TYPE_XDP: u32 = 37;
const ATTACH_TYPE_TCX_INGRESS: u32 = 46;

/// Whether the kernel still has the object. It is asked for the next id after the one before, which opens nothing: an array
/// of programs that is opened while its owner is being killed can stay for good (`prog_array_map_clear` takes a reference
/// for work that is queued already).
#[must_use]
pub fn exists(kind: Kind, id: u32) -> bool {
    let command = match kind {
        Kind::Program => 11,
        Kind::Map => 12,
        Kind::Link => 31,
    };
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&id.saturating_sub(1).to_ne_bytes());
    match call(command, &mut attr) {
        Ok(_) => attr[4..8] == id.to_ne_bytes(),
        Err(error) => error.raw_os_error() != Some(libc::ENOENT),
    }
}

/// Attaches an XDP program that passes every packet to the interface with that index in the calling thread's namespace.
/// It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (XDP links need 5.9).
pub fn attach_xdp_pass(ifindex: u32) -> Result<OwnedFd> {
    // r0 = XDP_PASS; exit
    let code: [u8; 16] = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    let licence = b"GPL\0";
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&PROG_TYPE_XDP.to_ne_bytes());
    attr[4..8].copy_from_slice(&2u32.to_ne_bytes());
    attr[8..16].copy_from_slice(&(code.as_ptr() as u64).to_ne_bytes());
    attr[16..24].copy_from_slice(&(licence.as_ptr() as u64).to_ne_bytes());
    let program = bpf(PROG_LOAD, &mut attr).context("load an XDP program")?;
    let raw = std::os::fd::AsRawFd::as_raw_fd(&program);
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&raw.to_ne_bytes());
    attr[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    attr[8..12].copy_from_slice(&ATTACH_TYPE_XDP.to_ne_bytes());
    bpf(LINK_CREATE, &mut attr).context("attach the XDP program")
}

/// Attaches a traffic-control program that drops IPv4 and lets all else (ARP) go on to one side of the interface with that index in the calling
/// thread's namespace, by a tcx link. It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (tcx links need 6.6).
pub fn attach_tcx_drop(ifindex: u32, name: &str, egress: bool) -> Result<OwnedFd> {
    let code: [[u8; 8]; 5] = [
        [0x61, 0x12, 16, 0, 0, 0, 0, 0],         // r2 = skb->protocol
        [0xb7, 0, 0, 0, 2, 0, 0, 0],             // r0 = TC_ACT_SHOT
        [0x15, 2, 1, 0, 8, 0, 0, 0],             // if r2 == htons(ETH_P_IP) goto exit
        [0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], // r0 = TCX_NEXT
        [0x95, 0, 0, 0, 0, 0, 0, 0],             // exit
    ];
    let licence = b"GPL\0";
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&PROG_TYPE_SCHED_CLS.to_ne_bytes());
    attr[4..8].copy_from_slice(&(code.len() as u32).to_ne_bytes());
    attr[8..16].copy_from_slice(&(code.as_ptr() as u64).to_ne_bytes());
    attr[16..24].copy_from_slice(&(licence.as_ptr() as u64).to_ne_bytes());
    let name = name.as_bytes();
    anyhow::ensure!(name.len() < 16, "a program's name has at most 15 bytes");
    attr[48..48 + name.len()].copy_from_slice(name);
    let program = bpf(PROG_LOAD, &mut attr).context("load a traffic-control program")?;
    let raw = std::os::fd::AsRawFd::as_raw_fd(&program);
    let side = ATTACH_TYPE_TCX_INGRESS + u32::from(egress);
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&raw.to_ne_bytes());
    attr[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    attr[8..12].copy_from_slice(&side.to_ne_bytes());
    bpf(LINK_CREATE, &mut attr).context("attach the traffic-control program")
}

/// Calls bpf(2) with one of the commands that return a descriptor.
fn bpf(command: libc::c_long, attr: &mut [u8; 128]) -> io::Result<OwnedFd> {
    let fd = call(command, attr)?;
    // SAFETY: the commands that this is used for return a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn call(command: libc::c_long, attr: &mut [u8; 128]) -> io::Result<i32> {
    // SAFETY: `attr` is as long as said and zero after the fields of the command; addresses in it are those of buffers
    // that outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), attr.len()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result).map_err(io::Error::other)
}
