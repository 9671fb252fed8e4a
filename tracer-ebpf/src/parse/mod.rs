//! Reads packet headers into a [`RawEvent`].
//!
//! Total: any bytes give fields or `None`; nothing beyond [`Head::valid`] is looked at. Loops are
//! bounded and every access is checked, so that the verifiers of 5.10 and later can follow.

mod ip;
mod transport;

use tracer_common::RawEvent;

/// How many bytes from the network header on are read.
pub const HEAD: usize = 256;

/// The first bytes of a packet, from its network header on.
pub struct Head<'a> {
    /// The bytes.
    pub bytes: &'a [u8; HEAD],
    /// How many of them were read from this packet; the rest is left over from others.
    pub valid: usize,
}

impl Head<'_> {
    #[inline(always)]
    fn u8(&self, at: usize) -> Option<u8> {
        if at >= self.valid {
            return None;
        }
        self.bytes.get(at).copied()
    }

    #[inline(always)]
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if at > HEAD - N || at + N > self.valid {
            return None;
        }
        let mut out = [0; N];
        let mut i = 0;
        while i < N {
            out[i] = *self.bytes.get(at + i)?;
            i += 1;
        }
        Some(out)
    }

    /// Copies `N` bytes to where they belong, without a copy on the stack.
    #[inline(always)]
    fn copy<const N: usize>(&self, at: usize, to: &mut [u8; 16]) -> Option<()> {
        if at > HEAD - N || at + N > self.valid {
            return None;
        }
        let mut i = 0;
        while i < N {
            to[i] = *self.bytes.get(at + i)?;
            i += 1;
        }
        Some(())
    }

    #[inline(always)]
    fn be16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }

    #[inline(always)]
    fn be32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }
}

/// Fills in `tuple`, `quoted`, `print`, `l3_len` and the matching `present` bits of `event`.
///
/// `len` is the packet's length from the network header on, as the buffer says (not the header).
/// Returns the offset of the payload from the network header, or `None` when this is no IP packet
/// or its headers do not fit into what could be read.
#[inline(always)]
pub fn parse(head: &Head<'_>, len: u32, event: &mut RawEvent) -> Option<usize> {
    let l3 = ip::header(head, 0, len, &mut event.tuple)?;
    event.l3_len = l3.len;
    event.print.ttl = l3.ttl;
    ip::identify(&l3, event);
    let payload = if l3.is_later_fragment() {
        l3.transport
    } else {
        transport::header(head, &l3, event)?
    };
    event.print.payload_len = (l3.len as usize).saturating_sub(payload) as u32;
    Some(payload)
}

/// Hash of the first payload bytes: as many whole groups of eight as were read, at most 32 bytes.
/// `None` with fewer than eight.
#[inline(always)]
#[must_use]
pub fn payload_hash(head: &Head<'_>, payload: usize, payload_len: u32) -> Option<u32> {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = 0u64;
    let mut groups = 0;
    while groups < 4 {
        if payload_len < 8 * (groups + 1) {
            break;
        }
        let Some(bytes) = head.array::<8>(payload + 8 * groups as usize) else {
            break;
        };
        hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME);
        hash ^= hash >> 29;
        groups += 1;
    }
    // A point that could read less of the payload must not look like another packet.
    let whole = payload_len / 8;
    let wanted = if whole > 4 { 4 } else { whole };
    (groups > 0 && groups == wanted).then_some((hash ^ (hash >> 32)) as u32)
}

#[cfg(test)]
mod tests;
