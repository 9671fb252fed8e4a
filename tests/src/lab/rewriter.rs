//! Programs that rewrite one IPv4 address into another, as a CNI's do: for traffic control (tcx and clsact) and for XDP.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result, ensure};

use nix::net::if_::if_nametoindex;

use super::bpf::{
    ATTACH_TYPE_TCX_INGRESS, ATTACH_TYPE_XDP, Instruction, PROG_TYPE_SCHED_CLS, PROG_TYPE_XDP,
    insn, link, load,
};

/// Which address of the IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl Field {
    /// Its offset from the Ethernet header, which is before an IPv4 header.
    fn offset(self) -> i32 {
        match self {
            Self::Source => 26,
            Self::Destination => 30,
        }
    }
}

/// Which side of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Packets that come in by it.
    Ingress,
    /// Packets that go out.
    Egress,
}

/// A program that rewrites TCP over IPv4 without options, and lets all else go on.
#[derive(Debug, Clone, Copy)]
pub struct Rewriter {
    /// The program's name, at most 15 bytes.
    pub name: &'static str,
    /// Which address.
    pub field: Field,
    /// The one that it looks for.
    pub from: Ipv4Addr,
    /// What it writes in its place.
    pub to: Ipv4Addr,
}

const LOAD_BYTES: i32 = 26;
const STORE_BYTES: i32 = 9;
const L3_CSUM_REPLACE: i32 = 10;
const L4_CSUM_REPLACE: i32 = 11;
/// The size of an address, and `BPF_F_PSEUDO_HDR`: it is part of TCP's checksum.
const ADDRESS_OF_PSEUDO_HEADER: i32 = 0x10 | 4;
const ETHERTYPE: i32 = 0x0800_u16.to_be() as i32;

impl Rewriter {
    /// Attaches it to one side of a device of the calling thread's namespace by a tcx link. It goes when the returned
    /// descriptor is closed.
    ///
    /// # Errors
    /// When the kernel refuses it (tcx links need 6.6).
    pub fn attach_tcx(&self, device: &str, side: Side) -> Result<OwnedFd> {
        let program = self.load(PROG_TYPE_SCHED_CLS)?;
        let kind = ATTACH_TYPE_TCX_INGRESS + u32::from(side == Side::Egress);
        link(&program, index(device)?, kind, &[0])
    }

    /// Attaches it to a device of the calling thread's namespace as an XDP program, in the driver. It goes when the
    /// returned descriptor is closed.
    ///
    /// # Errors
    /// When the kernel refuses it (XDP links need 5.9).
    pub fn attach_xdp(&self, device: &str) -> Result<OwnedFd> {
        let program = self.load(PROG_TYPE_XDP)?;
        link(&program, index(device)?, ATTACH_TYPE_XDP, &[0])
    }

    /// Attaches it as a filter of a device's clsact qdisc, which must be there. It stays until the namespace goes.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn add_filter(&self, device: &str, side: Side) -> Result<()> {
        let program = self.load(PROG_TYPE_SCHED_CLS)?;
        let message = filter(
            index(device)?,
            side,
            self.name,
            std::os::fd::AsFd::as_fd(&program),
        );
        request(&message).with_context(|| format!("add the filter {} to {device}", self.name))
    }

    fn load(&self, kind: u32) -> Result<OwnedFd> {
        let code = match kind {
            PROG_TYPE_XDP => self.xdp(),
            _ => self.classifier(),
        };
        load(kind, 0, self.name, &code).with_context(|| format!("load {}", self.name))
    }

    fn words(&self) -> (i32, i32) {
        let word = |addr: Ipv4Addr| i32::from_ne_bytes(addr.octets());
        (word(self.from), word(self.to))
    }

    /// `TC_ACT_OK` for what it rewrites, as Cilium does; "next" for all else.
    fn classifier(&self) -> Vec<Instruction> {
        let (from, to) = self.words();
        let field = self.field.offset();
        let out = i16::MAX;
        let mut code = vec![
            insn(0xbf, 6, 1, 0, 0),           // r6 = skb
            insn(0x61, 2, 1, 16, 0),          // r2 = skb->protocol
            insn(0x55, 2, 0, out, ETHERTYPE), // not IPv4: out
        ];
        code.extend(bytes(LOAD_BYTES, 23, 1)); // the protocol
        code.extend([
            insn(0x55, 0, 0, out, 0),
            insn(0x71, 1, 10, -8, 0),
            insn(0x55, 1, 0, out, 6), // not TCP: out
        ]);
        code.extend(bytes(LOAD_BYTES, field, 4));
        code.extend([
            insn(0x55, 0, 0, out, 0),
            insn(0x61, 7, 10, -8, 0),
            insn(0x56, 7, 0, out, from), // another address: out
        ]);
        code.extend(checksum(
            L4_CSUM_REPLACE,
            50,
            from,
            to,
            ADDRESS_OF_PSEUDO_HEADER,
        ));
        code.extend(checksum(L3_CSUM_REPLACE, 24, from, to, 4));
        code.push(insn(0x62, 10, 0, -8, to));
        code.push(insn(0xb7, 5, 0, 0, 0));
        code.extend(bytes(STORE_BYTES, field, 4));
        code.extend([insn(0xb7, 0, 0, 0, 0), insn(0x95, 0, 0, 0, 0)]);
        land(&mut code, out);
        code.extend([insn(0xb7, 0, 0, 0, -1), insn(0x95, 0, 0, 0, 0)]);
        code
    }

    /// TCP's checksum is left: between namespaces of one machine the device's offload is never done.
    fn xdp(&self) -> Vec<Instruction> {
        let (from, to) = self.words();
        let field = i16::try_from(self.field.offset()).unwrap_or_default();
        let out = i16::MAX;
        let mut code = vec![
            insn(0x61, 2, 1, 0, 0), // r2 = data
            insn(0x61, 3, 1, 4, 0), // r3 = data_end
            insn(0xbf, 4, 2, 0, 0),
            insn(0x07, 4, 0, 0, 54),
            insn(0x2d, 4, 3, out, 0), // shorter than TCP over IPv4: out
            insn(0x69, 5, 2, 12, 0),
            insn(0x55, 5, 0, out, ETHERTYPE),
            insn(0x71, 5, 2, 23, 0),
            insn(0x55, 5, 0, out, 6),
            insn(0x61, 5, 2, field, 0),
            insn(0x56, 5, 0, out, from),
            insn(0x62, 2, 0, field, to),
            insn(0x69, 5, 2, 24, 0), // the header's checksum: its complement, and the difference
            insn(0xa7, 5, 0, 0, 0xffff),
            insn(0x07, 5, 0, 0, self.difference()),
        ];
        for _ in 0..2 {
            code.extend([
                insn(0xbf, 0, 5, 0, 0),
                insn(0x77, 0, 0, 0, 16),
                insn(0x57, 5, 0, 0, 0xffff),
                insn(0x0f, 5, 0, 0, 0),
            ]);
        }
        code.extend([insn(0xa7, 5, 0, 0, 0xffff), insn(0x6b, 2, 5, 24, 0)]);
        land(&mut code, out);
        code.extend([insn(0xb7, 0, 0, 0, 2), insn(0x95, 0, 0, 0, 0)]); // XDP_PASS
        code
    }

    /// What the rewrite adds to a sum of 16-bit words.
    fn difference(&self) -> i32 {
        let words = |addr: Ipv4Addr| {
            let [a, b, c, d] = addr.octets();
            [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
        };
        let old = words(self.from).map(|word| i32::from(!word));
        let new = words(self.to).map(i32::from);
        old.into_iter().chain(new).sum()
    }
}

