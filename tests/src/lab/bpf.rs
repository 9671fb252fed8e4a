//! The few calls of bpf(2) that labs need: does an object still exist, and small programs that pass or drop packets.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use anyhow::{Context as _, Result};
use ipnet::IpNet;

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
pub(super) const PROG_TYPE_XDP: u32 = 6;
pub(super) const PROG_TYPE_SCHED_CLS: u32 = 3;
const PROG_TYPE_CGROUP_SKB: u32 = 8;
const PROG_TYPE_NETFILTER: u32 = 32;
pub(super) const ATTACH_TYPE_XDP: u32 = 37;
const ATTACH_TYPE_NETFILTER: u32 = 45;
pub(super) const ATTACH_TYPE_TCX_INGRESS: u32 = 46;

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

/// One instruction, as linux/bpf.h has it.
pub(super) type Instruction = [u8; 8];

/// An instruction: operation, destination and source register, offset, constant.
pub(super) fn insn(op: u8, dst: u8, src: u8, offset: i16, constant: i32) -> Instruction {
    let [o0, o1] = offset.to_ne_bytes();
    let [c0, c1, c2, c3] = constant.to_ne_bytes();
    [op, src << 4 | dst, o0, o1, c0, c1, c2, c3]
}

/// A program that does the same with every packet.
const fn always(verdict: u8) -> [Instruction; 2] {
    [
        [0xb7, 0, 0, 0, verdict, 0, 0, 0], // r0 = verdict
        [0x95, 0, 0, 0, 0, 0, 0, 0],       // exit
    ]
}

/// Traffic control: drops IPv4 and lets all else (ARP) go on.
const CLASSIFIER: [Instruction; 5] = [
    [0x61, 0x12, 16, 0, 0, 0, 0, 0],         // r2 = skb->protocol
    [0xb7, 0, 0, 0, 2, 0, 0, 0],             // r0 = TC_ACT_SHOT
    [0x15, 2, 1, 0, 8, 0, 0, 0],             // if r2 == htons(ETH_P_IP) goto exit
    [0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], // r0 = TCX_NEXT
    [0x95, 0, 0, 0, 0, 0, 0, 0],             // exit
];

/// XDP: drops IPv4 and passes all else.
const XDP: [Instruction; 10] = [
    [0x61, 0x12, 0, 0, 0, 0, 0, 0],  // r2 = ctx->data
    [0x61, 0x13, 4, 0, 0, 0, 0, 0],  // r3 = ctx->data_end
    [0xb7, 0, 0, 0, 2, 0, 0, 0],     // r0 = XDP_PASS
    [0xbf, 0x24, 0, 0, 0, 0, 0, 0],  // r4 = r2
    [0x07, 4, 0, 0, 14, 0, 0, 0],    // r4 += the Ethernet header
    [0x2d, 0x34, 3, 0, 0, 0, 0, 0],  // if r4 > r3 goto exit
    [0x69, 0x25, 12, 0, 0, 0, 0, 0], // r5 = its protocol
    [0x55, 5, 1, 0, 8, 0, 0, 0],     // if r5 != htons(ETH_P_IP) goto exit
    [0xb7, 0, 0, 0, 1, 0, 0, 0],     // r0 = XDP_DROP
    [0x95, 0, 0, 0, 0, 0, 0, 0],     // exit
];

/// Attaches an XDP program that passes every packet to the interface with that index in the calling thread's namespace.
/// It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (XDP links need 5.9).
pub fn attach_xdp_pass(ifindex: u32) -> Result<OwnedFd> {
    let program = load(PROG_TYPE_XDP, 0, "xdp_pass", &always(2))?;
    link(&program, ifindex, ATTACH_TYPE_XDP, &[0])
}

/// Attaches an XDP program that drops IPv4, in the generic mode, which every device has.
///
/// # Errors
/// When the kernel refuses it.
pub fn attach_xdp_drop(ifindex: u32, name: &str) -> Result<OwnedFd> {
    const SKB_MODE: u32 = 1 << 1;
    let program = load(PROG_TYPE_XDP, 0, name, &XDP)?;
    link(&program, ifindex, ATTACH_TYPE_XDP, &[SKB_MODE])
}

/// Attaches a traffic-control program that drops IPv4 (or, unless `drops`, nothing) to one side of the interface with that
/// index in the calling thread's namespace, by a tcx link. It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (tcx links need 6.6).
pub fn attach_tcx(ifindex: u32, name: &str, egress: bool, drops: bool) -> Result<OwnedFd> {
    let mut code = CLASSIFIER;
    if !drops {
        code[1] = code[3];
    }
    let program = load(PROG_TYPE_SCHED_CLS, 0, name, &code)?;
    link(
        &program,
        ifindex,
        ATTACH_TYPE_TCX_INGRESS + u32::from(egress),
        &[0],
    )
}

