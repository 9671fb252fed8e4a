//! Reading what test runners say about themselves.

use anyhow::{Result, bail};

/// Numbers of tests, added up over runners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Tests that ran and held.
    pub(crate) passed: u64,
    /// Tests that ran and did not hold, and runners that broke off.
    pub(crate) failed: u64,
    /// Tests that their runner left out.
    pub(crate) ignored: u64,
}

impl Counts {
    /// Adds `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Adds what `line` says if it is a runner's closing line.
    pub(crate) fn add_line(&mut self, line: &str) {
        if let Some(counts) = Self::parse(line) {
            self.add(counts);
        }
    }

    /// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; …`.
    fn parse(line: &str) -> Option<Self> {
        let (_, numbers) = line
            .trim_start()
            .strip_prefix("test result: ")?
            .split_once(". ")?;
        let number = |what: &str| {
            let field = numbers
                .split(';')
                .find(|field| field.trim().ends_with(what))?;
            field.split_whitespace().next()?.parse().ok()
        };
        Some(Self {
            passed: number(" passed")?,
            failed: number(" failed")?,
            ignored: number(" ignored")?,
        })
    }

    /// Holds the counts against the exit status of the whole run.
    ///
    /// # Errors
    /// When no test ran at all: a selection that selects nothing must not look like success.
    pub(crate) fn settle(mut self, succeeded: bool) -> Result<Self> {
        if !succeeded && self.failed == 0 {
            // A runner that crashed, or a test that did not compile, has no closing line.
            self.failed = 1;
        }
        if self.passed + self.failed == 0 {
            bail!("no test ran");
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, ignored: u64) -> Counts {
        Counts {
            passed,
            failed,
            ignored,
        }
    }

    #[test]
    fn closing_lines_add_up_and_others_do_not_count() {
        let output = "\
running 3 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s
test says 'test result: 9 passed'
   Doc-tests x
test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";
        let mut sum = Counts::default();
        output.lines().for_each(|line| sum.add_line(line));
        assert_eq!(sum, counts(3, 3, 1));
    }

    #[test]
    fn damaged_lines_are_not_counted() {
        for line in [
            "",
            "test result: ",
            "test result: ok. ",
            "test result: ok. x passed; 0 failed; 0 ignored",
            "test result: ok. 99999999999999999999 passed; 0 failed; 0 ignored",
        ] {
            assert_eq!(Counts::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_crashed_runner_is_a_failure_and_an_empty_run_an_error() {
        assert_eq!(counts(5, 0, 0).settle(false).unwrap(), counts(5, 1, 0));
        assert_eq!(counts(5, 2, 0).settle(false).unwrap(), counts(5, 2, 0));
        assert_eq!(counts(0, 0, 0).settle(false).unwrap(), counts(0, 1, 0));
        assert!(counts(0, 0, 4).settle(true).is_err());
    }
}
