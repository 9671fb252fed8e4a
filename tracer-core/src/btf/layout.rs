//! Fills [`Offsets`] from BTF.

use super::rows::{ROWS, Row, Want};
use super::{Btf, BtfError, Shape, TypeId};
use tracer_common::{ABSENT, Offsets};

/// A field that this kernel does not have, or has in a form that the programs cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The field: `nf_conn.mark`.
    pub field: &'static str,
    /// Why it cannot be read.
    pub why: String,
    /// What the report lacks without it.
    pub effect: &'static str,
}

/// The programs cannot do without this field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this kernel's BTF does not describe {field} ({why}); srctrace cannot read packets here: \
         use a kernel of 5.10 or later built with CONFIG_DEBUG_INFO_BTF=y"
)]
pub struct MissingField {
    /// The field: `sk_buff.head`.
    pub field: &'static str,
    /// Why it cannot be read.
    pub why: String,
}

/// Where this kernel keeps what the programs read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// For the programs.
    pub offsets: Offsets,
    /// Fields that are [`ABSENT`], in the order of [`Offsets`].
    pub absent: Vec<Absent>,
}

impl Layout {
    /// Looks every field up in each BTF until one has it: vmlinux first, then modules.
    ///
    /// # Errors
    /// If a field that the programs cannot do without is in none of them.
    pub fn resolve(sources: &[&Btf<'_>]) -> Result<Self, MissingField> {
        let mut layout = Self {
            offsets: Offsets::UNKNOWN,
            absent: Vec::new(),
        };
        let mut sources: Vec<_> = sources.iter().map(|btf| Source::new(btf)).collect();
        for row in ROWS {
            match (row.locate(&mut sources), row.effect) {
                (Ok(offset), _) => *(row.slot)(&mut layout.offsets) = offset,
                (Err(why), Some(effect)) => {
                    layout.absent.push(Absent {
                        field: row.name,
                        why,
                        effect,
                    });
                }
                (Err(why), None) => {
                    return Err(MissingField {
                        field: row.name,
                        why,
                    });
                }
            }
        }
        Ok(layout)
    }

    /// Whether the fields of conntrack entries are missing as a whole: then they may be
    /// described by the module's BTF.
    #[must_use]
    pub fn lacks_conntrack(&self) -> bool {
        let offsets = &self.offsets;
        [offsets.ct_orig, offsets.ct_reply, offsets.tuple_src].contains(&ABSENT)
    }
}

impl Row {
    /// The byte offset, or why there is none: the reason of the first place in the first source.
    fn locate(&self, sources: &mut [Source<'_>]) -> Result<u32, String> {
        let mut first = None;
        for source in sources {
            for (name, path, want) in self.places {
                match source.place(name, path, *want) {
                    Ok(offset) => return Ok(offset),
                    Err(why) => first = first.or(Some(why)),
                }
            }
        }
        Err(first.unwrap_or_else(|| "there is no BTF".to_owned()))
    }
}

/// One BTF and the structure found last in it: the rows of one structure follow each other.
struct Source<'b> {
    btf: &'b Btf<'b>,
    last: Option<(&'static str, Result<TypeId, BtfError>)>,
}

impl<'b> Source<'b> {
    fn new(btf: &'b Btf<'b>) -> Self {
        Self { btf, last: None }
    }

    fn structure(&mut self, name: &'static str) -> Result<TypeId, BtfError> {
        match &self.last {
            Some((last, found)) if *last == name => found.clone(),
            _ => {
                let found = self.btf.structure(name);
                self.last = Some((name, found.clone()));
                found
            }
        }
    }

    /// The byte offset of a field that looks as wanted, or why there is none.
    fn place(&mut self, name: &'static str, path: &str, want: Want) -> Result<u32, String> {
        let ty = self.structure(name).map_err(|error| error.to_string())?;
        let field = self
            .btf
            .field_of(ty, path)
            .map_err(|error| error.to_string())?;
        let (Some(offset), Some(size)) = (field.byte_offset(), field.byte_size()) else {
            return Err(format!("{name}.{path} is a bit-field"));
        };
        let shape = self
            .btf
            .shape(field.ty)
            .map_err(|error| error.to_string())?;
        let fits = match want {
            Want::Pointer => matches!(shape, Shape::Pointer(_)),
            Want::Int(bytes) => matches!(shape, Shape::Int { .. }) && size == bytes,
            Want::Bytes(bytes) => size == bytes,
            Want::Aggregate => matches!(shape, Shape::Struct | Shape::Union),
        };
        let other = || format!("{name}.{path} has become {shape:?} of {size} bytes");
        fits.then_some(offset).ok_or_else(other)
    }
}
