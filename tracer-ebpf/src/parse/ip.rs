//! IPv4 and IPv6 headers, with options and extension headers.

use super::{Cursor, Head, forget};
use tracer_common::{RawEvent, RawTuple, family, present};

/// Reads the IP header under the cursor; addresses, family and protocol go to `tuple`, the cursor
/// to what follows all IP headers. `cursor.len`: bytes from here on, as the buffer says.
#[inline(always)]
pub(super) fn header(head: &Head<'_>, cursor: &mut Cursor, tuple: &mut RawTuple) -> Option<()> {
    match head.u8(cursor.at())? >> 4 {
        4 => v4(head, cursor, tuple)?,
        6 => v6(head, cursor, tuple)?,
        _ => return None,
    }
    tuple.proto = cursor.proto();
    Some(())
}

/// TTL or hop limit of the outermost header.
#[inline(always)]
pub(super) fn ttl(head: &Head<'_>) -> Option<u8> {
    let at = if head.u8(0)? >> 4 == 4 { 8 } else { 7 };
    head.u8(at)
}

/// Sets the fields that come from fragmentation and identification.
#[inline(always)]
pub(super) fn identify(cursor: &Cursor, event: &mut RawEvent) {
    event.print.ip_id = forget(&cursor.id);
    event.print.frag_offset = forget(&cursor.frag_offset);
    if cursor.has(Cursor::HAS_ID) {
        event.present |= present::IP_ID;
    }
    if cursor.is_later_fragment() {
        event.present |= present::LATER_FRAGMENT;
    } else if cursor.has(Cursor::MORE_FRAGMENTS) {
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
fn v4(head: &Head<'_>, cursor: &mut Cursor, tuple: &mut RawTuple) -> Option<()> {
    let at = cursor.at();
    let words = head.u8(at)? & 0x0f;
    if words < 5 {
        return None;
    }
    tuple.family = family::V4;
    head.address::<1>(at + 12, &mut tuple.src)?;
    head.address::<1>(at + 16, &mut tuple.dst)?;
    let frag = head.be16(at + 6)?;
    let id = head.be16(at + 4)?;
    cursor.len = sane_len(u32::from(head.be16(at + 2)?), cursor.len);
    cursor.proto = head.u8(at + 9)?;
    cursor.id = u32::from(id);
    cursor.frag_offset = (frag & 0x1fff) << 3;
    cursor.flags = if frag & 0x2000 != 0 {
        Cursor::MORE_FRAGMENTS
    } else {
        0
    };
    if id != 0 || frag & 0x3fff != 0 {
        cursor.flags |= Cursor::HAS_ID;
    }
    cursor.step((words as usize) * 4);
    Some(())
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

#[inline(always)]
fn v6(head: &Head<'_>, cursor: &mut Cursor, tuple: &mut RawTuple) -> Option<()> {
    let at = cursor.at();
    tuple.family = family::V6;
    head.address::<4>(at + 8, &mut tuple.src)?;
    head.address::<4>(at + 24, &mut tuple.dst)?;
    let payload = u32::from(head.be16(at + 4)?);
    let said = if payload == 0 { 0 } else { payload + 40 };
    cursor.len = sane_len(said, cursor.len);
    cursor.proto = head.u8(at + 6)?;
    cursor.step(40);
    // Written out: the loop that the compiler makes of it closes by falling through, which
    // verifiers before 6.4 take for an endless one.
    skip_extension(head, cursor)?;
    skip_extension(head, cursor)?;
    skip_extension(head, cursor)?;
    skip_extension(head, cursor)?;
    skip_extension(head, cursor)?;
    skip_extension(head, cursor)?;
    (!is_extension(cursor.proto()) || cursor.is_later_fragment()).then_some(())
}

/// Steps over one extension header if there is one. Six are as many as RFC 8200 knows; a packet
/// with more is refused.
#[inline(always)]
fn skip_extension(head: &Head<'_>, cursor: &mut Cursor) -> Option<()> {
    if is_extension(cursor.proto()) && !cursor.is_later_fragment() {
        return extension(head, cursor);
    }
    Some(())
}

#[inline(always)]
fn is_extension(proto: u8) -> bool {
    matches!(
        proto,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// The extension header under the cursor.
#[inline(always)]
fn extension(head: &Head<'_>, cursor: &mut Cursor) -> Option<()> {
    let at = cursor.at();
    let next = head.u8(at)?;
    let units = head.u8(at + 1)? as usize;
    let size = match cursor.proto() {
        FRAGMENT => {
            let frag = head.be16(at + 2)?;
            cursor.id = head.be32(at + 4)?;
            cursor.frag_offset = frag & 0xfff8;
            cursor.flags = Cursor::HAS_ID
                | if frag & 1 != 0 {
                    Cursor::MORE_FRAGMENTS
                } else {
                    0
                };
            8
        }
        AUTHENTICATION => (units + 2) * 4,
        _ => (units + 1) * 8,
    };
    cursor.proto = next;
    cursor.step(size);
    Some(())
}
