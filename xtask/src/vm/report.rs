//! The results of all kernels: on the screen, and as the table in docs/kernels.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::host::titled;
use super::labs::{Lab, Outcome, Results};
use crate::test::Counts;

const BEGIN: &str = "<!-- table: begin (written by `cargo xtask vm-test --all`) -->\n";
const END: &str = "<!-- table: end -->\n";

/// What one boot's run gave.
#[derive(Debug)]
pub(crate) struct KernelRun {
    /// Its release, as `uname -r` says it.
    pub(crate) release: String,
    /// What else stood on the kernel's command line.
    pub(crate) boot: String,
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
            titled(&run.release, &run.boot)
        );
    }
    text
}

/// A row for each lab that is for any of the kernels, a column for each kernel.
pub(crate) fn table(labs: &[Lab], runs: &[KernelRun]) -> String {
    // The boots of one kernel follow each other, and no lab is in two of them.
    let columns: Vec<&[KernelRun]> = runs.chunk_by(|a, b| a.release == b.release).collect();
    let row = |cell: &dyn Fn(&[KernelRun]) -> String| -> String {
        columns.iter().map(|runs| cell(runs) + " |").collect()
    };
    let mut text = format!(
        "| lab | rows |{}\n|---|---|{}\n",
        row(&|runs| format!(" {}", runs[0].release)),
        "---|".repeat(columns.len())
    );
    for lab in labs.iter().filter(|lab| !lab.kernels.is_empty()) {
        let outcome = |runs: &[KernelRun]| runs.iter().find_map(|run| run.results.of(&lab.name));
        let cells = row(&|runs| format!(" {}", word(outcome(runs))));
        let _ = writeln!(text, "| {} | {} |{cells}", lab.name, lab.rows.join(" "));
    }
    let sums = row(&|runs| {
        let mut sum = Counts::default();
        runs.iter().for_each(|run| sum.add(run.counts));
        format!(" {} of {}", sum.passed, total(sum))
    });
    let _ = writeln!(text, "| passed | |{sums}");
    text
}

fn total(counts: Counts) -> u64 {
    counts.passed + counts.failed + counts.ignored
}

fn word(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed) => "ok",
        Some(Outcome::Failed) => "FAILED",
        Some(Outcome::Ignored) => "ignored",
        Some(Outcome::Missing) => "no result",
        None => "–",
    }
}

/// Replaces the table in the document at `path`.
///
/// # Errors
/// When the document cannot be read or written, or has lost the marks around its table.
pub(crate) fn write(path: &Path, table: &str) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let text = with_table(&text, table)
        .with_context(|| format!("{} has no place for the table", path.display()))?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn with_table(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::kernels::Kernel;
    use super::*;

    fn lab(name: &str, kernels: &[Kernel]) -> Lab {
        Lab {
            name: name.to_owned(),
            rows: vec!["A1".to_owned()],
            kernels: kernels.to_vec(),
            ..Lab::default()
        }
    }

    fn run(kernel: Kernel, labs: &[&Lab], lines: &[&str]) -> KernelRun {
        let mut results = Results::expecting(labs);
        lines.iter().for_each(|line| results.line(line));
        let counts = results.counts(false);
        KernelRun {
            release: format!("{}.0-x", kernel.name()),
            boot: String::new(),
            results,
            counts,
            took: Duration::from_millis(1500),
        }
    }

    #[test]
    fn labs_are_rows_and_kernels_columns() {
        let labs = [
            lab("a", &[Kernel::V5_10, Kernel::V7]),
            lab("b", &[Kernel::V7]),
            lab("native", &[]),
        ];
        let runs = [
            run(Kernel::V5_10, &[&labs[0]], &["test a ... ok"]),
            run(Kernel::V7, &[&labs[0], &labs[1]], &["test a ... FAILED"]),
        ];
        assert_eq!(
            table(&labs, &runs),
            "| lab | rows | 5.10.0-x | 7.0-x |\n|---|---|---|---|\n| a | A1 | ok | FAILED |\n\
             | b | A1 | – | no result |\n| passed | | 1 of 2 | 0 of 2 |\n"
        );
        assert!(summary(&runs).ends_with(&format!(
            "{:<54}{:>8}       2        0      1.5\n",
            "7.0-x", 0
        )));
    }

    #[test]
    fn all_boots_of_a_kernel_are_one_column() {
        let labs = [lab("a", &[Kernel::V7]), lab("b", &[Kernel::V7])];
        let mut locked = run(Kernel::V7, &[&labs[1]], &["test b ... ok"]);
        locked.boot = "lockdown=confidentiality".to_owned();
        let runs = [run(Kernel::V7, &[&labs[0]], &["test a ... FAILED"]), locked];
        assert_eq!(
            table(&labs, &runs),
            "| lab | rows | 7.0-x |\n|---|---|---|\n| a | A1 | FAILED |\n| b | A1 | ok |\n\
             | passed | | 1 of 3 |\n"
        );
    }

    #[test]
    fn only_the_table_of_the_document_changes() {
        let document = format!("# Kernels\n{BEGIN}old\n{END}rest\n");
        assert_eq!(
            with_table(&document, "new\n").unwrap(),
            format!("# Kernels\n{BEGIN}new\n{END}rest\n")
        );
        assert_eq!(with_table("# Kernels\n", "new\n"), None);
    }
}
