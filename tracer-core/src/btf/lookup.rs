//! Types by name: enumerations and functions.

use super::raw::Kind;
use super::{Btf, BtfError, TypeId};
use std::collections::{BTreeMap, BTreeSet};

/// One value of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enumerator<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: i128,
}

/// One parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name; empty when it has none.
    pub name: &'a str,
    /// Its type.
    pub ty: TypeId,
}

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prototype<'a> {
    /// In order.
    pub parameters: Vec<Parameter<'a>>,
    /// The result's type.
    pub result: TypeId,
}

impl<'a> Btf<'a> {
    /// The values of the enumeration called `name`, in order.
    ///
    /// # Errors
    /// If there is none, or a name in it is not valid.
    pub fn enumerators(&self, name: &str) -> Result<Vec<Enumerator<'a>>, BtfError> {
        let ty = self.find(name, &[Kind::Enum, Kind::Enum64], "enum")?;
        let values = self.record(ty)?.enumerators();
        values
            .map(|(name, value)| {
                Ok(Enumerator {
                    name: self.string(name)?,
                    value,
                })
            })
            .collect()
    }

    /// The prototype of the function called `name`, or of the typedef of a pointer to one
    /// (`btf_trace_kfree_skb` tells a tracepoint's arguments).
    ///
    /// # Errors
    /// If there is none, or it is malformed.
    pub fn prototype(&self, name: &str) -> Result<Prototype<'a>, BtfError> {
        let mut ty = self.find(name, &[Kind::Func, Kind::Typedef], "function")?;
        for _ in 0..super::types::MAX_CHAIN {
            ty = self.strip(ty)?;
            if ty.0 == 0 {
                break;
            }
            let record = self.record(ty)?;
            match record.kind() {
                Some(Kind::Func | Kind::Pointer) => ty = TypeId(record.size_or_type),
                Some(Kind::FuncProto) => {
                    let parameters = record.parameters().map(|(name, ty)| {
                        Ok(Parameter {
                            name: self.string(name)?,
                            ty: TypeId(ty),
                        })
                    });
                    let parameters = parameters.collect::<Result<_, BtfError>>()?;
                    return Ok(Prototype {
                        parameters,
                        result: TypeId(record.size_or_type),
                    });
                }
                _ => break,
            }
        }
        Err(BtfError::NoSuchType {
            what: "function",
            name: name.to_owned(),
        })
    }

    /// Those of the structures called so that are described here and not in the base, in one look
    /// at all types.
    pub(super) fn own_structures<'n>(
        &self,
        names: &BTreeSet<&'n str>,
    ) -> BTreeMap<&'n str, TypeId> {
        let mut found = BTreeMap::new();
        for id in (self.first_id..self.end_id()).map(TypeId) {
            let Ok(record) = self.record(id) else {
                continue;
            };
            if !matches!(record.kind(), Some(Kind::Struct | Kind::Union)) {
                continue;
            }
            if let Some(name) = names.iter().find(|name| self.is_named(record.name, name)) {
                found.entry(*name).or_insert(id);
            }
        }
        found
    }

    /// The first type of that name that is of one of these kinds; own ones before the base's.
    pub(super) fn find(
        &self,
        name: &str,
        kinds: &[Kind],
        what: &'static str,
    ) -> Result<TypeId, BtfError> {
        let own = (self.first_id..self.end_id()).map(TypeId).find(|id| {
            self.record(*id).is_ok_and(|record| {
                record.kind().is_some_and(|kind| kinds.contains(&kind))
                    && self.is_named(record.name, name)
            })
        });
        match (own, self.base) {
            (Some(id), _) => Ok(id),
            (None, Some(base)) => base.find(name, kinds, what),
            (None, None) => Err(BtfError::NoSuchType {
                what,
                name: name.to_owned(),
            }),
        }
    }
}
