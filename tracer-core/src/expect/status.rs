//! The exit statuses.

use super::Expectations;

/// The exit statuses, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Done; every expectation given holds.
    Done = 0,
    /// An expectation was violated.
    Violated = 1,
    /// Wrong usage, or an input file that cannot be read.
    Usage = 2,
    /// It cannot be traced here.
    CannotTrace = 3,
    /// No matching traffic in the time given.
    Nothing = 4,
    /// Not certain, and an expectation depended on it.
    Uncertain = 5,
    /// Output failed.
    OutputFailed = 6,
}

impl ExitStatus {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one that goes before the other: 2, 3, 6, 1, 5, 4, 0.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if self.rank() <= other.rank() {
            self
        } else {
            other
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Usage => 0,
            Self::CannotTrace => 1,
            Self::OutputFailed => 2,
            Self::Violated => 3,
            Self::Uncertain => 4,
            Self::Nothing => 5,
            Self::Done => 6,
        }
    }

    /// The status of a trace that ran to its end.
    #[must_use]
    pub fn of_trace(flows_reported: u64, expectations: &Expectations) -> Self {
        let traffic = if flows_reported == 0 {
            Self::Nothing
        } else {
            Self::Done
        };
        expectations.status().worse(traffic)
    }
}
