//! The bytes of BTF: header, records and their entries. Little-endian, 32-bit words.

use super::BtfError;

const MAGIC: u16 = 0xeb9f;
/// Up to and with the string section's length.
const HEADER_LEN: usize = 24;
/// Name, info, size or type.
const RECORD_LEN: usize = 12;

/// The kinds of types, by their numbers in `include/uapi/linux/btf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int = 1,
    Pointer = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    Forward = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Func = 12,
    FuncProto = 13,
    Variable = 14,
    DataSection = 15,
    Float = 16,
    DeclTag = 17,
    TypeTag = 18,
    Enum64 = 19,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::Int,
        Self::Pointer,
        Self::Array,
        Self::Struct,
        Self::Union,
        Self::Enum,
        Self::Forward,
        Self::Typedef,
        Self::Volatile,
        Self::Const,
        Self::Restrict,
        Self::Func,
        Self::FuncProto,
        Self::Variable,
        Self::DataSection,
        Self::Float,
        Self::DeclTag,
        Self::TypeTag,
        Self::Enum64,
    ];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get((number as usize).checked_sub(1)?).copied()
    }

    /// Whether it only renames or qualifies another type.
    pub(super) fn is_modifier(self) -> bool {
        matches!(
            self,
            Self::Typedef | Self::Volatile | Self::Const | Self::Restrict | Self::TypeTag
        )
    }

    /// Bytes after the record: a fixed part and one for each of its entries.
    const fn extra(self) -> (usize, usize) {
        match self {
            Self::Int | Self::Variable | Self::DeclTag => (4, 0),
            Self::Array => (12, 0),
            Self::Struct | Self::Union | Self::DataSection | Self::Enum64 => (0, 12),
            Self::Enum | Self::FuncProto => (0, 8),
            Self::Pointer
            | Self::Forward
            | Self::Typedef
            | Self::Volatile
            | Self::Const
            | Self::Restrict
            | Self::Func
            | Self::Float
            | Self::TypeTag => (0, 0),
        }
    }
}

fn word(bytes: &[u8], at: usize, what: &'static str) -> Result<u32, BtfError> {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map(|word| u32::from_le_bytes(*word))
        .ok_or(BtfError::Truncated { what })
}

/// Where the sections are.
pub(super) struct Header {
    len: u32,
    types: (u32, u32),
    strings: (u32, u32),
}

impl Header {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, BtfError> {
        let what = "the header";
        let first = bytes
            .first_chunk::<HEADER_LEN>()
            .ok_or(BtfError::Truncated { what })?;
        if u16::from_le_bytes([first[0], first[1]]) != MAGIC || first[2] != 1 {
            return Err(BtfError::NotBtf);
        }
        Ok(Self {
            len: word(first, 4, what)?,
            types: (word(first, 8, what)?, word(first, 12, what)?),
            strings: (word(first, 16, what)?, word(first, 20, what)?),
        })
    }

    pub(super) fn types<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], BtfError> {
        self.section(bytes, self.types, "the type section")
    }

    pub(super) fn strings<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], BtfError> {
        self.section(bytes, self.strings, "the string section")
    }

    fn section<'a>(
        &self,
        bytes: &'a [u8],
        (offset, len): (u32, u32),
        what: &'static str,
    ) -> Result<&'a [u8], BtfError> {
        let start = self.len as usize + offset as usize;
        bytes
            .get(start..)
            .and_then(|rest| rest.get(..len as usize))
            .ok_or(BtfError::Truncated { what })
    }
}

/// One type.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    /// Offset of its name.
    pub(super) name: u32,
    info: u32,
    /// Its size in bytes or the type it refers to, by kind.
    pub(super) size_or_type: u32,
    rest: &'a [u8],
}

/// Members of a structure or union.
pub(super) struct RawMember {
    pub(super) name: u32,
    pub(super) ty: u32,
    /// From the start of the structure.
    pub(super) bit_offset: u32,
    /// Bits, of a bit-field in the new encoding.
    pub(super) bits: Option<u32>,
}

