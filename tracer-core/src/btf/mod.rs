//! A reader of BTF, the kernel's description of its own types: where a field lies, what an
//! enumerator is called, which parameters a function takes.
//!
//! The bytes are indexed in place, nothing is copied. They count as hostile: every reference is
//! checked when it is followed, every walk has a limit, and malformed input gives an error.
//! A module's BTF is *split*: its type ids and string offsets continue those of vmlinux
//! ([`Btf::parse_split`]).

mod fields;
#[cfg(test)]
mod fixture;
mod layout;
mod lookup;
mod path;
mod raw;
#[cfg(test)]
mod tests;

pub use fields::Field;
pub use layout::{Absent, Layout, MissingField};
pub use lookup::{Enumerator, Parameter, Prototype};

use raw::{Header, Kind, Record};

/// Number of a type inside one BTF (with its base); 0 is `void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// What a type is once typedefs and qualifiers are stripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `void`.
    Void,
    /// An integer, `bool` and `char` included.
    Int {
        /// Whether it has a sign.
        signed: bool,
    },
    /// A floating point number.
    Float,
    /// An enumeration.
    Enum,
    /// A pointer to the given type.
    Pointer(TypeId),
    /// A structure.
    Struct,
    /// A union.
    Union,
    /// An array of so many of the given type.
    Array(TypeId, u32),
    /// A function or its prototype.
    Function,
    /// Named, but not described here.
    Forward,
    /// Not a type of a value: a variable, a section, a tag.
    Other,
}

/// Why BTF could not be read or does not tell what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// Too short, or with a part that lies outside it.
    #[error("BTF is cut short: {what} lies outside of it")]
    Truncated {
        /// The part that is missing.
        what: &'static str,
    },
    /// It does not start like BTF.
    #[error("not little-endian BTF of version 1")]
    NotBtf,
    /// A kind of type whose length this reader does not know: what follows cannot be found.
    #[error("BTF type {id} is of kind {kind}, which this version of srctrace does not know")]
    UnknownKind {
        /// The type.
        id: u32,
        /// Its kind.
        kind: u32,
    },
    /// A reference to a type that is not there.
    #[error("BTF refers to type {0}, which it does not have")]
    NoSuchId(u32),
    /// No type of that name.
    #[error("BTF has no {what} {name}")]
    NoSuchType {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The type is there, the member is not.
    #[error("{name} has no member {member}")]
    NoSuchMember {
        /// The structure, with the path so far.
        name: String,
        /// The member or index.
        member: String,
    },
    /// Not a path of members.
    #[error("{0:?} is not a path like `a.b[1].c`")]
    BadPath(String),
    /// Typedefs, arrays or anonymous members nested beyond any real kernel's.
    #[error("BTF type {0} is nested too deeply or too widely")]
    TooComplex(u32),
}

/// How many typedefs, qualifiers or arrays may follow each other.
const MAX_CHAIN: usize = 32;

/// BTF, indexed.
#[derive(Debug)]
pub struct Btf<'a> {
    base: Option<&'a Btf<'a>>,
    types: &'a [u8],
    strings: &'a [u8],
    /// Where in `types` each own type starts; the first is number `first_id`.
    starts: Vec<u32>,
    first_id: u32,
    /// Offset in the common string space of the first own string.
    first_string: u32,
}

