//! The one reader of kernel memory.

use crate::state::{NF_CONN, SKB, Work, config};
use aya_ebpf::helpers::{bpf_probe_read_kernel, bpf_probe_read_kernel_buf, generated};
use core::arch::asm;
use tracer_common::{ABSENT, SKB_WINDOW, config_flags};
use tracer_ebpf::parse::HEAD;

/// A field inside bytes that were read before. `None` where this kernel has no such field. The bytes
/// and the field in them are aligned, as fields are in C: a load that may be unaligned is made of
/// bytes and shifts.
macro_rules! field {
    ($bytes:expr, $offset:expr, $ty:ty) => {{
        let offset = $offset as usize;
        if offset > $bytes.len() - size_of::<$ty>() {
            None // ABSENT, or beyond what was read
        } else {
            // SAFETY: inside the array, by the check above, and aligned: see above.
            Some(unsafe { $bytes.as_ptr().add(offset).cast::<$ty>().read() })
        }
    }};
}
pub(crate) use field;

/// Puts a field of `struct sk_buff` to where [`field`] reads it. Nothing is done where this kernel has none.
#[inline(always)]
pub(crate) fn put<T>(work: &mut Work, offset: u32, value: T) {
    let offset = offset as usize;
    if offset <= SKB - size_of::<T>() {
        // SAFETY: inside the array, by the check above, and aligned: see `field`.
        unsafe { work.skb.as_mut_ptr().add(offset).cast::<T>().write(value) };
    }
}

/// Reads a value from a kernel structure at `base`. `None` where the kernel has no such field or
/// refuses the read.
#[inline(always)]
pub(crate) fn at<T>(base: u64, offset: u32) -> Option<T> {
    if offset == ABSENT || base == 0 {
        return None;
    }
    // SAFETY: the helper checks the address and fails instead of faulting.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const T) }.ok()
}

/// Reads the part of `struct sk_buff` in which all fields lie that are taken from `work.skb`: a
/// window where user space found them to lie in it, else all of it.
#[inline(always)]
pub(crate) fn skb(work: &mut Work, skb: u64) -> Option<()> {
    let window = SKB_WINDOW.0 as usize..SKB_WINDOW.1 as usize;
    let (from, to) = if config!(flags) & config_flags::SKB_WINDOW != 0 {
        (skb + window.start as u64, &mut work.skb[window])
    } else {
        (skb, &mut work.skb[..SKB])
    };
    // SAFETY: as in `at`.
    unsafe { bpf_probe_read_kernel_buf(from as *const u8, to) }.ok()
}

/// Reads `struct nf_conn`.
#[inline(always)]
pub(crate) fn nf_conn(work: &mut Work, ct: u64) -> Option<()> {
    // SAFETY: as in `at`.
    unsafe { bpf_probe_read_kernel_buf(ct as *const u8, &mut work.nf_conn[..NF_CONN]) }.ok()
}

/// Reads up to `MOST` bytes of packet data at `from`; returns how many.
#[inline(always)]
pub(crate) fn head<const MOST: usize>(work: &mut Work, from: u64, available: u32) -> Option<u64> {
    const { assert!(MOST <= HEAD) };
    if available == 0 {
        return None;
    }
    let want = at_most::<MOST>(available);
    // SAFETY: `want` is at most the array's size; the helper checks the source address.
    let failed = unsafe {
        generated::bpf_probe_read_kernel(
            work.head.0.as_mut_ptr().cast(),
            want as u32,
            from as *const _,
        )
    };
    (failed == 0).then_some(want)
}

/// The smaller of `n` and `MOST`. In two instructions of ours, because the compiler's own ways to
/// say it leave the verifier without an upper bound.
#[inline(always)]
pub(crate) fn at_most<const MOST: usize>(n: u32) -> u64 {
    let mut n = u64::from(n);
    // SAFETY: changes only the register it names.
    unsafe {
        asm!("if {n} <= {max} goto +1", "{n} = {max}", n = inout(reg) n, max = const MOST, options(pure, nomem));
    }
    n
}

/// The number, which is not zero, in a form that shows this to the verifier.
#[inline(always)]
pub(crate) fn at_least_one(mut n: u64) -> u64 {
    // SAFETY: changes only the register it names.
    unsafe {
        asm!("if {n} >= 1 goto +1", "{n} = 1", n = inout(reg) n, options(pure, nomem));
    }
    n
}
