//! Small traffic-control programs on devices, netkit's among them, that drop IPv4 packets or send them another way.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, Result};

use super::bpf::{PROG_TYPE_SCHED_CLS, link, load};

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
    let program = load(PROG_TYPE_SCHED_CLS, 0, name, &code)?;
    link(&program, ifindex, side.attach_type(), &[0])
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
