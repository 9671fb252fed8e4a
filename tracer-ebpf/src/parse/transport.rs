//! TCP, UDP, SCTP and ICMP headers, and the packet that an ICMP error quotes.

use super::{Cursor, Head, ip};
use tracer_common::{RawEvent, RawTuple, ip_proto, present};

const UDP_LITE: u8 = 136;
const DCCP: u8 = 33;

/// Fills in ports and fingerprint and steps over the transport header.
#[inline(always)]
pub(super) fn header(head: &Head<'_>, cursor: &mut Cursor, event: &mut RawEvent) -> Option<()> {
    let at = cursor.at();
    match cursor.proto() {
        ip_proto::TCP => tcp(head, cursor, event)?,
        ip_proto::UDP | UDP_LITE | DCCP => {
            ports(head, at, &mut event.tuple)?;
            cursor.step(8);
        }
        ip_proto::SCTP => {
            ports(head, at, &mut event.tuple)?;
            event.print.seq = head.be32(at + 4)?;
            cursor.step(12);
        }
        ip_proto::ICMP | ip_proto::ICMPV6 => icmp(head, cursor, event)?,
        _ => {}
    }
    Some(())
}

#[inline(always)]
fn ports(head: &Head<'_>, at: usize, tuple: &mut RawTuple) -> Option<()> {
    tuple.sport = head.port(at)?;
    tuple.dport = head.port(at + 2)?;
    Some(())
}

#[inline(always)]
fn tcp(head: &Head<'_>, cursor: &mut Cursor, event: &mut RawEvent) -> Option<()> {
    let at = cursor.at();
    ports(head, at, &mut event.tuple)?;
    event.print.seq = head.be32(at + 4)?;
    event.print.ack = head.be32(at + 8)?;
    let words = head.u8(at + 12)? >> 4;
    event.print.tcp_flags = head.u8(at + 13)?;
    event.present |= present::TCP;
    if words < 5 {
        return None;
    }
    cursor.step((words as usize) * 4);
    Some(())
}

/// ICMP types that carry an identifier: echo and timestamp.
#[inline(always)]
fn has_identifier(proto: u8, kind: u8) -> bool {
    if proto == ip_proto::ICMP {
        matches!(kind, 0 | 8 | 13 | 14)
    } else {
        matches!(kind, 128 | 129)
    }
}

/// ICMP types that quote the packet they are about.
#[inline(always)]
pub(super) fn is_error(proto: u8, kind: u8) -> bool {
    match proto {
        ip_proto::ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        ip_proto::ICMPV6 => matches!(kind, 1..=4),
        _ => false,
    }
}

#[inline(always)]
fn icmp(head: &Head<'_>, cursor: &mut Cursor, event: &mut RawEvent) -> Option<()> {
    let at = cursor.at();
    let proto = cursor.proto();
    let kind = head.u8(at)?;
    event.print.icmp_type = kind;
    event.print.icmp_code = head.u8(at + 1)?;
    if has_identifier(proto, kind) {
        event.tuple.sport = head.port(at + 4)?;
        event.print.seq = u32::from(head.be16(at + 6)?);
    }
    cursor.step(8);
    Some(())
}

/// The tuple of the packet quoted under the cursor. RFC 792 promises only eight bytes of its
/// transport header: ports, or an echo's identifier.
#[inline(always)]
pub(super) fn quoted(head: &Head<'_>, cursor: &mut Cursor, tuple: &mut RawTuple) -> Option<()> {
    ip::header(head, cursor, tuple)?;
    if cursor.is_later_fragment() {
        return Some(());
    }
    let at = cursor.at();
    match cursor.proto() {
        ip_proto::TCP | ip_proto::UDP | ip_proto::SCTP | UDP_LITE | DCCP => ports(head, at, tuple),
        proto @ (ip_proto::ICMP | ip_proto::ICMPV6) => {
            if has_identifier(proto, head.u8(at)?) {
                tuple.sport = head.port(at + 4)?;
            }
            Some(())
        }
        _ => Some(()),
    }
}