/// A helper about bytes of the packet at an offset, and the stack's first word.
fn bytes(helper: i32, offset: i32, size: i32) -> [Instruction; 6] {
    [
        insn(0xbf, 1, 6, 0, 0),
        insn(0xb7, 2, 0, 0, offset),
        insn(0xbf, 3, 10, 0, 0),
        insn(0x07, 3, 0, 0, -8),
        insn(0xb7, 4, 0, 0, size),
        insn(0x85, 0, 0, 0, helper),
    ]
}

fn checksum(helper: i32, offset: i32, from: i32, to: i32, flags: i32) -> [Instruction; 6] {
    [
        insn(0xbf, 1, 6, 0, 0),
        insn(0xb7, 2, 0, 0, offset),
        insn(0xb4, 3, 0, 0, from),
        insn(0xb4, 4, 0, 0, to),
        insn(0xb7, 5, 0, 0, flags),
        insn(0x85, 0, 0, 0, helper),
    ]
}

/// Makes jumps to `mark` jump to the end of the code.
fn land(code: &mut [Instruction], mark: i16) {
    let end = code.len();
    for (at, insn) in code.iter_mut().enumerate() {
        if insn[2..4] == mark.to_ne_bytes() {
            let distance = i16::try_from(end - at - 1).unwrap_or_default();
            insn[2..4].copy_from_slice(&distance.to_ne_bytes());
        }
    }
}

fn index(device: &str) -> Result<u32> {
    if_nametoindex(device).with_context(|| format!("the index of {device}"))
}

/// `RTM_NEWTFILTER` for a BPF program in direct-action mode.
fn filter(index: u32, side: Side, name: &str, program: BorrowedFd<'_>) -> Vec<u8> {
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    const TCA_BPF_FD: u16 = 6;
    const TCA_BPF_NAME: u16 = 7;
    const TCA_BPF_FLAGS: u16 = 8;
    let parent: u32 = match side {
        Side::Ingress => 0xffff_fff2,
        Side::Egress => 0xffff_fff3,
    };
    let protocol = u32::from(0x0003_u16.to_be()); // ETH_P_ALL
    let mut options = Vec::new();
    put(&mut options, TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes());
    put(&mut options, TCA_BPF_NAME, format!("{name}\0").as_bytes());
    put(&mut options, TCA_BPF_FLAGS, &1u32.to_ne_bytes());
    let mut body: Vec<u8> = [0, index, 0, parent, 1 << 16 | protocol]
        .into_iter()
        .flat_map(u32::to_ne_bytes)
        .collect();
    put(&mut body, TCA_KIND, b"bpf\0");
    put(&mut body, TCA_OPTIONS, &options);
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let length = u32::try_from(body.len() + 16).unwrap_or_default();
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(libc::RTM_NEWTFILTER.to_ne_bytes());
    message.extend(u16::try_from(flags).unwrap_or_default().to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// A netlink attribute.
fn put(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len() + 4).unwrap_or_default();
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Sends one rtnetlink request and reads its acknowledgement.
fn request(message: &[u8]) -> Result<()> {
    let route = socket2::Domain::from(libc::AF_NETLINK);
    let protocol = socket2::Protocol::from(libc::NETLINK_ROUTE);
    let socket = socket2::Socket::new(route, socket2::Type::RAW, Some(protocol))?;
    socket.send(message)?;
    let mut answer = [0u8; 4096];
    let got = io::Read::read(&mut &socket, &mut answer)?;
    ensure!(got >= 20, "a short answer of {got} bytes");
    let error = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
    if error != 0 {
        return Err(io::Error::from_raw_os_error(-error).into());
    }
    Ok(())
}
