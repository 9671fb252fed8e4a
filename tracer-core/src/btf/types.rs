//! What a type is and how large.

use super::raw::Kind;
use super::{Btf, BtfError, TypeId};

/// How many typedefs, qualifiers or arrays may follow each other.
pub(super) const MAX_CHAIN: usize = 32;

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

impl Btf<'_> {
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
