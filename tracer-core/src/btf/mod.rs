//! A reader of BTF, the kernel's description of its own types: where a field lies, what an
//! enumerator is called, which parameters a function takes.
//!
//! The bytes are indexed in place, nothing is copied. They count as hostile: every reference is
//! checked when it is followed, every walk has a limit, and malformed input gives an error.
//! A module's BTF is *split*: its type ids and string offsets continue those of vmlinux
//! ([`Btf::parse_split`]).

mod builtin;
mod fields;
#[cfg(test)]
mod fixture;
mod layout;
#[cfg(test)]
mod layout_tests;
mod lookup;
mod path;
mod raw;
mod rows;
mod rules;
#[cfg(test)]
mod tests;
mod types;

pub use fields::Field;
pub use layout::{Absent, Layout, MissingField};
pub use lookup::{Enumerator, Parameter, Prototype};
pub use rules::{RULE_MODULES, RuleLayout};
pub use types::Shape;

use raw::{Header, Record};

/// Number of a type inside one BTF (with its base); 0 is `void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

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
}
