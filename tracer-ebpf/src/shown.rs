//! The short way of the traffic-control programs: what they are shown of a packet is read in place, without asking for a
//! copy of its buffer. That is enough for nearly every packet; the rest is read as at the tracepoints.
//!
//! Kernel: `data` and `data_end` of `struct __sk_buff` (linux/bpf.h), between which the verifier lets a program read.

use crate::buffer::{ETH_P_IP, ETH_P_IPV6, Packet};
use crate::direct::shown;
use crate::memory;
use crate::state::{Work, offset};
use crate::{direct, glance, plain, settled, unwrap};
use aya_ebpf::bindings::__sk_buff;
use core::arch::asm;
use tracer_common::ABSENT;
use tracer_ebpf::parse::forget;

/// Ethernet's header.
const LINK: u32 = 14;
/// What is read of a packet behind that: of IPv4, and of IPv6.
const V4: u64 = 40;
const V6: u64 = 56;
/// EtherTypes in network order.
const IP: u32 = ETH_P_IP.to_be() as u32;
const IPV6: u32 = ETH_P_IPV6.to_be() as u32;

/// Whether there is nothing to be done about the packet. `false`: it is to be looked at as at other taps.
#[inline(always)]
pub(crate) fn is_nothing_new(work: &mut Work, skb: *mut __sk_buff, tap: u8, ifindex: u32) -> bool {
    if direct::only() || read(work, skb).is_none() || unwrap::may_wrap(work) {
        return false;
    }
    if glance::is_nobodys(work) {
        return true;
    }
    if beside(work, skb).is_none() {
        return false;
    }
    settled::is_known(settled::sum(work, tap, ifindex))
}

/// Reads the headers of a plain Ethernet frame; `None` for others.
#[inline(always)]
fn read(work: &mut Work, skb: *mut __sk_buff) -> Option<()> {
    let proto = shown!(skb, protocol);
    let most = match proto {
        IP => V4,
        IPV6 => V6,
        _ => return None,
    };
    let data = u64::from(shown!(skb, data));
    let end = u64::from(shown!(skb, data_end));
    if data + u64::from(LINK) + V4 > end {
        return None;
    }
    if half::<12>(data) != u64::from(proto) {
        return None; // no Ethernet, or a VLAN tag
    }
    copy::<0>(work, data);
    copy::<8>(work, data);
    copy::<16>(work, data);
    copy::<24>(work, data);
    copy::<32>(work, data);
    if most == V6 {
        if data + u64::from(LINK) + V6 > end {
            return None;
        }
        copy::<40>(work, data);
        copy::<48>(work, data);
    }
    let len = shown!(skb, len).checked_sub(LINK)?;
    work.valid = most;
    work.wrap = 0;
    work.packet = Packet::read(len);
    // A header that gives its packet another length than the frame's may be none.
    (plain::length(work) == len).then_some(())
}

/// Copies eight bytes of the packet.
#[inline(always)]
fn copy<const AT: usize>(work: &mut Work, data: u64) {
    let word: u64;
    // SAFETY: reads the packet, inside the bounds that were checked before; the verifier checks that. Packets
    // lie at any address, which a load of the language's own may not.
    unsafe {
        asm!("{word} = *(u64 *)({data} + {at})", word = out(reg) word, data = in(reg) data, at = const AT + LINK as usize, options(readonly, nostack));
        work.head.0.as_mut_ptr().add(AT).cast::<u64>().write(word);
    }
}

/// A half word of the frame.
#[inline(always)]
fn half<const AT: usize>(data: u64) -> u64 {
    let half: u64;
    // SAFETY: as in `copy`.
    unsafe {
        asm!("{half} = *(u16 *)({data} + {at})", half = out(reg) half, data = in(reg) data, at = const AT, options(readonly, nostack));
    }
    half
}

/// Reads what the buffer says beside the packet, as far as [`settled::sum`] asks for it.
#[inline(always)]
fn beside(work: &mut Work, skb: *mut __sk_buff) -> Option<()> {
    memory::put(work, offset!(skb_mark), shown!(skb, mark));
    if offset!(skb_nfct) != ABSENT {
        // Not the context itself: the verifier would not let it be reckoned with.
        let nfct = memory::at::<u64>(forget(&work.at), offset!(skb_nfct))?;
        memory::put(work, offset!(skb_nfct), nfct);
    }
    Some(())
}
