//! The few calls of bpf(2) that labs need: does an object still exist, and small programs on devices.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

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

/// One instruction of a BPF program.
pub type Insn = [u8; 8];

/// An instruction: operation, destination and source register, offset, constant.
#[must_use]
pub fn insn(op: u8, dst: u8, src: u8, offset: i16, constant: i32) -> Insn {
    let [o0, o1] = offset.to_ne_bytes();
    let [c0, c1, c2, c3] = constant.to_ne_bytes();
    [op, src << 4 | dst, o0, o1, c0, c1, c2, c3]
}

/// Kinds of programs that labs load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramType {
    /// Traffic control.
    SchedCls = 3,
    /// XDP.
    Xdp = 6,
}

/// Loads a program. `name` has at most 15 bytes.
///
/// # Errors
/// When the kernel refuses it.
pub fn load(kind: ProgramType, name: &str, code: &[Insn]) -> Result<OwnedFd> {
    let licence = b"GPL\0";
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&(kind as u32).to_ne_bytes());
    attr[4..8].copy_from_slice(&u32::try_from(code.len())?.to_ne_bytes());
    attr[8..16].copy_from_slice(&(code.as_ptr() as u64).to_ne_bytes());
    attr[16..24].copy_from_slice(&(licence.as_ptr() as u64).to_ne_bytes());
    let name = name.as_bytes();
    anyhow::ensure!(name.len() < 16, "a program's name has at most 15 bytes");
    attr[48..48 + name.len()].copy_from_slice(name);
    bpf(PROG_LOAD, &mut attr).context("load a BPF program")
}

/// Attaches an XDP program to the interface with that index in the calling thread's namespace. It goes when the returned
/// descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (XDP links need 5.9).
pub fn link_xdp(program: &OwnedFd, ifindex: u32) -> Result<OwnedFd> {
    link(program, ifindex, ATTACH_TYPE_XDP).context("attach the XDP program")
}

/// Attaches a traffic-control program to one side of the interface with that index in the calling thread's namespace, by a
/// tcx link behind those that are there. It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (tcx links need 6.6).
pub fn link_tcx(program: &OwnedFd, ifindex: u32, egress: bool) -> Result<OwnedFd> {
    let side = ATTACH_TYPE_TCX_INGRESS + u32::from(egress);
    link(program, ifindex, side).context("attach the traffic-control program")
}

fn link(program: &OwnedFd, ifindex: u32, kind: u32) -> io::Result<OwnedFd> {
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&program.as_raw_fd().to_ne_bytes());
    attr[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    attr[8..12].copy_from_slice(&kind.to_ne_bytes());
    bpf(LINK_CREATE, &mut attr)
}

/// Attaches an XDP program that passes every packet to the interface with that index in the calling thread's namespace.
/// It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (XDP links need 5.9).
pub fn attach_xdp_pass(ifindex: u32) -> Result<OwnedFd> {
    let code = [insn(0xb7, 0, 0, 0, 2), insn(0x95, 0, 0, 0, 0)]; // r0 = XDP_PASS; exit
    link_xdp(&load(ProgramType::Xdp, "", &code)?, ifindex)
}

/// Attaches a traffic-control program that lets everything go on to one side of the interface with that index in the calling
/// thread's namespace.
///
/// # Errors
/// When the kernel refuses it (tcx links need 6.6).
pub fn attach_tcx_next(ifindex: u32, name: &str, egress: bool) -> Result<OwnedFd> {
    let code = [insn(0xb7, 0, 0, 0, -1), insn(0x95, 0, 0, 0, 0)]; // r0 = TCX_NEXT; exit
    link_tcx(&load(ProgramType::SchedCls, name, &code)?, ifindex, egress)
}

/// Attaches a traffic-control program that drops IPv4 and lets all else (ARP) go on to one side of the interface with that index in the calling
/// thread's namespace, by a tcx link. It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (tcx links need 6.6).
pub fn attach_tcx_drop(ifindex: u32, name: &str, egress: bool) -> Result<OwnedFd> {
    let code = [
        insn(0x61, 2, 1, 16, 0), // r2 = skb->protocol
        insn(0xb7, 0, 0, 0, 2),  // r0 = TC_ACT_SHOT
        insn(0x15, 2, 0, 1, 8),  // if r2 == htons(ETH_P_IP) goto exit
        insn(0xb7, 0, 0, 0, -1), // r0 = TCX_NEXT
        insn(0x95, 0, 0, 0, 0),  // exit
    ];
    link_tcx(&load(ProgramType::SchedCls, name, &code)?, ifindex, egress)
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
