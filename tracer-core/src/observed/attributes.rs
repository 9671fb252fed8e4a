//! Netlink attributes: `struct nlattr` {len u16, type u16}, padded to four bytes (uapi
//! linux/netlink.h). The bytes count as hostile: what does not fit ends the list.

/// Bits of the type that are flags: nested, network order.
const FLAGS: u16 = 0xc000;
const HEADER: usize = 4;

/// The attributes of a list: type and payload.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let half = |at: usize| {
            let bytes = rest.get(at..)?.first_chunk()?;
            Some(u16::from_ne_bytes(*bytes))
        };
        let (len, kind) = (usize::from(half(0)?), half(2)? & !FLAGS);
        let payload = rest.get(HEADER..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// A big-endian 32-bit number.
pub(super) fn be32(payload: &[u8]) -> Option<u32> {
    payload
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// A big-endian 64-bit number.
pub(super) fn be64(payload: &[u8]) -> Option<u64> {
    payload
        .first_chunk()
        .map(|bytes| u64::from_be_bytes(*bytes))
}

/// A string, with or without its end.
pub(super) fn text(payload: &[u8]) -> String {
    let end = payload
        .iter()
        .position(|b| *b == 0)
        .unwrap_or(payload.len());
    String::from_utf8_lossy(payload.get(..end).unwrap_or_default()).into_owned()
}
