//! Netlink's attributes as bytes: length, type, value, padded to words.

/// The two flag bits of an attribute's type.
const TYPE: u16 = 0x3fff;
/// The flag of an attribute that holds others.
pub(super) const NESTED: u16 = 1 << 15;

/// Attributes one after the other; a length that cannot be ends them.
pub(super) fn list(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE, value))
    })
}

/// The value of the first attribute of a type.
pub(super) fn attribute<'a>(
    mut all: impl Iterator<Item = (u16, &'a [u8])>,
    wanted: u16,
) -> Option<&'a [u8]> {
    all.find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// Appends an attribute.
pub(super) fn put(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Names and programs: far below what 16 bits hold.
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    body.extend(length.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// The 32-bit word at an offset, 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u32::from_ne_bytes(*word))
}
