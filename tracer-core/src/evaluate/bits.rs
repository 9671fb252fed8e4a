//! Numbers of which some bits may be unknown, and truth that may be unknown.

/// Whether something holds for a packet of which not everything is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    /// It holds.
    Yes,
    /// It does not.
    No,
    /// Either may be.
    Unknown,
}

impl Truth {
    /// Certainty as truth.
    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    /// Both hold.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Unknown,
        }
    }

    /// One of them holds.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes, _) | (_, Self::Yes) => Self::Yes,
            (Self::No, Self::No) => Self::No,
            _ => Self::Unknown,
        }
    }

    /// Turned round, if so asked.
    pub(super) fn negated_if(self, negated: bool) -> Self {
        match (self, negated) {
            (Self::Yes, true) => Self::No,
            (Self::No, true) => Self::Yes,
            (truth, _) => truth,
        }
    }
}

/// A 32-bit word (a mark, a set of flags) of which some bits may be unknown. Bits that are not
/// known are 0 in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    known: u32,
    value: u32,
}

impl Bits {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { known: 0, value: 0 };

    /// Every bit is known.
    #[must_use]
    pub const fn all(value: u32) -> Self {
        Self {
            known: u32::MAX,
            value,
        }
    }

    /// Only these bits are known.
    #[must_use]
    pub const fn some(known: u32, value: u32) -> Self {
        Self {
            known,
            value: value & known,
        }
    }

    /// The whole value, where every bit is known.
    #[must_use]
    pub fn get(self) -> Option<u32> {
        (self.known == u32::MAX).then_some(self.value)
    }

    /// `(self & and) ^ xor`.
    #[must_use]
    pub fn masked(self, and: u32, xor: u32) -> Self {
        let known = self.known | !and;
        Self {
            known,
            value: ((self.value & and) ^ xor) & known,
        }
    }

    /// `self ^ other`.
    #[must_use]
    pub fn xor(self, other: Self) -> Self {
        let known = self.known & other.known;
        Self {
            known,
            value: (self.value ^ other.value) & known,
        }
    }

    /// Whether it is this number.
    pub(super) fn is(self, number: u32) -> Truth {
        if (self.value ^ number) & self.known != 0 {
            Truth::No
        } else if self.known == u32::MAX {
            Truth::Yes
        } else {
            Truth::Unknown
        }
    }

    /// Whether it has one of these bits.
    pub(super) fn has_any(self, bits: u32) -> Truth {
        if self.value & bits != 0 {
            Truth::Yes
        } else if bits & !self.known == 0 {
            Truth::No
        } else {
            Truth::Unknown
        }
    }

    /// The least and the greatest value that it may have.
    pub(super) fn bounds(self) -> (u32, u32) {
        (self.value, self.value | !self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Truth};
    use proptest::prelude::*;

    proptest! {
        /// What is said of a partly known word holds for every word that it may be.
        #[test]
        fn partly_known_words_are_sound(known: u32, whole: u32, and: u32, xor: u32, n: u32) {
            let partly = Bits::some(known, whole).masked(and, xor);
            let exact = (whole & and) ^ xor;
            prop_assert!(partly.is(n) == Truth::Unknown || (partly.is(n) == Truth::Yes) == (exact == n));
            prop_assert!(partly.has_any(n) == Truth::Unknown
                || (partly.has_any(n) == Truth::Yes) == (exact & n != 0));
            prop_assert_eq!(partly.is(exact) == Truth::No, false);
            let (least, greatest) = partly.bounds();
            prop_assert!(least <= exact && exact <= greatest);
        }

        /// A word that is wholly known is never in doubt.
        #[test]
        fn known_words_are_certain(value: u32, and: u32, xor: u32) {
            prop_assert_eq!(Bits::all(value).masked(and, xor).get(), Some((value & and) ^ xor));
        }
    }

    #[test]
    fn a_bit_that_is_set_is_known_whatever_the_rest() {
        let mark = Bits::UNKNOWN.masked(!0x4000, 0x4000);
        assert_eq!(mark.masked(0x4000, 0).is(0x4000), Truth::Yes);
        assert_eq!(mark.is(0x4000), Truth::Unknown);
    }
}
