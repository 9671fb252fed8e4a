//! The few calls of bpf(2) that labs need: does an object still exist, and programs of a few instructions on an interface.

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
const PROG_TYPE_XDP: u32 = 6;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const ATTACH_TYPE_XDP: u32 = 37;

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
    let code = [set(0, 2), EXIT]; // XDP_PASS
    let program = load(PROG_TYPE_XDP, "pass", &code)?;
    link(&program, ifindex, ATTACH_TYPE_XDP)
}

/// What a traffic-control program does with IPv4. All else (ARP) goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Drops it.
    Drop,
    /// `bpf_redirect_peer`: it goes on as if it had come in by the other end of the pair that has this end, in the namespace
    /// of that other end. At ingress only.
    RedirectPeer(u32),
    /// `bpf_redirect_neigh`: it is sent by the device with this index, to the next hop by the routes there; netfilter does
    /// not see it.
    RedirectNeigh(u32),
}

impl Act {
    /// Leaves its verdict in r0.
    fn code(self) -> Vec<[u8; 8]> {
        match self {
            Self::Drop => vec![set(0, 2)], // TC_ACT_SHOT
            Self::RedirectPeer(ifindex) => vec![set(1, ifindex), set(2, 0), call_helper(155)],
            Self::RedirectNeigh(ifindex) => vec![
                set(1, ifindex),
                set(2, 0),
                set(3, 0),
                set(4, 0),
                call_helper(152),
            ],
        }
    }
}

/// Where a traffic-control program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// To a tcx link (6.6) where packets come in.
    Ingress,
    /// To a tcx link where packets go out.
    Egress,
    /// To a netkit device (6.7), for packets that it sends.
    Netkit,
    /// To a netkit device, for packets that the other end sends: only the first end may.
    NetkitPeer,
}

impl Side {
    fn attach_type(self) -> u32 {
        match self {
            Self::Ingress => 46,
            Self::Egress => 47,
            Self::Netkit => 54,
            Self::NetkitPeer => 55,
        }
    }
}

/// Attaches a traffic-control program to the interface with that index in the calling thread's namespace. It goes when the
/// returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it.
pub fn attach_tc(ifindex: u32, side: Side, name: &str, act: Act) -> Result<OwnedFd> {
    let act = act.code();
    let beyond = u16::try_from(act.len()).context("a program's length")?;
    let mut code = vec![
        [0x61, 0x12, 16, 0, 0, 0, 0, 0], // r2 = skb->protocol
        set(0, u32::MAX),                // TCX_NEXT
        jump_unless(2, u32::from(IPV4), beyond),
    ];
    code.extend(act);
    code.push(EXIT);
    let program = load(PROG_TYPE_SCHED_CLS, name, &code)?;
    link(&program, ifindex, side.attach_type())
}

/// `ETH_P_IP` in network byte order.
const IPV4: u16 = 0x0800u16.to_be();
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

/// rN = value.
fn set(register: u8, value: u32) -> [u8; 8] {
    let [a, b, c, d] = value.to_ne_bytes();
    [0xb7, register, 0, 0, a, b, c, d]
}

fn call_helper(number: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_ne_bytes();
    [0x85, 0, 0, 0, a, b, c, d]
}

/// Over so many instructions, if rN is another value.
fn jump_unless(register: u8, value: u32, over: u16) -> [u8; 8] {
    let ([a, b, c, d], [e, f]) = (value.to_ne_bytes(), over.to_ne_bytes());
    [0x55, register, e, f, a, b, c, d]
}

fn load(kind: u32, name: &str, code: &[[u8; 8]]) -> Result<OwnedFd> {
    let name = name.as_bytes();
    anyhow::ensure!(name.len() < 16, "a program's name has at most 15 bytes");
    let length = u32::try_from(code.len()).context("a program's length")?;
    let licence = b"GPL\0";
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&kind.to_ne_bytes());
    attr[4..8].copy_from_slice(&length.to_ne_bytes());
    attr[8..16].copy_from_slice(&(code.as_ptr() as u64).to_ne_bytes());
    attr[16..24].copy_from_slice(&(licence.as_ptr() as u64).to_ne_bytes());
    attr[48..48 + name.len()].copy_from_slice(name);
    bpf(PROG_LOAD, &mut attr).context("load a program")
}

fn link(program: &OwnedFd, ifindex: u32, attach_type: u32) -> Result<OwnedFd> {
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&program.as_raw_fd().to_ne_bytes());
    attr[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    attr[8..12].copy_from_slice(&attach_type.to_ne_bytes());
    bpf(LINK_CREATE, &mut attr).context("attach a program")
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
