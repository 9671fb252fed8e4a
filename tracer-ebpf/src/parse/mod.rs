//! Reads packet headers into a [`RawEvent`].
//!
//! Total: any bytes give fields or `None`; nothing beyond [`Head::valid`] is looked at. Loops are
//! bounded and every access is checked, so that the verifiers of 5.10 and later can follow.

mod ip;
mod transport;

use tracer_common::{RawEvent, RawTuple, present};

/// How many bytes from the network header on are read.
pub const HEAD: usize = 256;

/// Room for headers. Aligned, because all headers are multiples of four bytes: so what they hold is
/// aligned as well, and read in words. (A load that may be unaligned is made of bytes and shifts.)
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub [u8; HEAD]);

/// The first bytes of a packet, from its network header on.
pub struct Head<'a> {
    /// The bytes.
    pub bytes: &'a Bytes,
    /// How many of them were read from this packet; the rest is left over from others.
    pub valid: usize,
}

/// What is read at once.
trait Word: Copy {}
impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}

impl Head<'_> {
    /// Reads a value that begins at `at`, if all of it was read from the packet and it is aligned.
    /// What is checked must be the very number that is used: the compiler, left alone, checks one
    /// and uses another that it knows to be related, which a verifier cannot know.
    #[inline(always)]
    fn value<T: Word>(&self, at: usize) -> Option<T> {
        debug_assert!(at.is_multiple_of(align_of::<T>()), "headers are aligned");
        let at = core::hint::black_box(at);
        if at > HEAD - size_of::<T>() || at + size_of::<T>() > self.valid {
            return None;
        }
        // SAFETY: inside the bytes, by the check above, and aligned: every header begins at a
        // multiple of four, and its fields are where C would put them. Any bytes are such a number.
        Some(unsafe { self.bytes.0.as_ptr().add(at).cast::<T>().read() })
    }

    /// Copies an address of so many words to where it belongs.
    #[inline(always)]
    fn address<const WORDS: usize>(&self, at: usize, to: &mut [u8; 16]) -> Option<()> {
        let mut i = 0;
        while i < WORDS {
            let word: u32 = self.value(at + 4 * i)?;
            let [a, b, c, d] = word.to_ne_bytes();
            [to[4 * i], to[4 * i + 1], to[4 * i + 2], to[4 * i + 3]] = [a, b, c, d];
            i += 1;
        }
        Some(())
    }

    #[inline(always)]
    fn u8(&self, at: usize) -> Option<u8> {
        self.value(at)
    }

    /// A port, as it stands in the header.
    #[inline(always)]
    fn port(&self, at: usize) -> Option<[u8; 2]> {
        self.value::<u16>(at).map(u16::to_ne_bytes)
    }

    #[inline(always)]
    fn be16(&self, at: usize) -> Option<u16> {
        self.value(at).map(u16::from_be)
    }

    #[inline(always)]
    fn be32(&self, at: usize) -> Option<u32> {
        self.value(at).map(u32::from_be)
    }
}

/// Where the parser is. It lives in memory and is read anew at every step: so the verifier, which
/// follows each way through the headers by itself, sees the ways meet again.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: u32,
    len: u32,
    id: u32,
    frag_offset: u16,
    proto: u8,
    flags: u8,
}

/// The cursors of a packet and of the packet that it quotes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursors {
    /// After [`parse`]: at the payload.
    pub outer: Cursor,
    inner: Cursor,
}

impl Cursor {
    const HAS_ID: u8 = 1;
    const MORE_FRAGMENTS: u8 = 2;

    /// Offset from the network header of what comes next: after [`parse`], of the payload.
    #[inline(always)]
    #[must_use]
    pub fn at(&self) -> usize {
        forget(&self.at) as usize
    }

    #[inline(always)]
    fn proto(&self) -> u8 {
        forget(&self.proto)
    }

    #[inline(always)]
    fn is_later_fragment(&self) -> bool {
        forget(&self.frag_offset) != 0
    }

    #[inline(always)]
    fn has(&self, flag: u8) -> bool {
        forget(&self.flags) & flag != 0
    }

    #[inline(always)]
    fn step(&mut self, size: usize) {
        let next = self.at() + size;
        // SAFETY: an exclusive reference is valid for writes.
        unsafe { core::ptr::write_volatile(&raw mut self.at, next as u32) };
    }
}

/// Reads a value from memory, forgetting what the compiler (and, in a map, the verifier) knows of
/// it: there the ways that led here meet again.
#[inline(always)]
pub fn forget<T: Copy>(value: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(value) }
}

/// Fills in `tuple`, `quoted`, `print`, `l3_len` and the matching `present` bits of `event`.
///
/// `len` is the packet's length from the network header on, as the buffer says (not the header).
/// All but `quoted` must be zero before. Leaves the outer cursor at the payload. `None` when this is no IP packet or its headers do not
/// fit into what could be read.
#[inline(always)]
pub fn parse(head: &Head<'_>, len: u32, event: &mut RawEvent, cursors: &mut Cursors) -> Option<()> {
    let cursor = &mut cursors.outer;
    *cursor = Cursor {
        len,
        ..Cursor::default()
    };
    ip::header(head, cursor, &mut event.tuple)?;
    event.print.ttl = ip::ttl(head)?;
    event.l3_len = forget(&cursor.len);
    ip::identify(cursor, event);
    if !cursor.is_later_fragment() {
        transport::header(head, cursor, event)?;
        if transport::is_error(forget(&event.tuple.proto), forget(&event.print.icmp_type)) {
            event.quoted = RawTuple::default();
            cursors.inner = Cursor {
                at: cursor.at() as u32,
                len: u32::MAX,
                ..Cursor::default()
            };
            if transport::quoted(head, &mut cursors.inner, &mut event.quoted).is_some() {
                event.present |= present::QUOTED;
            }
        }
    }
    event.print.payload_len = event.l3_len.saturating_sub(cursors.outer.at() as u32);
    Some(())
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
        let at = payload + 8 * groups as usize;
        let (Some(low), Some(high)) = (head.value::<u32>(at), head.value::<u32>(at + 4)) else {
            break;
        };
        let word = u64::from(u32::from_le(high)) << 32 | u64::from(u32::from_le(low));
        hash = (hash ^ word).wrapping_mul(PRIME);
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
