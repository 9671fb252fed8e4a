//! Where a member lies.

use super::path::{Step, steps};
use super::raw::{Kind, RawMember};
use super::{Btf, BtfError, Shape, TypeId};

/// How deep anonymous members may nest, and how many members one search may look at: beyond any
/// kernel's, and a bound on what made-up BTF can cost.
const MAX_DEPTH: usize = 16;
const MAX_VISITS: u32 = 200_000;

/// A member, found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// From the start of the structure that was named, in bits.
    pub bit_offset: u32,
    /// Its size in bits.
    pub bits: u64,
    /// Whether it is a bit-field.
    pub is_bitfield: bool,
    /// Its type.
    pub ty: TypeId,
}

impl Field {
    /// Byte offset; `None` for a bit-field or what does not start at a byte.
    #[must_use]
    pub fn byte_offset(&self) -> Option<u32> {
        (!self.is_bitfield && self.bit_offset.is_multiple_of(8)).then_some(self.bit_offset / 8)
    }

    /// Size in bytes; `None` for a bit-field.
    #[must_use]
    pub fn byte_size(&self) -> Option<u64> {
        (!self.is_bitfield).then_some(self.bits / 8)
    }
}

impl Btf<'_> {
    /// Finds `path` (`tuplehash[1].tuple`) in the structure or union called `name`. Members of
    /// anonymous structures and unions are found as in C. Pointers are not followed.
    ///
    /// # Errors
    /// If there is no such structure or member, or the BTF is malformed.
    pub fn field(&self, name: &str, path: &str) -> Result<Field, BtfError> {
        self.field_of(self.structure(name)?, path)
    }

    /// The structure or union called `name` (a forward declaration is none).
    ///
    /// # Errors
    /// If there is none.
    pub fn structure(&self, name: &str) -> Result<TypeId, BtfError> {
        self.find(name, &[Kind::Struct, Kind::Union], "struct")
    }

    /// As [`Btf::field`], of a structure that was found before: finding it is the costly part.
    ///
    /// # Errors
    /// If there is no such member, or the BTF is malformed.
    pub fn field_of(&self, ty: TypeId, path: &str) -> Result<Field, BtfError> {
        let steps = steps(path)?;
        let name = self.name(ty)?;
        let bits = self.size(ty)?.saturating_mul(8);
        let mut field = Field {
            bit_offset: 0,
            bits,
            is_bitfield: false,
            ty,
        };
        for step in steps {
            field = match step {
                Step::Member(member) => self.enter(field, name, member)?,
                Step::Index(index) => self.element(field, name, index)?,
            };
        }
        Ok(field)
    }

    fn enter(&self, from: Field, name: &str, member: &str) -> Result<Field, BtfError> {
        let mut visits = MAX_VISITS;
        let found = self.search(from.ty, member, MAX_DEPTH, &mut visits)?;
        let inner = found.ok_or_else(|| BtfError::NoSuchMember {
            name: name.to_owned(),
            member: member.to_owned(),
        })?;
        Ok(Field {
            bit_offset: add(from.bit_offset, inner.bit_offset, inner.ty)?,
            ..inner
        })
    }

    fn element(&self, from: Field, name: &str, index: u32) -> Result<Field, BtfError> {
        let element = match self.shape(from.ty)? {
            Shape::Array(element, len) if index < len => element,
            _ => {
                return Err(BtfError::NoSuchMember {
                    name: name.to_owned(),
                    member: format!("[{index}]"),
                });
            }
        };
        let bits = self.size(element)?.saturating_mul(8);
        let skip = bits.saturating_mul(index.into());
        let skip = u32::try_from(skip).map_err(|_| BtfError::TooComplex(element.0))?;
        let bit_offset = add(from.bit_offset, skip, element)?;
        Ok(Field {
            bit_offset,
            bits,
            is_bitfield: false,
            ty: element,
        })
    }

    /// The member of a structure or of the anonymous ones in it, relative to it.
    fn search(
        &self,
        ty: TypeId,
        name: &str,
        depth: usize,
        visits: &mut u32,
    ) -> Result<Option<Field>, BtfError> {
        let ty = self.strip(ty)?;
        if depth == 0 {
            return Err(BtfError::TooComplex(ty.0));
        }
        if !matches!(self.shape(ty)?, Shape::Struct | Shape::Union) {
            return Ok(None);
        }
        for member in self.record(ty)?.members() {
            *visits = visits.checked_sub(1).ok_or(BtfError::TooComplex(ty.0))?;
            if self.is_named(member.name, name) {
                return self.describe(&member).map(Some);
            }
            // A bit-field without a name is padding; a structure without one lends its members.
            if member.bits.is_none() && self.is_named(member.name, "") {
                let inner = self.search(TypeId(member.ty), name, depth - 1, visits)?;
                if let Some(inner) = inner {
                    let bit_offset = add(member.bit_offset, inner.bit_offset, ty)?;
                    return Ok(Some(Field {
                        bit_offset,
                        ..inner
                    }));
                }
            }
        }
        Ok(None)
    }

    fn describe(&self, member: &RawMember) -> Result<Field, BtfError> {
        let ty = TypeId(member.ty);
        let whole = Field {
            bit_offset: member.bit_offset,
            bits: self.size(ty)?.saturating_mul(8),
            is_bitfield: false,
            ty,
        };
        if let Some(bits) = member.bits {
            return Ok(Field {
                bits: bits.into(),
                is_bitfield: true,
                ..whole
            });
        }
        if !matches!(self.shape(ty)?, Shape::Int { .. }) {
            return Ok(whole);
        }
        // The old encoding: an integer type of fewer bits than its bytes hold.
        let int = self.record(self.strip(ty)?)?.int()?;
        if u64::from(int.bits) == whole.bits && int.bit_offset == 0 {
            return Ok(whole);
        }
        let bit_offset = add(member.bit_offset, int.bit_offset, ty)?;
        Ok(Field {
            bit_offset,
            bits: int.bits.into(),
            is_bitfield: true,
            ty,
        })
    }
}

fn add(one: u32, other: u32, ty: TypeId) -> Result<u32, BtfError> {
    one.checked_add(other).ok_or(BtfError::TooComplex(ty.0))
}
