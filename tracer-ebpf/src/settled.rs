//! What a traffic-control tap need not look at. It is there for what the tracepoint beside it cannot
//! see, and that shows in a flow's first packets and whenever its mark or conntrack entry changes:
//! of those that are like one before it nothing is learned, nor are they counted there.

use crate::buffer;
use crate::direct;
use crate::memory::field;
use crate::state::{Work, config};
use core::cell::UnsafeCell;
use tracer_common::{config_flags, ip_proto, tap};
use tracer_ebpf::parse::forget;

/// Packets that were looked at, by what would make the next one different. Where two share a place
/// they drive each other out, and are looked at again.
static SETTLED: Table = Table([const { UnsafeCell::new(0) }; PLACES]);
const PLACES: usize = 4096;

struct Table([UnsafeCell<u64>; PLACES]);

// SAFETY: aligned words are read and written whole, and one that another CPU replaced is a miss.
unsafe impl Sync for Table {}

/// The sum of what makes a packet different; zero: it is to be looked at in any case. `at`, the tap,
/// is known to the compiler: of the tracepoints' programs nothing of this is a part.
#[inline(always)]
pub(crate) fn sum(work: &Work, at: u8, ifindex: u32) -> u64 {
    if at == tap::RECEIVE || at == tap::TRANSMIT {
        return 0;
    }
    let nfct = buffer::nfct(work);
    if direct::only() || config!(flags) & config_flags::EACH_PACKET != 0 || nfct & 7 == NEW {
        return 0;
    }
    let Some(headers) = headers(work) else {
        return 0;
    };
    let mark = u64::from(buffer::mark(work).unwrap_or(0));
    let place = u64::from(ifindex) << 8 | u64::from(at);
    add(add(add(headers, nfct), mark), place) | 1
}

/// `IP_CT_NEW` of `enum ip_conntrack_info`: its flow is being opened.
const NEW: u64 = 2;

/// Whether a packet with this sum was looked at.
#[inline(always)]
pub(crate) fn is_known(sum: u64) -> bool {
    // SAFETY: a static is always readable.
    sum != 0 && unsafe { place(sum).read_volatile() } == sum
}

/// A packet with this sum was looked at.
#[inline(always)]
pub(crate) fn learn(sum: u64) {
    if sum != 0 {
        // SAFETY: the table lies in writable memory; see `Table`.
        unsafe { place(sum).write_volatile(sum) };
    }
}

#[inline(always)]
fn place(sum: u64) -> *mut u64 {
    SETTLED.0[(sum >> 52) as usize % PLACES].get()
}

/// Addresses, protocol and ports of a plain TCP or UDP packet that opens or closes nothing.
#[inline(always)]
fn headers(work: &Work) -> Option<u64> {
    let valid = forget(&work.valid);
    let word = |at: usize| field!(work.head.0, at, u64).unwrap_or(0);
    let half = |at: usize| field!(work.head.0, at, u32).map_or(0, u64::from);
    match work.head.0[0] {
        // Without options and no fragment: the ports follow the addresses.
        0x45 if valid >= 34 && field!(work.head.0, 6, u16)? & NO_FRAGMENT == 0 => {
            opens_nothing(work.head.0[9], work.head.0[33])?;
            let ports = half(20) << 8 | u64::from(work.head.0[9]);
            let len = field!(work.head.0, 2, u16).map_or(0, u16::from_be);
            let ports = ports | has_payload(work.head.0[32], len, 20);
            Some(add(add(0, half(12) << 32 | half(16)), ports))
        }
        first if first >> 4 == 6 && valid >= 54 => {
            opens_nothing(work.head.0[6], work.head.0[53])?;
            let ports = half(40) << 8 | u64::from(work.head.0[6]);
            let len = field!(work.head.0, 4, u16).map_or(0, u16::from_be);
            let ports = ports | has_payload(work.head.0[52], len, 0);
            let sum = add(add(0, word(8)), word(16));
            Some(add(add(add(sum, word(24)), word(32)), ports))
        }
        _ => None,
    }
}

/// A bit above ports and protocol if a TCP segment has payload: the first that has is another packet
/// than the acknowledgement before it. `len`: of the packet, `before` bytes of IP's header included.
#[inline(always)]
fn has_payload(data_offset: u8, len: u16, before: u32) -> u64 {
    let headers = before + u32::from(data_offset >> 4) * 4;
    u64::from(u32::from(len) != headers) << 40
}

/// The fragment offset and "more fragments", as they lie in the header.
const NO_FRAGMENT: u16 = 0x3fff_u16.to_be();
/// FIN, SYN and RST.
const TRANSITIONS: u8 = 0x07;

#[inline(always)]
fn opens_nothing(proto: u8, tcp_flags: u8) -> Option<()> {
    let plain = proto == ip_proto::UDP || (proto == ip_proto::TCP && tcp_flags & TRANSITIONS == 0);
    plain.then_some(())
}

/// Adds a word to a sum, so that the upper bits depend on all of it.
#[inline(always)]
fn add(sum: u64, word: u64) -> u64 {
    let sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum ^ sum >> 32
}
