//! The conntrack entry that a packet carries (`skb->_nfct`).
//!
//! Kernel: `include/linux/skbuff.h` keeps the entry's address and, in the low three bits,
//! `enum ip_conntrack_info`; `struct nf_conn` and `struct nf_conntrack_tuple` are read by BTF
//! offsets.

use crate::memory::{self, field};
use crate::state::{NF_CONN, Work, offset};
use tracer_common::{ABSENT, RawTuple, family, ip_proto, present};

const POINTER: u64 = !7;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The `info` bits of an untracked packet (`IP_CT_UNTRACKED`).
pub(crate) const UNTRACKED: u64 = 7;

/// `IP_CT_NEW` of `enum ip_conntrack_info`: its flow is being opened.
const NEW: u64 = 2;

/// Whether `_nfct` says that the packet opens its flow.
#[inline(always)]
pub(crate) fn is_new(nfct: u64) -> bool {
    nfct & 7 == NEW
}

/// Whether `_nfct` names an entry.
#[inline(always)]
pub(crate) fn is_entry(nfct: u64) -> bool {
    nfct & POINTER != 0 && nfct & 7 != UNTRACKED
}

/// `IPS_SRC_NAT | IPS_DST_NAT` of `enum ip_conntrack_status` (uapi
/// linux/netfilter/nf_conntrack_common.h).
const NAT: u64 = 1 << 4 | 1 << 5;

/// Whether `_nfct` names an entry that translates: one word is read, not the entry.
#[inline(always)]
pub(crate) fn is_translated(nfct: u64) -> bool {
    is_entry(nfct)
        && memory::at::<u64>(nfct & POINTER, offset!(ct_status)).is_some_and(|s| s & NAT != 0)
}

/// `IPS_CONFIRMED` of the same: the flow's first packet has passed its last hook.
const CONFIRMED: u64 = 1 << 3;

/// Whether `_nfct` names the entry of a flow whose first packet is still on its way.
#[inline(always)]
pub(crate) fn is_unconfirmed(nfct: u64) -> bool {
    is_entry(nfct)
        && memory::at::<u64>(nfct & POINTER, offset!(ct_status))
            .is_some_and(|status| status & CONFIRMED == 0)
}

/// Reads the entry into `work.event.conntrack`, once. A function of its own for its stack.
#[inline(never)]
pub(crate) fn read(work: &mut Work) -> bool {
    let nfct = work.nfct;
    work.event.present & present::CONNTRACK != 0 || read_entry(work, nfct).is_some()
}

#[inline(always)]
fn read_entry(work: &mut Work, nfct: u64) -> Option<()> {
    // The second is known to the verifier: where nothing of an entry can be read, nothing is.
    if !is_entry(nfct) || offset!(ct_orig) == ABSENT {
        return None;
    }
    memory::nf_conn(work, nfct & POINTER)?;
    let bytes = &work.nf_conn;
    let entry = &mut work.event.conntrack;
    tuple(bytes, offset!(ct_orig), &mut entry.orig)?;
    tuple(bytes, offset!(ct_reply), &mut entry.reply)?;
    entry.status = field!(bytes, offset!(ct_status), u32)?;
    entry.info = (nfct & 7) as u8;
    let (mark, zone) = (
        field!(bytes, offset!(ct_mark), u32),
        field!(bytes, offset!(ct_zone), u16),
    );
    entry.mark = mark.unwrap_or(0);
    entry.mark_known = u8::from(mark.is_some());
    entry.zone = zone.unwrap_or(0);
    entry.zone_known = u8::from(zone.is_some());
    work.event.present |= present::CONNTRACK;
    Some(())
}

/// One `struct nf_conntrack_tuple` at `base`.
#[inline(always)]
fn tuple(bytes: &[u8; NF_CONN], base: u32, to: &mut RawTuple) -> Option<()> {
    let at = |offset: u32| base.wrapping_add(offset);
    to.proto = field!(bytes, at(offset!(tuple_proto)), u8)?;
    to.src = field!(bytes, at(offset!(tuple_src)), [u8; 16])?;
    to.dst = field!(bytes, at(offset!(tuple_dst)), [u8; 16])?;
    to.sport = field!(bytes, at(offset!(tuple_sport)), [u8; 2])?;
    to.dport = field!(bytes, at(offset!(tuple_dport)), [u8; 2])?;
    if to.proto == ip_proto::ICMP || to.proto == ip_proto::ICMPV6 {
        to.dport = [0; 2]; // type and code live there
    }
    match field!(bytes, at(offset!(tuple_l3num)), u16)? {
        AF_INET => {
            to.family = family::V4;
            clear_tail(&mut to.src);
            clear_tail(&mut to.dst);
        }
        AF_INET6 => to.family = family::V6,
        _ => return None,
    }
    Some(())
}

/// An IPv4 address uses the first four bytes; the rest of the union is not always zero.
#[inline(always)]
fn clear_tail(addr: &mut [u8; 16]) {
    let mut i = 4;
    while i < 16 {
        addr[i] = 0;
        i += 1;
    }
}
