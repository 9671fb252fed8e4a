//! What user space tells the programs before they are loaded.

use crate::{RawTuple, family};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// How many port ranges a filter may have.
pub const MAX_PORT_RANGES: usize = 16;

/// How many destination prefixes are compared in place, without a look into the trie.
pub const MAX_INLINE_DESTS: usize = 4;

/// A destination prefix that is compared in place.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct InlineDest {
    /// The prefix's address in two words, as they lie in [`RawTuple::dst`]; bits beyond the prefix
    /// are zero.
    pub addr: [u64; 2],
    /// Ones where the prefix decides.
    pub mask: [u64; 2],
    /// One of [`family`]; zero: not used, and none after it is.
    pub family: u32,
    /// A mask of port ranges; zero: every port.
    pub ports: u32,
}

const _: () = assert!(size_of::<InlineDest>() == 40);

impl InlineDest {
    /// A prefix of `len` bits with its ports.
    #[must_use]
    pub fn new(addr: core::net::IpAddr, len: u8, ports: u32) -> Self {
        let (_, key) = prefix_key(addr, len);
        let mut mask = [0u8; 16];
        for (i, byte) in mask.iter_mut().enumerate() {
            let bits = u32::from(len).saturating_sub(8 * i as u32).min(8);
            *byte = !(0xffu32 >> bits) as u8;
        }
        let mask = words(mask);
        let addr = words(key.addr);
        Self {
            addr: [addr[0] & mask[0], addr[1] & mask[1]],
            mask,
            family: u32::from(key.family[0]),
            ports,
        }
    }
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    [word(0), word(8)]
}

/// Bits of [`Config::flags`].
pub mod config_flags {
    /// A `--dest` was given: the destination trie decides.
    pub const DEST: u32 = 1 << 0;
    /// A `--src` was given: the source trie decides.
    pub const SRC: u32 = 1 << 1;
    /// A `--scope` was given: only namespaces in the scope map are looked at.
    pub const SCOPE: u32 = 1 << 2;
    /// Tell every packet (`--each-packet`).
    pub const EACH_PACKET: u32 = 1 << 3;
    /// A `--proto` was given: the protocol bits decide.
    pub const PROTO: u32 = 1 << 4;
    /// The destinations are all in [`super::Config::dests`]: the trie is not asked.
    pub const INLINE_DESTS: u32 = 1 << 5;
    /// Only [`super::SKB_WINDOW`] of `struct sk_buff` need be read.
    pub const SKB_WINDOW: u32 = 1 << 6;
    /// Kernel memory may not be read: the programs keep [`crate::DirectSkb`] in place of a copy of
    /// `struct sk_buff`, and the traffic-control taps are all there are.
    pub const DIRECT: u32 = 1 << 7;
}

/// The filter, frozen into `.rodata`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Config {
    /// Bits of [`config_flags`].
    pub flags: u32,
    /// Which of `ports` apply where no `--dest` says otherwise, a bit each; zero: every port.
    /// (The destination trie's values are such masks, too.)
    pub port_mask: u32,
    /// Protocols asked for, a bit each ([`proto_bit`]), with [`config_flags::PROTO`].
    pub protos: [u32; 8],
    /// Destination port ranges, both ends included, host byte order.
    pub ports: [[u16; 2]; MAX_PORT_RANGES],
    /// Tell a live flow again after this time, nanoseconds.
    pub keepalive_ns: u64,
    /// Destinations, longest prefix first, with [`config_flags::INLINE_DESTS`].
    pub dests: [InlineDest; MAX_INLINE_DESTS],
}

const _: () = assert!(size_of::<Config>() == 272);

impl Config {
    /// A filter that takes everything.
    pub const EVERYTHING: Self = Self {
        flags: 0,
        port_mask: 0,
        protos: [0; 8],
        ports: [[0; 2]; MAX_PORT_RANGES],
        keepalive_ns: 10_000_000_000,
        dests: [InlineDest {
            addr: [0; 2],
            mask: [0; 2],
            family: 0,
            ports: 0,
        }; MAX_INLINE_DESTS],
    };
}

/// Word and bit of protocol `proto` in [`Config::protos`].
#[inline(always)]
#[must_use]
pub const fn proto_bit(proto: u8) -> (usize, u32) {
    ((proto >> 5) as usize, 1 << (proto & 31))
}

/// Data part of the address tries' keys: family, then address. One trie serves both families: the
/// prefix length is 32 plus the length of the address prefix.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct PrefixKey {
    /// One of [`family`], then three zeros.
    pub family: [u8; 4],
    /// The address, as in [`RawTuple`].
    pub addr: [u8; 16],
}

const _: () = assert!(size_of::<PrefixKey>() == 20);

impl PrefixKey {
    /// Prefix length of a whole key.
    pub const BITS: u32 = 160;

    /// The key of a tuple's destination.
    #[inline(always)]
    #[must_use]
    pub fn dst(tuple: &RawTuple) -> Self {
        Self {
            family: [tuple.family, 0, 0, 0],
            addr: tuple.dst,
        }
    }

    /// The key of a tuple's source.
    #[inline(always)]
    #[must_use]
    pub fn src(tuple: &RawTuple) -> Self {
        Self {
            family: [tuple.family, 0, 0, 0],
            addr: tuple.src,
        }
    }
}

/// Trie prefix length and key of an address prefix of `len` bits.
#[must_use]
pub fn prefix_key(addr: core::net::IpAddr, len: u8) -> (u32, PrefixKey) {
    let (fam, addr) = match addr {
        core::net::IpAddr::V4(v4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            (family::V4, bytes)
        }
        core::net::IpAddr::V6(v6) => (family::V6, v6.octets()),
    };
    (
        32 + u32::from(len),
        PrefixKey {
            family: [fam, 0, 0, 0],
            addr,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_prefix_has_ones_where_it_decides() {
        let dest = InlineDest::new(core::net::IpAddr::from([10, 20, 30, 40]), 12, 0);
        assert_eq!(dest.mask[0].to_ne_bytes(), [0xff, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(dest.addr[0].to_ne_bytes(), [10, 16, 0, 0, 0, 0, 0, 0]);
        assert_eq!((dest.addr[1], dest.mask[1], dest.family), (0, 0, 4));
        let all = InlineDest::new(core::net::IpAddr::from([7; 16]), 128, 0);
        assert_eq!(all.mask, [u64::MAX; 2]);
        assert_eq!(
            InlineDest::new(core::net::IpAddr::from([7; 16]), 0, 0).mask,
            [0; 2]
        );
    }
}