impl<'a> Btf<'a> {
    /// Reads complete BTF, such as `/sys/kernel/btf/vmlinux`.
    ///
    /// # Errors
    /// If a part lies outside the bytes or a kind is unknown.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        Self::index(None, bytes)
    }

    /// Reads a module's BTF, which continues `base`.
    ///
    /// # Errors
    /// As [`Btf::parse`].
    pub fn parse_split(base: &'a Btf<'a>, bytes: &'a [u8]) -> Result<Self, BtfError> {
        Self::index(Some(base), bytes)
    }

    fn index(base: Option<&'a Btf<'a>>, bytes: &'a [u8]) -> Result<Self, BtfError> {
        let header = Header::read(bytes)?;
        let types = header.types(bytes)?;
        let mut btf = Self {
            base,
            types,
            strings: header.strings(bytes)?,
            starts: Vec::with_capacity(types.len() / 24),
            first_id: base.map_or(1, Self::end_id),
            first_string: base.map_or(0, Self::end_string),
        };
        let mut at = 0;
        while at < types.len() {
            let id = btf.end_id();
            let record = Record::read(types, at)?;
            let len = record.len().ok_or_else(|| BtfError::UnknownKind {
                id,
                kind: record.kind_number(),
            })?;
            btf.starts
                .push(at.try_into().map_err(|_| BtfError::TooComplex(id))?);
            at = at.saturating_add(len);
        }
        if at > types.len() {
            return Err(BtfError::Truncated {
                what: "the last type",
            });
        }
        Ok(btf)
    }

    /// How many types there are, the base's and `void` included: the next free number.
    #[must_use]
    pub fn type_count(&self) -> u32 {
        self.end_id()
    }

    fn end_id(&self) -> u32 {
        let own = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        self.first_id.saturating_add(own)
    }

    fn end_string(&self) -> u32 {
        let own = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        self.first_string.saturating_add(own)
    }

    /// The record of a type other than `void`.
    fn record(&self, id: TypeId) -> Result<Record<'a>, BtfError> {
        match (id.0.checked_sub(self.first_id), self.base) {
            (Some(own), _) => {
                let start = self
                    .starts
                    .get(own as usize)
                    .ok_or(BtfError::NoSuchId(id.0))?;
                Record::read(self.types, *start as usize)
            }
            (None, Some(base)) => base.record(id),
            (None, None) => Err(BtfError::NoSuchId(id.0)),
        }
    }

    /// The bytes of the string at an offset of the common string space, without its end.
    fn string_bytes(&self, offset: u32) -> Result<&'a [u8], BtfError> {
        match (offset.checked_sub(self.first_string), self.base) {
            (Some(own), _) => {
                let rest = self.strings.get(own as usize..);
                rest.and_then(|rest| rest.split(|byte| *byte == 0).next())
                    .ok_or(BtfError::Truncated { what: "a name" })
            }
            (None, Some(base)) => base.string_bytes(offset),
            (None, None) => Err(BtfError::Truncated { what: "a name" }),
        }
    }

    /// The string at an offset; anything but UTF-8 counts as damage.
    fn string(&self, offset: u32) -> Result<&'a str, BtfError> {
        std::str::from_utf8(self.string_bytes(offset)?).map_err(|_| BtfError::Truncated {
            what: "a readable name",
        })
    }

    /// Whether the string at `offset` is `name`, without looking for its end.
    fn is_named(&self, offset: u32, name: &str) -> bool {
        match (offset.checked_sub(self.first_string), self.base) {
            (Some(own), _) => self.strings.get(own as usize..).is_some_and(|rest| {
                rest.starts_with(name.as_bytes())
                    && rest.get(name.len()).is_none_or(|end| *end == 0)
            }),
            (None, Some(base)) => base.is_named(offset, name),
            (None, None) => false,
        }
    }

    /// A type's own name; empty when it has none.
    ///
    /// # Errors
    /// If the number or the name's place is not valid.
    pub fn name(&self, id: TypeId) -> Result<&'a str, BtfError> {
        if id.0 == 0 {
            return Ok("void");
        }
        self.string(self.record(id)?.name)
    }

    /// The type behind typedefs, qualifiers and type tags.
    ///
    /// # Errors
    /// If a number is not valid or the chain does not end.
    pub fn strip(&self, id: TypeId) -> Result<TypeId, BtfError> {
        let mut at = id;
        for _ in 0..MAX_CHAIN {
            if at.0 == 0 {
                return Ok(at);
            }
            let record = self.record(at)?;
            if !record.kind().is_some_and(Kind::is_modifier) {
                return Ok(at);
            }
            at = TypeId(record.size_or_type);
        }
        Err(BtfError::TooComplex(id.0))
    }

    /// What a type is, behind typedefs and qualifiers.
    ///
    /// # Errors
    /// As [`Btf::strip`].
    pub fn shape(&self, id: TypeId) -> Result<Shape, BtfError> {
        let id = self.strip(id)?;
        if id.0 == 0 {
            return Ok(Shape::Void);
        }
        let record = self.record(id)?;
        Ok(match record.kind() {
            Some(Kind::Int) => Shape::Int {
                signed: record.int()?.signed,
            },
            Some(Kind::Float) => Shape::Float,
            Some(Kind::Enum | Kind::Enum64) => Shape::Enum,
            Some(Kind::Pointer) => Shape::Pointer(TypeId(record.size_or_type)),
            Some(Kind::Struct) => Shape::Struct,
            Some(Kind::Union) => Shape::Union,
            Some(Kind::Array) => {
                let array = record.array()?;
                Shape::Array(TypeId(array.element), array.len)
            }
            Some(Kind::Func | Kind::FuncProto) => Shape::Function,
            Some(Kind::Forward) => Shape::Forward,
            _ => Shape::Other,
        })
    }

    /// The size of a type's values in bytes, on a 64-bit kernel.
    ///
    /// # Errors
    /// As [`Btf::strip`]; also for what has no size.
    pub fn size(&self, id: TypeId) -> Result<u64, BtfError> {
        let mut count = 1_u64;
        let mut at = self.strip(id)?;
        for _ in 0..MAX_CHAIN {
            let one = match self.shape(at)? {
                Shape::Array(element, len) => {
                    count = count
                        .checked_mul(len.into())
                        .ok_or(BtfError::TooComplex(id.0))?;
                    at = self.strip(element)?;
                    continue;
                }
                Shape::Pointer(_) => 8,
                Shape::Int { .. } | Shape::Float | Shape::Enum | Shape::Struct | Shape::Union => {
                    u64::from(self.record(at)?.size_or_type)
                }
                Shape::Void | Shape::Function | Shape::Forward | Shape::Other => {
                    return Err(BtfError::NoSuchType {
                        what: "size of",
                        name: self.name(at)?.into(),
                    });
                }
            };
            return count.checked_mul(one).ok_or(BtfError::TooComplex(id.0));
        }
        Err(BtfError::TooComplex(id.0))
    }
}
