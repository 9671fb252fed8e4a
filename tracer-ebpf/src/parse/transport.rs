//! TCP, UDP, SCTP and ICMP headers, and the packet that an ICMP error quotes.

use super::{Head, ip, ip::Ip};
use tracer_common::{RawEvent, RawTuple, ip_proto, present};

const UDP_LITE: u8 = 136;
const DCCP: u8 = 33;

/// Fills in ports and fingerprint; returns the offset of the payload.
#[inline(always)]
pub(super) fn header(head: &Head<'_>, l3: &Ip, event: &mut RawEvent) -> Option<usize> {
    let at = l3.transport;
    match l3.proto {
        ip_proto::TCP => tcp(head, at, event),
        ip_proto::UDP | UDP_LITE | DCCP => ports(head, at, &mut event.tuple).map(|()| at + 8),
        ip_proto::SCTP => {
            ports(head, at, &mut event.tuple)?;
            event.print.seq = head.be32(at + 4)?;
            Some(at + 12)
        }
        ip_proto::ICMP | ip_proto::ICMPV6 => icmp(head, l3, event),
        _ => Some(at),
    }
}

#[inline(always)]
fn ports(head: &Head<'_>, at: usize, tuple: &mut RawTuple) -> Option<()> {
    tuple.sport = head.array(at)?;
    tuple.dport = head.array(at + 2)?;
    Some(())
}

#[inline(always)]
fn tcp(head: &Head<'_>, at: usize, event: &mut RawEvent) -> Option<usize> {
    ports(head, at, &mut event.tuple)?;
    event.print.seq = head.be32(at + 4)?;
    event.print.ack = head.be32(at + 8)?;
    let words = head.u8(at + 12)? >> 4;
    event.print.tcp_flags = head.u8(at + 13)?;
    event.present |= present::TCP;
    if words < 5 {
        return None;
    }
    Some(at + (words as usize) * 4)
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
fn is_error(proto: u8, kind: u8) -> bool {
    if proto == ip_proto::ICMP {
        matches!(kind, 3 | 4 | 5 | 11 | 12)
    } else {
        matches!(kind, 1..=4)
    }
}

#[inline(always)]
fn icmp(head: &Head<'_>, l3: &Ip, event: &mut RawEvent) -> Option<usize> {
    let at = l3.transport;
    let kind = head.u8(at)?;
    event.print.icmp_type = kind;
    event.print.icmp_code = head.u8(at + 1)?;
    if has_identifier(l3.proto, kind) {
        event.tuple.sport = head.array(at + 4)?;
        event.print.seq = u32::from(head.be16(at + 6)?);
    } else if is_error(l3.proto, kind) && quoted(head, at + 8, &mut event.quoted).is_some() {
        event.present |= present::QUOTED;
    }
    Some(at + 8)
}

/// The tuple of the packet quoted at `at`. RFC 792 promises only eight bytes of its transport
/// header: ports, or an echo's identifier.
#[inline(always)]
fn quoted(head: &Head<'_>, at: usize, tuple: &mut RawTuple) -> Option<()> {
    let l3 = ip::header(head, at, u32::MAX, tuple)?;
    if l3.is_later_fragment() {
        return Some(());
    }
    match l3.proto {
        ip_proto::TCP | ip_proto::UDP | ip_proto::SCTP | UDP_LITE | DCCP => {
            ports(head, l3.transport, tuple)
        }
        ip_proto::ICMP | ip_proto::ICMPV6 => {
            if has_identifier(l3.proto, head.u8(l3.transport)?) {
                tuple.sport = head.array(l3.transport + 4)?;
            }
            Some(())
        }
        _ => Some(()),
    }
}
