//! The table at the end of a run and its last line.

use std::fmt;
use std::time::Duration;

use super::{Counts, Strictness};

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It ran to its end; tests may have failed.
    Ran(Counts),
    /// It failed as a whole.
    Broken,
    /// The caller asked to leave it out.
    LeftOut,
    /// It could not run because an earlier step failed.
    Impossible,
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

impl Row {
    pub(super) fn new(name: &'static str, outcome: Outcome, took: Duration) -> Self {
        Self {
            name,
            outcome,
            took,
        }
    }

    pub(super) fn without_run(name: &'static str, outcome: Outcome) -> Self {
        Self::new(name, outcome, Duration::ZERO)
    }

    /// True when it ran and nothing in it failed.
    pub(super) fn succeeded(&self) -> bool {
        matches!(self.outcome, Outcome::Ran(counts) if counts.failed == 0)
    }

    fn counts(&self) -> Counts {
        match self.outcome {
            Outcome::Ran(counts) => counts,
            Outcome::Broken | Outcome::Impossible => Counts {
                failed: 1,
                ..Counts::default()
            },
            Outcome::LeftOut => Counts::default(),
        }
    }

    fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::Ran(counts) if counts.failed == 0 => "ok",
            Outcome::Ran(_) | Outcome::Broken => "FAILED",
            Outcome::LeftOut => "left out",
            Outcome::Impossible => "not run",
        }
    }
}

/// All steps of a run.
pub(super) struct Summary {
    rows: Vec<Row>,
    strictness: Strictness,
}

impl Summary {
    pub(super) fn new(strictness: Strictness) -> Self {
        Self {
            rows: Vec::new(),
            strictness,
        }
    }

    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.rows.iter().for_each(|row| sum.add(row.counts()));
        sum
    }

    /// Failed tests and steps; in CI skipped tests are among them.
    pub(super) fn failed(&self) -> u64 {
        let counts = self.counts();
        let skipped = if self.strictness == Strictness::Ci {
            counts.ignored
        } else {
            0
        };
        counts.failed + skipped
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<26}{:<10}{:>8}{:>8}{:>9}{:>9}",
            "step", "", "passed", "failed", "skipped", "seconds"
        )?;
        for row in &self.rows {
            let Counts {
                passed,
                failed,
                ignored,
            } = row.counts();
            let seconds = row.took.as_secs_f64();
            writeln!(
                f,
                "{:<26}{:<10}{passed:>8}{failed:>8}{ignored:>9}{seconds:>9.1}",
                row.name,
                row.word()
            )?;
        }
        if self.strictness == Strictness::Ci && self.counts().ignored > 0 {
            writeln!(f, "skipped tests count as failed in CI")?;
        }
        writeln!(
            f,
            "{} passed, {} failed",
            self.counts().passed,
            self.failed()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(strictness: Strictness) -> Summary {
        let mut summary = Summary::new(strictness);
        let ran = |passed, failed, ignored| {
            Outcome::Ran(Counts {
                passed,
                failed,
                ignored,
            })
        };
        summary.push(Row::new("format", ran(0, 0, 0), Duration::from_millis(340)));
        summary.push(Row::new("lints", Outcome::Broken, Duration::from_secs(12)));
        summary.push(Row::new(
            "unit and property tests",
            ran(120, 0, 2),
            Duration::from_secs(61),
        ));
        summary.push(Row::new(
            "labs on this kernel",
            ran(40, 1, 0),
            Duration::from_secs(90),
        ));
        summary.push(Row::without_run("labs on other kernels", Outcome::LeftOut));
        summary
    }

    #[test]
    fn the_table_and_the_last_line() {
        let expected = "
step                                  passed  failed  skipped  seconds
format                    ok               0       0        0      0.3
lints                     FAILED           0       1        0     12.0
unit and property tests   ok             120       0        2     61.0
labs on this kernel       FAILED          40       1        0     90.0
labs on other kernels     left out         0       0        0      0.0
160 passed, 2 failed
";
        assert_eq!(summary(Strictness::Local).to_string(), expected);
    }

    #[test]
    fn ci_counts_skipped_tests_as_failed() {
        let text = summary(Strictness::Ci).to_string();
        assert!(
            text.ends_with("skipped tests count as failed in CI\n160 passed, 4 failed\n"),
            "{text}"
        );
    }

    #[test]
    fn a_step_succeeded_only_if_it_ran_without_failures() {
        assert!(Row::without_run("x", Outcome::Ran(Counts::default())).succeeded());
        for outcome in [Outcome::Broken, Outcome::LeftOut, Outcome::Impossible] {
            assert!(!Row::without_run("x", outcome).succeeded());
        }
    }
}
