//! Which of two parts comes first on the way, and by what they are known to be of one flow.

use super::witness::{Key, Sight, Witness};
use crate::event::Dir;

/// By what two parts are known to be of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// The strong key is the same.
    pub(super) key: bool,
    /// So is the answer's initial sequence number.
    pub(super) answer: bool,
    /// The tuple goes on unbroken.
    pub(super) tuple: bool,
}

impl Link {
    /// What two parts have in common; `None`: they are of different flows.
    pub(super) fn between(a: &Witness, b: &Witness) -> Option<Self> {
        let keys = a.key.zip(b.key);
        let different = match keys {
            Some((Key::Syn(x), Key::Syn(y))) => x != y,
            _ => false,
        };
        let link = Self {
            key: keys.is_some_and(|(x, y)| x.fits(&y) && (x.is_strong() || y.is_strong())),
            answer: a.answer.is_some() && a.answer == b.answer,
            tuple: continues(a, b) || continues(b, a),
        };
        let common = link.key || link.answer || link.tuple;
        (common && !different).then_some(link)
    }

    /// How sure it is.
    pub(super) fn certainty(self) -> Certainty {
        match (self.key, self.answer, self.tuple) {
            (true, true, _) | (true, _, true) | (_, true, true) => Certainty::Certain,
            (true, ..) | (_, true, _) => Certainty::Likely,
            _ => Certainty::Weak,
        }
    }

    /// What both have.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            key: self.key && other.key,
            answer: self.answer && other.answer,
            tuple: self.tuple && other.tuple,
        }
    }
}

/// How sure a join is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Certainty {
    /// Only the tuple goes on, at the same time.
    Weak,
    /// One thing that no translator touches is the same.
    Likely,
    /// Two are, or one and the tuple.
    Certain,
}

impl Certainty {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// Whether a request that left `a` came to `b` with the same tuple.
fn continues(a: &Witness, b: &Witness) -> bool {
    let (Some((_, last)), Some((first, _))) = (a.ends(), b.ends()) else {
        return false;
    };
    last.tuple == first.tuple
}

/// Whether `a` comes before `b` on the request's way, as far as that can be told without clocks: by hop
/// limits, by the sides of devices, by tuples. `None`: it cannot.
pub(super) fn is_before(a: (&Sight, &Sight), b: (&Sight, &Sight)) -> Option<bool> {
    let by_ttl = |x: (&Sight, &Sight), y: (&Sight, &Sight)| x.1.ttl >= y.0.ttl;
    let by_side = |x: (&Sight, &Sight), y: (&Sight, &Sight)| {
        x.1.sided && y.0.sided && x.1.dir == Dir::Egress && y.0.dir == Dir::Ingress
    };
    let by_tuple = |x: (&Sight, &Sight), y: (&Sight, &Sight)| x.1.tuple == y.0.tuple;
    let one_way = |ab: bool, ba: bool| (ab != ba).then_some(ab);
    one_way(by_ttl(a, b), by_ttl(b, a))
        .or_else(|| one_way(by_side(a, b), by_side(b, a)))
        .or_else(|| one_way(by_tuple(a, b), by_tuple(b, a)))
}
