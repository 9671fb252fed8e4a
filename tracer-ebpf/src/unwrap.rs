//! A packet inside a packet: on its way through a tunnel's underlay, the one inside is followed.
//!
//! Kernel: VXLAN, Geneve, IP in IP and GRE put their headers in front of the packet in its own buffer
//! (`vxlan_build_skb`, `geneve_build_skb`, `iptunnel_xmit`, `gre_build_header`), so all that is needed to
//! know the packet again stands in it, at either end. Nothing of this is asked of packets that do not look
//! like it.

use crate::buffer::{self, ETH_P_IP, ETH_P_IPV6};
use crate::memory::field;
use crate::state::Work;
use crate::{direct, filter};
use tracer_common::{family, ip_proto, wrap};
use tracer_ebpf::parse::forget;

/// UDP ports of VXLAN: IANA's, and the one that Linux had before.
const VXLAN: [u16; 2] = [4789, 8472];
/// UDP port of Geneve.
const GENEVE: u16 = 6081;
const IP_IN_IP: u8 = 4;
const IP6_IN_IP: u8 = 41;
const GRE: u8 = 47;
/// `ETH_P_TEB`: an Ethernet frame.
const FRAME: u16 = 0x6558;
const TAGGED: u16 = 0x8100;
/// Fragment offset and "more fragments".
const NO_FRAGMENT: u16 = 0x3fff_u16.to_be();

/// What follows a tunnel's own header.
#[derive(Clone, Copy)]
struct Inside {
    /// One of [`wrap`].
    wrap: u8,
    /// Where, from the outer network header on.
    at: u32,
    /// An EtherType; [`FRAME`] for a frame.
    proto: u16,
}

/// Goes on to the packet to look at: to the one inside, which `work.head` then holds, or to none but the one
/// that was read. An outer packet that is asked for by its own addresses is looked at itself.
#[inline(always)]
pub(crate) fn innermost(work: &mut Work) -> Option<()> {
    work.wrap = 0;
    if direct::only() {
        return Some(());
    }
    match tunnel_at(work) {
        0 => Some(()),
        transport => go_inside(work, transport),
    }
}

/// Whether a packet may carry another one.
#[inline(always)]
pub(crate) fn may_wrap(work: &Work) -> bool {
    tunnel_at(work) != 0
}

/// Where the transport header begins of a packet that looks like a tunnel's; zero for others.
#[inline(always)]
fn tunnel_at(work: &Work) -> u32 {
    match transport(work) {
        0 => 0,
        at if is_tunnel(work, at) => at,
        _ => 0,
    }
}

/// Of a tunnel's packet. Apart, because few are.
#[inline(never)]
fn go_inside(work: &mut Work, transport: u32) -> Option<()> {
    let Some((wrap, at)) = find(work, transport) else {
        return Some(());
    };
    // By memory: see `buffer::Packet`.
    work.inside = at;
    describe(work, transport);
    if is_asked_for(work) {
        return Some(());
    }
    buffer::go_inside(work, forget(&work.inside))?;
    work.wrap = u64::from(wrap);
    Some(())
}

/// Where the transport header of a plain packet begins; zero for others: with options, fragments.
#[inline(always)]
fn transport(work: &Work) -> u32 {
    let valid = forget(&work.valid);
    match work.head.0[0] {
        0x45 if valid >= 28 => {
            let frag = field!(work.head.0, 6, u16).unwrap_or(NO_FRAGMENT);
            if frag & NO_FRAGMENT == 0 { 20 } else { 0 }
        }
        first if first >> 4 == 6 && valid >= 48 => 40,
        _ => 0,
    }
}

#[inline(always)]
fn proto(work: &Work, transport: u32) -> u8 {
    if transport == 20 {
        work.head.0[9]
    } else {
        work.head.0[6]
    }
}

#[inline(always)]
fn port(work: &Work, transport: u32) -> u16 {
    let port = if transport == 20 {
        field!(work.head.0, 22, u16)
    } else {
        field!(work.head.0, 42, u16)
    };
    u16::from_be(port.unwrap_or(0))
}

