//! A writer of BTF, for tests.

use super::TypeId;

/// BTF in the making.
pub(super) struct Writer {
    types: Vec<u8>,
    strings: Vec<u8>,
    next_id: u32,
    first_string: u32,
}

/// A member: name, type, offset in bits, bits of a bit-field or 0.
pub(super) type Member<'n> = (&'n str, TypeId, u32, u32);

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            types: Vec::new(),
            strings: vec![0],
            next_id: 1,
            first_string: 0,
        }
    }

    /// Continues `base`, as a module does.
    pub(super) fn split(base: &Self) -> Self {
        let first_string = base.first_string + base.strings.len() as u32;
        Self {
            types: Vec::new(),
            strings: vec![0],
            next_id: base.next_id,
            first_string,
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    /// A type of any kind, its words as they come.
    pub(super) fn add(
        &mut self,
        kind: u32,
        flag: bool,
        name: &str,
        size: u32,
        entries: u32,
        words: &[u32],
    ) -> TypeId {
        let name = self.string(name);
        let info = u32::from(flag) << 31 | kind << 24 | entries;
        let all = [name, info, size].into_iter().chain(words.iter().copied());
        self.types.extend(all.flat_map(u32::to_le_bytes));
        self.next_id += 1;
        TypeId(self.next_id - 1)
    }

    pub(super) fn int(&mut self, name: &str, bytes: u32) -> TypeId {
        self.add(1, false, name, bytes, 0, &[bytes * 8])
    }

    /// A type that refers to another: a pointer (2), typedef (8), qualifier (9-11), tag (18).
    pub(super) fn wrap(&mut self, kind: u32, name: &str, of: TypeId) -> TypeId {
        self.add(kind, false, name, of.0, 0, &[])
    }

    pub(super) fn array(&mut self, of: TypeId, len: u32) -> TypeId {
        self.add(3, false, "", 0, 0, &[of.0, 1, len])
    }

    /// A structure (4) or union (5).
    pub(super) fn aggregate(
        &mut self,
        kind: u32,
        name: &str,
        bytes: u32,
        members: &[Member<'_>],
    ) -> TypeId {
        let mut words = Vec::new();
        for (member, ty, offset, bits) in members {
            words.extend([self.string(member), ty.0, bits << 24 | offset]);
        }
        self.add(kind, true, name, bytes, members.len() as u32, &words)
    }

    /// An enumeration of 32-bit (6) or 64-bit (19) values.
    pub(super) fn enumeration(
        &mut self,
        kind: u32,
        signed: bool,
        name: &str,
        values: &[(&str, i64)],
    ) -> TypeId {
        let mut words = Vec::new();
        for (enumerator, value) in values {
            words.extend([self.string(enumerator), *value as u32]);
            if kind == 19 {
                words.push((*value >> 32) as u32);
            }
        }
        let bytes = if kind == 19 { 8 } else { 4 };
        self.add(kind, signed, name, bytes, values.len() as u32, &words)
    }

    pub(super) fn prototype(&mut self, result: TypeId, parameters: &[(&str, TypeId)]) -> TypeId {
        let mut words = Vec::new();
        for (name, ty) in parameters {
            words.extend([self.string(name), ty.0]);
        }
        self.add(13, false, "", result.0, parameters.len() as u32, &words)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut out = vec![0x9f, 0xeb, 1, 0];
        out.extend(
            [24, 0, types, types, strings]
                .into_iter()
                .flat_map(u32::to_le_bytes),
        );
        out.extend(&self.types);
        out.extend(&self.strings);
        out
    }
}