/// Attaches a program that drops all packets from (egress) or to (ingress) the sockets of a cgroup, by its folder, and of those
/// below it. It goes when the returned descriptor is closed.
///
/// # Errors
/// When the kernel refuses it (links to cgroups need 5.7).
pub fn attach_cgroup_drop(folder: &Path, name: &str, egress: bool) -> Result<OwnedFd> {
    let folder = File::open(folder).with_context(|| format!("open {}", folder.display()))?;
    let side = u32::from(egress);
    let program = load(PROG_TYPE_CGROUP_SKB, side, name, &always(0))?;
    link(&program, u32::try_from(folder.as_raw_fd())?, side, &[0])
}

/// Attaches a program that drops what netfilter's FORWARD hook shows it (IPv4) in the calling thread's namespace.
///
/// # Errors
/// When the kernel refuses it (such links need 6.4).
pub fn attach_netfilter_drop(name: &str) -> Result<OwnedFd> {
    const FORWARD_OF_IPV4: [u32; 5] = [0, 2, 2, 10, 0]; // flags; family, hook, priority, flags
    let program = load(PROG_TYPE_NETFILTER, ATTACH_TYPE_NETFILTER, name, &always(0))?;
    link(&program, 0, ATTACH_TYPE_NETFILTER, &FORWARD_OF_IPV4)
}

/// Makes a prefix tree of destinations of one family as Cilium's for its masquerade, and pins it there. It goes with the file
/// system.
///
/// # Errors
/// When the kernel refuses it, or the path is not in a BPF file system.
pub fn pin_prefixes(path: &Path, nets: &[IpNet]) -> Result<()> {
    const MAP_CREATE: libc::c_long = 0;
    const MAP_UPDATE_ELEM: libc::c_long = 2;
    const OBJ_PIN: libc::c_long = 6;
    const LPM_TRIE: u32 = 11;
    const NO_PREALLOC: u32 = 1;
    let mut attr = [0u8; 128];
    let v6 = nets.iter().any(|net| net.addr().is_ipv6());
    let key = 4 + if v6 { 16 } else { 4 };
    let words = [LPM_TRIE, key, 1, 16_384, NO_PREALLOC]; // kind, sizes of key and value, entries, flags
    for (to, word) in attr.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let map = bpf(MAP_CREATE, &mut attr).context("make a prefix tree")?;
    let fd = u32::try_from(map.as_raw_fd())?;
    for net in nets {
        let mut key = u32::from(net.prefix_len()).to_ne_bytes().to_vec();
        match net.network() {
            IpAddr::V4(addr) => key.extend(addr.octets()),
            IpAddr::V6(addr) => key.extend(addr.octets()),
        }
        let value = [0u8];
        let mut attr = [0u8; 128];
        attr[..4].copy_from_slice(&fd.to_ne_bytes());
        attr[8..16].copy_from_slice(&(key.as_ptr() as u64).to_ne_bytes());
        attr[16..24].copy_from_slice(&(value.as_ptr() as u64).to_ne_bytes());
        call(MAP_UPDATE_ELEM, &mut attr).with_context(|| format!("add {net}"))?;
    }
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let mut attr = [0u8; 128];
    attr[..8].copy_from_slice(&(name.as_ptr() as u64).to_ne_bytes());
    attr[8..12].copy_from_slice(&fd.to_ne_bytes());
    call(OBJ_PIN, &mut attr).with_context(|| format!("pin {}", path.display()))?;
    Ok(())
}

pub(super) fn load(
    kind: u32,
    attach_type: u32,
    name: &str,
    code: &[Instruction],
) -> Result<OwnedFd> {
    let licence = b"GPL\0";
    let mut attr = [0u8; 128];
    attr[..4].copy_from_slice(&kind.to_ne_bytes());
    attr[4..8].copy_from_slice(&u32::try_from(code.len())?.to_ne_bytes());
    attr[8..16].copy_from_slice(&(code.as_ptr() as u64).to_ne_bytes());
    attr[16..24].copy_from_slice(&(licence.as_ptr() as u64).to_ne_bytes());
    anyhow::ensure!(name.len() < 16, "a program's name has at most 15 bytes");
    attr[48..48 + name.len()].copy_from_slice(name.as_bytes());
    attr[68..72].copy_from_slice(&attach_type.to_ne_bytes());
    bpf(PROG_LOAD, &mut attr).with_context(|| format!("load the program {name}"))
}

/// `more`: what follows the type, from the flags on.
pub(super) fn link(
    program: &OwnedFd,
    target: u32,
    attach_type: u32,
    more: &[u32],
) -> Result<OwnedFd> {
    let fd = u32::try_from(program.as_raw_fd())?;
    let mut attr = [0u8; 128];
    let words = [fd, target, attach_type]
        .into_iter()
        .chain(more.iter().copied());
    for (to, word) in attr.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
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
