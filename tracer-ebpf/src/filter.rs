//! What the user asked for: destinations, sources, ports, protocols.

use crate::state::{DESTS, SOURCES, config};
use aya_ebpf::maps::lpm_trie::Key;
use tracer_common::{
    MAX_INLINE_DESTS, MAX_PORT_RANGES, PrefixKey, RawTuple, config_flags, proto_bit,
};

/// Whether a packet with this tuple is a request that was asked for. `portless`: the packet has no
/// ports to compare (a later fragment). A function of its own for its stack.
#[inline(never)]
pub(crate) fn forward(tuple: &RawTuple, portless: bool) -> bool {
    let flags = config!(flags);
    let mut ports = config!(port_mask);
    if flags & config_flags::DEST != 0 {
        match destination(tuple, flags) {
            Some(mask) => ports = mask,
            None => return false,
        }
    }
    if flags & config_flags::SRC != 0
        && SOURCES
            .get(Key::new(PrefixKey::BITS, PrefixKey::src(tuple)))
            .is_none()
    {
        return false;
    }
    proto(tuple.proto) && (portless || ports == 0 || port(tuple.dport, ports))
}

/// The port mask of the destination that holds this tuple's.
#[inline(always)]
fn destination(tuple: &RawTuple, flags: u32) -> Option<u32> {
    if flags & config_flags::INLINE_DESTS == 0 {
        return DESTS
            .get(Key::new(PrefixKey::BITS, PrefixKey::dst(tuple)))
            .copied();
    }
    // SAFETY: a tuple is aligned as a word, and its addresses begin at multiples of one.
    let dst = unsafe { (&raw const tuple.dst).cast::<[u64; 2]>().read() };
    let mut i = 0;
    while i < MAX_INLINE_DESTS {
        let family = config!(dests[i].family);
        if family == 0 {
            return None;
        }
        if family == u32::from(tuple.family)
            && dst[0] & config!(dests[i].mask[0]) == config!(dests[i].addr[0])
            && dst[1] & config!(dests[i].mask[1]) == config!(dests[i].addr[1])
        {
            return Some(config!(dests[i].ports));
        }
        i += 1;
    }
    None
}

/// Whether a packet with this tuple answers such a request.
#[inline(never)]
pub(crate) fn reverse(tuple: &RawTuple, portless: bool) -> bool {
    forward(&tuple.reversed(), portless)
}

#[inline(always)]
fn proto(proto: u8) -> bool {
    if config!(flags) & config_flags::PROTO == 0 {
        return true;
    }
    let (word, bit) = proto_bit(proto);
    config!(protos[word & 7]) & bit != 0
}

#[inline(always)]
fn port(port: [u8; 2], mask: u32) -> bool {
    let port = u16::from_be_bytes(port);
    let mut i = 0;
    while i < MAX_PORT_RANGES {
        let [low, high] = config!(ports[i]);
        if mask & (1 << i) != 0 && low <= port && port <= high {
            return true;
        }
        i += 1;
    }
    false
}
