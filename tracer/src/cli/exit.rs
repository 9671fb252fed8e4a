//! How srctrace ends.

use std::process::ExitCode;

/// The exit status, one meaning each; scripts rely on the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Done; every expectation given holds.
    #[default]
    Done = 0,
    /// An expectation was violated.
    Violated = 1,
    /// Wrong usage, or an input that is malformed.
    Usage = 2,
    /// Cannot trace here: a capability or kernel feature is missing.
    CannotTrace = 3,
    /// No matching traffic in the time given.
    NoTraffic = 4,
    /// Not certain, and an expectation depended on it.
    Uncertain = 5,
    /// The output could not be written.
    OutputFailed = 6,
}

impl ExitStatus {
    /// The stronger of two reasons to end: 2, 3, 6, 1, 5, 4, 0 in this order.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
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
            Self::NoTraffic => 5,
            Self::Done => 6,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::ExitStatus as S;

    #[test]
    fn the_order_is_that_of_the_table() {
        let order = [
            S::Usage,
            S::CannotTrace,
            S::OutputFailed,
            S::Violated,
            S::Uncertain,
            S::NoTraffic,
            S::Done,
        ];
        for (i, strong) in order.iter().enumerate() {
            for weak in &order[i..] {
                assert_eq!(strong.or(*weak), *strong);
                assert_eq!(weak.or(*strong), *strong);
            }
        }
    }

    #[test]
    fn the_numbers_are_those_of_the_table() {
        let all = [
            S::Done,
            S::Violated,
            S::Usage,
            S::CannotTrace,
            S::NoTraffic,
            S::Uncertain,
            S::OutputFailed,
        ];
        assert_eq!(all.map(|s| s as u8), [0, 1, 2, 3, 4, 5, 6]);
    }
}
