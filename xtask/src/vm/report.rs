//! The results of all boots on the screen.

use std::fmt::Write as _;
use std::time::Duration;

use super::kernels::Kernel;
use super::labs::Results;
use crate::test::Counts;

/// What one boot's run gave.
#[derive(Debug)]
pub(crate) struct KernelRun {
    /// What booted.
    pub(crate) kernel: Kernel,
    /// What this boot is called.
    pub(crate) name: String,
    /// The kernel's release, as `uname -r` says it.
    pub(crate) release: String,
    /// Lab by lab.
    pub(crate) results: Results,
    /// Added up.
    pub(crate) counts: Counts,
    /// Boot, run and switching off.
    pub(crate) took: Duration,
}

/// A line for each boot.
pub(crate) fn summary(runs: &[KernelRun]) -> String {
    let mut text = format!(
        "\n{:<54}{:>8}{:>8}{:>9}{:>9}\n",
        "kernel", "passed", "failed", "skipped", "seconds"
    );
    for run in runs {
        let Counts {
            passed,
            failed,
            ignored,
        } = run.counts;
        let seconds = run.took.as_secs_f64();
        let _ = writeln!(
            text,
            "{:<54}{passed:>8}{failed:>8}{ignored:>9}{seconds:>9.1}",
            format!("{} ({})", run.name, run.release)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_boot_is_a_line() {
        let counts = Counts {
            passed: 0,
            failed: 1,
            ignored: 0,
        };
        let run = KernelRun {
            kernel: Kernel::V7,
            name: "7".to_owned(),
            release: "7.0-x".to_owned(),
            results: Results::default(),
            counts,
            took: Duration::from_millis(1500),
        };
        assert!(summary(&[run]).ends_with(&format!(
            "{:<54}{:>8}       1        0      1.5\n",
            "7 (7.0-x)", 0
        )));
    }
}
