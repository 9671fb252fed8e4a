//! IPv4 and IPv6 headers, with options and extension headers.

use super::Head;
use tracer_common::{RawEvent, RawTuple, family, present};

/// What an IP header says.
pub(super) struct Ip {
    /// Protocol of what follows all IP headers.
    pub(super) proto: u8,
    /// TTL or hop limit.
    pub(super) ttl: u8,
    /// Whether more fragments follow.
    pub(super) more_fragments: bool,
    /// Fragment offset, bytes.
    pub(super) frag_offset: u16,
    /// Identification, if there is one.
    pub(super) id: Option<u32>,
    /// Length from this header on, bytes.
    pub(super) len: u32,
    /// Offset of what follows all IP headers.
    pub(super) transport: usize,
}

impl Ip {
    pub(super) fn is_later_fragment(&self) -> bool {
        self.frag_offset != 0
    }
}

/// Reads the IP header at `at`; addresses, family and protocol go to `tuple`. `len`: bytes from
/// there on, as the buffer says.
#[inline(always)]
pub(super) fn header(head: &Head<'_>, at: usize, len: u32, tuple: &mut RawTuple) -> Option<Ip> {
    let ip = match head.u8(at)? >> 4 {
        4 => v4(head, at, len, tuple),
        6 => v6(head, at, len, tuple),
        _ => None,
    }?;
    tuple.proto = ip.proto;
    Some(ip)
}

/// Sets the fields that come from fragmentation and identification.
#[inline(always)]
pub(super) fn identify(ip: &Ip, event: &mut RawEvent) {
    if let Some(id) = ip.id {
        event.print.ip_id = id;
        event.present |= present::IP_ID;
    }
    event.print.frag_offset = ip.frag_offset;
    if ip.is_later_fragment() {
        event.present |= present::LATER_FRAGMENT;
    } else if ip.more_fragments {
        event.present |= present::FIRST_FRAGMENT;
    }
}

/// The header's own length where it is sane, else what the buffer says: GSO packets may say zero,
/// short ones may be padded, hostile ones lie.
#[inline(always)]
fn sane_len(said: u32, buffer: u32) -> u32 {
    if said == 0 || said > buffer {
        buffer
    } else {
        said
    }
}

#[inline(always)]
fn v4(head: &Head<'_>, at: usize, len: u32, tuple: &mut RawTuple) -> Option<Ip> {
    let words = head.u8(at)? & 0x0f;
    if words < 5 {
        return None;
    }
    let frag = head.be16(at + 6)?;
    let more_fragments = frag & 0x2000 != 0;
    let frag_offset = (frag & 0x1fff) << 3;
    let id = head.be16(at + 4)?;
    tuple.family = family::V4;
    head.copy::<4>(at + 12, &mut tuple.src)?;
    head.copy::<4>(at + 16, &mut tuple.dst)?;
    let fragmented = more_fragments || frag_offset != 0;
    Some(Ip {
        proto: head.u8(at + 9)?,
        ttl: head.u8(at + 8)?,
        more_fragments,
        frag_offset,
        id: (id != 0 || fragmented).then_some(u32::from(id)),
        len: sane_len(u32::from(head.be16(at + 2)?), len),
        transport: at + (words as usize) * 4,
    })
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
/// More extension headers than this are refused: no honest packet has them.
const MAX_EXTENSIONS: u32 = 6;

#[inline(always)]
fn v6(head: &Head<'_>, at: usize, len: u32, tuple: &mut RawTuple) -> Option<Ip> {
    tuple.family = family::V6;
    head.copy::<16>(at + 8, &mut tuple.src)?;
    head.copy::<16>(at + 24, &mut tuple.dst)?;
    let payload = u32::from(head.be16(at + 4)?);
    let said = if payload == 0 { 0 } else { payload + 40 };
    let mut ip = Ip {
        proto: head.u8(at + 6)?,
        ttl: head.u8(at + 7)?,
        more_fragments: false,
        frag_offset: 0,
        id: None,
        len: sane_len(said, len),
        transport: at + 40,
    };
    let mut left = MAX_EXTENSIONS;
    while is_extension(ip.proto) && ip.frag_offset == 0 {
        if left == 0 {
            return None;
        }
        left -= 1;
        extension(head, &mut ip)?;
    }
    Some(ip)
}

#[inline(always)]
fn is_extension(proto: u8) -> bool {
    matches!(
        proto,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// Steps over one extension header.
#[inline(always)]
fn extension(head: &Head<'_>, ip: &mut Ip) -> Option<()> {
    let here = ip.transport;
    let kind = ip.proto;
    let units = head.u8(here + 1)? as usize;
    let size = match kind {
        FRAGMENT => 8,
        AUTHENTICATION => (units + 2) * 4,
        _ => (units + 1) * 8,
    };
    if kind == FRAGMENT {
        let frag = head.be16(here + 2)?;
        ip.more_fragments = frag & 1 != 0;
        ip.frag_offset = frag & 0xfff8;
        ip.id = Some(head.be32(here + 4)?);
    }
    ip.proto = head.u8(here)?;
    ip.transport = here + size;
    Some(())
}
