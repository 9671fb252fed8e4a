//! The first look at a packet, without parsing it: most packets of a node are nobody's business,
//! and this is all they pay.

use crate::memory::field;
use crate::state::{Work, config, learned_any};
use crate::{buffer, conntrack, follow};
use tracer_common::{MAX_INLINE_DESTS, config_flags, ip_proto};
use tracer_ebpf::parse::forget;

/// Whether the packet is neither asked for nor part of what was.
#[inline(always)]
pub(crate) fn is_nobodys(work: &Work) -> bool {
    !may_be_ours(work) && !may_be_followed(work)
}

/// Whether the filter could take this packet. Never says no to one that it would take: only to TCP,
/// UDP and other plain packets neither from nor to any of a few destinations.
#[inline(always)]
pub(crate) fn may_be_ours(work: &Work) -> bool {
    if config!(flags) & config_flags::INLINE_DESTS == 0 {
        return true;
    }
    let valid = forget(&work.valid);
    match work.head.0[0] >> 4 {
        4 if valid >= 20 => v4(work),
        6 if valid >= 40 => v6(work),
        _ => true,
    }
}

/// An ICMP error may quote a packet of ours: it is looked at whole.
#[inline(always)]
fn v4(work: &Work) -> bool {
    let word = |at: usize| field!(work.head.0, at, u32).map_or(0, u64::from);
    work.head.0[9] == ip_proto::ICMP || any_dest(4, [word(12), 0], [word(16), 0])
}

/// So is a packet with extension headers, behind which anything may be.
#[inline(always)]
fn v6(work: &Work) -> bool {
    let word = |at: usize| field!(work.head.0, at, u64).unwrap_or(0);
    let plain = matches!(
        work.head.0[6],
        ip_proto::TCP | ip_proto::UDP | ip_proto::SCTP
    );
    !plain || any_dest(6, [word(8), word(16)], [word(24), word(32)])
}

/// Whether either address lies in one of the destinations.
#[inline(always)]
fn any_dest(family: u32, src: [u64; 2], dst: [u64; 2]) -> bool {
    let mut i = 0;
    while i < MAX_INLINE_DESTS {
        let of = config!(dests[i].family);
        if of == 0 {
            return false;
        }
        let inside = |a: [u64; 2]| {
            a[0] & config!(dests[i].mask[0]) == config!(dests[i].addr[0])
                && a[1] & config!(dests[i].mask[1]) == config!(dests[i].addr[1])
        };
        if of == family && (inside(src) || inside(dst)) {
            return true;
        }
        i += 1;
    }
    false
}

/// Whether it could be part of a flow that was ours before: see `observe::follow_packet`, which
/// decides.
#[inline(always)]
fn may_be_followed(work: &Work) -> bool {
    learned_any()
        || follow::may_be_noted(forget(&work.at))
        || buffer::made_here(work) && conntrack::is_translated(buffer::nfct(work))
}