pub(super) struct RawInt {
    pub(super) signed: bool,
    /// Where its bits start in it, in the old encoding of bit-fields.
    pub(super) bit_offset: u32,
    pub(super) bits: u32,
}

pub(super) struct RawArray {
    pub(super) element: u32,
    pub(super) len: u32,
}

impl<'a> Record<'a> {
    pub(super) fn read(types: &'a [u8], at: usize) -> Result<Self, BtfError> {
        let what = "a type";
        let bytes = types.get(at..).ok_or(BtfError::Truncated { what })?;
        Ok(Self {
            name: word(bytes, 0, what)?,
            info: word(bytes, 4, what)?,
            size_or_type: word(bytes, 8, what)?,
            rest: &bytes[RECORD_LEN..],
        })
    }

    /// Kernels so far use five of these seven bits and leave the others zero.
    pub(super) fn kind_number(&self) -> u32 {
        self.info >> 24 & 0x7f
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::from_number(self.kind_number())
    }

    /// For structures: bit-field sizes are in the members; for enumerations: values are signed.
    pub(super) fn flag(&self) -> bool {
        self.info >> 31 == 1
    }

    /// Kernels so far use sixteen of these bits and leave the others zero.
    fn entries(&self) -> usize {
        (self.info & 0x00ff_ffff) as usize
    }

    /// Length with all entries; `None` for an unknown kind.
    pub(super) fn len(&self) -> Option<usize> {
        let (fixed, each) = self.kind()?.extra();
        Some(RECORD_LEN + fixed + each * self.entries())
    }

    /// The entries of so many words each.
    fn words<const WORDS: usize>(&self) -> impl Iterator<Item = [u32; WORDS]> + 'a {
        let entries = self.rest.chunks_exact(WORDS * 4).take(self.entries());
        entries.map(|entry| {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(entry.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            words
        })
    }

    pub(super) fn members(&self) -> impl Iterator<Item = RawMember> + 'a {
        let packed = self.flag();
        self.words().map(move |[name, ty, offset]| RawMember {
            name,
            ty,
            bit_offset: if packed { offset & 0x00ff_ffff } else { offset },
            bits: (packed && offset >> 24 != 0).then_some(offset >> 24),
        })
    }

    /// Name and value of each enumerator.
    pub(super) fn enumerators(&self) -> impl Iterator<Item = (u32, i128)> + 'a {
        let (signed, wide) = (self.flag(), self.kind() == Some(Kind::Enum64));
        let narrow =
            self.words()
                .take(if wide { 0 } else { usize::MAX })
                .map(move |[name, low]| {
                    (
                        name,
                        if signed {
                            i128::from(low.cast_signed())
                        } else {
                            i128::from(low)
                        },
                    )
                });
        let long =
            self.words()
                .take(if wide { usize::MAX } else { 0 })
                .map(move |[name, low, high]| {
                    let value = u64::from(high) << 32 | u64::from(low);
                    (
                        name,
                        if signed {
                            i128::from(value.cast_signed())
                        } else {
                            i128::from(value)
                        },
                    )
                });
        narrow.chain(long)
    }

    /// Name and type of each parameter.
    pub(super) fn parameters(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.words().map(|[name, ty]| (name, ty))
    }

    pub(super) fn int(&self) -> Result<RawInt, BtfError> {
        let data = word(self.rest, 0, "an integer type")?;
        Ok(RawInt {
            signed: data >> 24 & 1 != 0,
            bit_offset: data >> 16 & 0xff,
            bits: data & 0xff,
        })
    }

    pub(super) fn array(&self) -> Result<RawArray, BtfError> {
        let what = "an array type";
        Ok(RawArray {
            element: word(self.rest, 0, what)?,
            len: word(self.rest, 8, what)?,
        })
    }
}
