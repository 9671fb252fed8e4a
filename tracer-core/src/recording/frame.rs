//! Frames: the bytes between the records and the file.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of what is stored, little-endian |
//! | 1 | kind of the records in it |
//! | 1 | bit 0: stored as an LZ4 block, behind its unpacked length (4 bytes, little-endian) |
//! | 4 | CRC-32 (IEEE) of the two bytes before and what is stored, little-endian |

use super::{MAX_FRAME, ReadError};
use std::borrow::Cow;

/// Bytes before what is stored.
pub(super) const HEAD: usize = 10;
const PACKED: u8 = 1;
/// LZ4 makes one byte of no more than this many: a greater claim is a lie.
const MOST_PACKED: usize = 255;
/// Not worth packing below.
const WORTH: usize = 128;

/// What stands before the stored bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) kind: u8,
    flags: u8,
    sum: u32,
}

fn sum(kind: u8, flags: u8, stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind, flags]);
    hasher.update(stored);
    hasher.finalize()
}

/// Writes one frame.
pub(super) fn write(kind: u8, raw: &[u8], out: &mut Vec<u8>) {
    let packed = (raw.len() >= WORTH).then(|| lz4_flex::compress_prepend_size(raw));
    let packed = packed.filter(|packed| packed.len() < raw.len());
    let (flags, stored) = match &packed {
        Some(packed) => (PACKED, packed.as_slice()),
        None => (0, raw),
    };
    let len = u32::try_from(stored.len()).unwrap_or(u32::MAX);
    out.extend(len.to_le_bytes());
    out.extend([kind, flags]);
    out.extend(sum(kind, flags, stored).to_le_bytes());
    out.extend(stored);
}

impl Head {
    /// Reads it; `None`: there are not enough bytes yet.
    pub(super) fn read(bytes: &[u8], at: u64) -> Result<Option<Self>, ReadError> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [a, b, c, d, kind, flags, rest @ ..] = *head;
        let head = Self {
            len: u32::from_le_bytes([a, b, c, d]) as usize,
            kind,
            flags,
            sum: u32::from_le_bytes(rest),
        };
        if head.len > MAX_FRAME {
            return Err(damaged(at, format!("a frame of {} bytes", head.len)));
        }
        if flags & !PACKED != 0 {
            return Err(damaged(
                at,
                format!("a frame with unknown flags {flags:#x}"),
            ));
        }
        Ok(Some(head))
    }

    /// Checks and unpacks what is stored.
    pub(super) fn open<'a>(&self, stored: &'a [u8], at: u64) -> Result<Cow<'a, [u8]>, ReadError> {
        if sum(self.kind, self.flags, stored) != self.sum {
            return Err(damaged(at, "its checksum is wrong".to_owned()));
        }
        if self.flags & PACKED == 0 {
            return Ok(Cow::Borrowed(stored));
        }
        let bad = || damaged(at, "it cannot be unpacked".to_owned());
        let (len, block) = lz4_flex::block::uncompressed_size(stored).map_err(|_| bad())?;
        if len > MAX_FRAME.min(block.len().saturating_mul(MOST_PACKED)) {
            return Err(bad());
        }
        let raw = lz4_flex::decompress(block, len).map_err(|_| bad())?;
        Ok(Cow::Owned(raw))
    }
}

pub(super) fn damaged(at: u64, what: String) -> ReadError {
    ReadError::Damaged { at, what }
}
