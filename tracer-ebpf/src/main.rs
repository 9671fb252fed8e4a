//! The kernel half of srctrace: one entry per tap, all of them the same [`observe`].
//!
//! It reads packets, kernel structures and its own maps; it changes nothing: no helper that writes
//! to a packet, redirects or drops is called.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
// The atomic addition: core offers none on targets without compare-and-swap.
#![cfg_attr(target_arch = "bpf", feature(core_intrinsics, asm_experimental_arch))]
#![cfg_attr(target_arch = "bpf", expect(internal_features, reason = "see above"))]
#![cfg_attr(
    not(target_arch = "bpf"),
    allow(dead_code, reason = "the programs are built for bpf only")
)]

#[cfg(not(target_arch = "bpf"))]
fn main() {}

#[cfg(target_arch = "bpf")]
mod buffer;
#[cfg(target_arch = "bpf")]
mod bulk;
#[cfg(target_arch = "bpf")]
mod clock;
#[cfg(target_arch = "bpf")]
mod conntrack;
#[cfg(target_arch = "bpf")]
mod direct;
#[cfg(target_arch = "bpf")]
mod drops;
#[cfg(target_arch = "bpf")]
mod emit;
#[cfg(target_arch = "bpf")]
mod filter;
#[cfg(target_arch = "bpf")]
mod follow;
#[cfg(target_arch = "bpf")]
mod glance;
#[cfg(target_arch = "bpf")]
mod in_use;
#[cfg(target_arch = "bpf")]
mod memory;
#[cfg(target_arch = "bpf")]
mod observe;
#[cfg(target_arch = "bpf")]
mod opening;
#[cfg(target_arch = "bpf")]
mod origin;
#[cfg(target_arch = "bpf")]
mod plain;
#[cfg(target_arch = "bpf")]
mod policy;
#[cfg(target_arch = "bpf")]
mod rules;
#[cfg(target_arch = "bpf")]
mod settled;
#[cfg(target_arch = "bpf")]
mod shown;
#[cfg(target_arch = "bpf")]
mod sockets;
#[cfg(target_arch = "bpf")]
mod state;
#[cfg(target_arch = "bpf")]
mod taps;
#[cfg(target_arch = "bpf")]
mod unwrap;
#[cfg(target_arch = "bpf")]
mod words;

/// The kernel lets only GPL-compatible programs call the helpers that read its memory.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The verifier refuses a program in which this could be reached.
    loop {}
}