/// Whether a tunnel's packets look so: this is all that others pay.
#[inline(always)]
fn is_tunnel(work: &Work, transport: u32) -> bool {
    match proto(work, transport) {
        ip_proto::UDP => {
            let port = port(work, transport);
            port == VXLAN[0] || port == VXLAN[1] || port == GENEVE
        }
        IP_IN_IP | IP6_IN_IP | GRE => true,
        _ => false,
    }
}

/// How the packet is wrapped, and where its network header is.
#[inline(always)]
fn find(work: &Work, transport: u32) -> Option<(u8, u32)> {
    let packet = &work.packet;
    let inside = tunnel(work, transport)?;
    if inside.proto != FRAME {
        let is_ip = inside.proto == ETH_P_IP || inside.proto == ETH_P_IPV6;
        return is_ip.then_some((inside.wrap, inside.at));
    }
    let mut at = inside.at + 14;
    let mut proto = packet.half(inside.at + 12)?;
    if proto == TAGGED {
        at += 4;
        proto = packet.half(inside.at + 16)?;
    }
    (proto == ETH_P_IP || proto == ETH_P_IPV6).then_some((inside.wrap, at))
}

#[inline(always)]
fn tunnel(work: &Work, transport: u32) -> Option<Inside> {
    let packet = &work.packet;
    match proto(work, transport) {
        ip_proto::UDP if port(work, transport) == GENEVE => {
            let first = packet.half(transport + 8)?;
            // Version 0; the options' length in words of four bytes.
            let options = u32::from(first >> 8) * 4;
            (first >> 14 == 0).then_some(Inside {
                wrap: wrap::GENEVE,
                at: transport + 16 + options,
                proto: packet.half(transport + 10)?,
            })
        }
        ip_proto::UDP => {
            // The bit that says that there is a network identifier.
            let is_vxlan = packet.half(transport + 8)? & 0x0800 != 0;
            is_vxlan.then_some(Inside {
                wrap: wrap::VXLAN,
                at: transport + 16,
                proto: FRAME,
            })
        }
        GRE => {
            let flags = packet.half(transport)?;
            let words = 1
                + u32::from(flags >> 15)
                + u32::from(flags >> 13 & 1)
                + u32::from(flags >> 12 & 1);
            // No source routing, version 0.
            (flags & 0x4007 == 0).then_some(Inside {
                wrap: wrap::GRE,
                at: transport + 4 * words,
                proto: packet.half(transport + 2)?,
            })
        }
        kind => Some(Inside {
            wrap: wrap::IPIP,
            at: transport,
            proto: if kind == IP_IN_IP {
                ETH_P_IP
            } else {
                ETH_P_IPV6
            },
        }),
    }
}

/// Notes the outer packet's tuple, a word at a time: what the compiler makes of copies and of an empty tuple
/// are loops over bytes. A function of its own for its stack.
#[inline(never)]
fn describe(work: &mut Work, transport: u32) {
    let is_v4 = transport == 20;
    let proto = proto(work, transport);
    let head = &work.head.0;
    let word = |at: usize| field!(head, at, u32).unwrap_or(0);
    let outer = &mut work.event.outer;
    let words = (&raw mut *outer).cast::<u32>();
    let mut i = 0;
    while i < 4 {
        let (src, dst) = match is_v4 {
            true if i == 0 => (word(12), word(16)),
            true => (0, 0),
            false => (word(8 + 4 * i), word(24 + 4 * i)),
        };
        // SAFETY: a tuple is aligned as a word, and begins with two addresses of four words each.
        unsafe {
            words.add(i).write_volatile(src);
            words.add(4 + i).write_volatile(dst);
        }
        i += 1;
    }
    let ports = match proto {
        ip_proto::UDP if is_v4 => word(20),
        ip_proto::UDP => word(40),
        _ => 0,
    };
    // SAFETY: the two ports follow the addresses.
    unsafe { words.add(8).write_volatile(ports) };
    outer.family = if is_v4 { family::V4 } else { family::V6 };
    outer.proto = proto;
    outer.pad = [0; 2];
}

#[inline(never)]
fn is_asked_for(work: &Work) -> bool {
    filter::forward(&work.event.outer, false) || filter::reverse(&work.event.outer, false)
}
