//! What a plain TCP or UDP packet says, read without parsing it: one without options, fragments or extension
//! headers, that opens and closes nothing. Nearly all of a flow's packets are such.

use crate::memory::field;
use crate::state::{Work, config};
use crate::words::add;
use crate::{buffer, conntrack, direct};
use tracer_common::{config_flags, ip_proto};
use tracer_ebpf::parse::forget;

/// The fragment offset and "more fragments", as they lie in the header.
const NO_FRAGMENT: u16 = 0x3fff_u16.to_be();
/// FIN, SYN and RST.
const TRANSITIONS: u8 = 0x07;

/// A plain packet.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    /// The sum of addresses, protocol and ports, of the entry that it carries and of its mark.
    pub(crate) sum: u64,
    /// Bytes from the network header on, as that says.
    pub(crate) len: u32,
    /// Bytes of payload.
    pub(crate) payload: u32,
    /// The sequence number after its payload; of TCP.
    pub(crate) end: u32,
    pub(crate) is_tcp: bool,
}

/// Reads it; `None` where the packet is no plain one, or every packet is to be looked at whole.
#[inline(always)]
pub(crate) fn read(work: &Work) -> Option<Plain> {
    let nfct = buffer::nfct(work);
    if direct::only() || config!(flags) & config_flags::EACH_PACKET != 0 || conntrack::is_new(nfct)
    {
        return None;
    }
    let mut plain = headers(work)?;
    let mark = u64::from(buffer::mark(work).unwrap_or(0));
    plain.sum = add(add(plain.sum, nfct), mark);
    Some(plain)
}

#[inline(always)]
fn headers(work: &Work) -> Option<Plain> {
    let valid = forget(&work.valid);
    match work.head.0[0] {
        0x45 if valid >= 34 && half(work, 6) & NO_FRAGMENT == 0 => {
            let sum = add(0, word(work, 12));
            transport::<20>(work, sum, work.head.0[9], u32::from(host(work, 2)))
        }
        first if first >> 4 == 6 && valid >= 54 => {
            let sum = add(add(0, word(work, 8)), word(work, 16));
            let sum = add(add(sum, word(work, 24)), word(work, 32));
            let len = u32::from(host(work, 4)) + 40;
            transport::<40>(work, sum, work.head.0[6], len)
        }
        _ => None,
    }
}

/// How long the packet's own header says that it is, bytes.
#[inline(always)]
pub(crate) fn length(work: &Work) -> u32 {
    match work.head.0[0] >> 4 {
        4 => u32::from(host(work, 2)),
        _ => u32::from(host(work, 4)) + 40,
    }
}

/// The transport header that begins at `AT`.
#[inline(always)]
fn transport<const AT: usize>(work: &Work, sum: u64, proto: u8, len: u32) -> Option<Plain> {
    let is_tcp = proto == ip_proto::TCP;
    let header = match proto {
        ip_proto::TCP if work.head.0[AT + 13] & TRANSITIONS == 0 => {
            u32::from(work.head.0[AT + 12] >> 4) * 4
        }
        ip_proto::UDP => 8,
        _ => return None,
    };
    if is_tcp && header < 20 {
        return None; // no TCP: see `tracer_ebpf::parse`
    }
    let payload = len.wrapping_sub(AT as u32 + header);
    // What lies about its length is looked at whole.
    if payload > len || len > work.packet.len() {
        return None;
    }
    let seq = u32::from_be(field!(work.head.0, AT + 4, u32).unwrap_or(0));
    let ports = u64::from(field!(work.head.0, AT, u32).unwrap_or(0));
    Some(Plain {
        sum: add(sum, ports << 8 | u64::from(proto)),
        len,
        payload,
        end: seq.wrapping_add(payload),
        is_tcp,
    })
}

#[inline(always)]
fn word(work: &Work, at: usize) -> u64 {
    // Of IPv4, both addresses, which begin at a multiple of four.
    let half = |at: usize| field!(work.head.0, at, u32).map_or(0, u64::from);
    half(at) << 32 | half(at + 4)
}

#[inline(always)]
fn half(work: &Work, at: usize) -> u16 {
    field!(work.head.0, at, u16).unwrap_or(NO_FRAGMENT)
}

#[inline(always)]
fn host(work: &Work, at: usize) -> u16 {
    field!(work.head.0, at, u16).map_or(0, u16::from_be)
}
