//! The tuples at the two taps of one side of a device. They are nearly always the same, and very many
//! are remembered.

use crate::event::Tap;
use crate::packet::Tuple;

/// Which tap saw what, in the order in which a packet meets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taps {
    /// Only the first saw it.
    First(Tuple),
    /// Only the second saw it.
    Second(Tuple),
    /// Both saw the same.
    Same(Tuple),
    /// A traffic-control program between them changed it.
    Differ(Box<[Tuple; 2]>),
}

impl Taps {
    /// What one tap saw.
    pub(super) fn of(tap: Tap, tuple: Tuple) -> Self {
        if is_first(tap) {
            Self::First(tuple)
        } else {
            Self::Second(tuple)
        }
    }

    /// What each saw.
    pub(super) fn both(&self) -> [Option<Tuple>; 2] {
        match self {
            Self::First(tuple) => [Some(*tuple), None],
            Self::Second(tuple) => [None, Some(*tuple)],
            Self::Same(tuple) => [Some(*tuple); 2],
            Self::Differ(tuples) => tuples.map(Some),
        }
    }

    /// What a tap saw.
    pub(super) fn at(&self, tap: Tap) -> Option<Tuple> {
        let [first, second] = self.both();
        if is_first(tap) { first } else { second }
    }

    /// Takes in what the others saw, where these saw nothing.
    pub(super) fn merge(&mut self, other: &Self) {
        let ([first, second], [new_first, new_second]) = (self.both(), other.both());
        *self = match (first.or(new_first), second.or(new_second)) {
            (Some(first), Some(second)) if first == second => Self::Same(first),
            (Some(first), Some(second)) => Self::Differ(Box::new([first, second])),
            (Some(first), None) => Self::First(first),
            (None, Some(second)) => Self::Second(second),
            (None, None) => return,
        };
    }
}

/// Whether a packet meets this one of its side's two taps first: at ingress the tracepoint, at egress ours.
fn is_first(tap: Tap) -> bool {
    match tap {
        Tap::Receive | Tap::TcEgress => true,
        Tap::TcIngress | Tap::Transmit => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Proto;

    fn tuple(port: u16) -> Tuple {
        Tuple {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            sport: port,
            dport: 80,
            proto: Proto::TCP,
        }
    }

    #[test]
    fn each_tap_keeps_what_it_saw_first() {
        let mut taps = Taps::of(Tap::Transmit, tuple(2));
        assert_eq!(taps.both(), [None, Some(tuple(2))]);
        taps.merge(&Taps::of(Tap::Transmit, tuple(3)));
        assert_eq!(taps, Taps::Second(tuple(2)));
        taps.merge(&Taps::of(Tap::TcEgress, tuple(1)));
        assert_eq!(taps, Taps::Differ(Box::new([tuple(1), tuple(2)])));
        assert_eq!(taps.at(Tap::TcEgress), Some(tuple(1)));
        assert_eq!(taps.at(Tap::Transmit), Some(tuple(2)));
    }

    #[test]
    fn two_that_saw_the_same_are_one() {
        let mut taps = Taps::of(Tap::Receive, tuple(1));
        taps.merge(&Taps::of(Tap::TcIngress, tuple(1)));
        assert_eq!(taps, Taps::Same(tuple(1)));
        assert_eq!(taps.both(), [Some(tuple(1)); 2]);
    }
}
