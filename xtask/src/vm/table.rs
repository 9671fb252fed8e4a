//! The table of results in docs/kernels.md. A run of some labs, or of some kernels, only changes what it ran.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::kernels::Kernel;
use super::labs::{Lab, Outcome};
use super::report::KernelRun;

const BEGIN: &str = "<!-- table: begin (written by `cargo xtask vm-test --all`) -->\n";
const END: &str = "<!-- table: end -->\n";
const OK: &str = "ok";

/// Results of labs on kernels.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    releases: BTreeMap<Kernel, String>,
    cells: BTreeMap<(String, Kernel), String>,
}

/// Puts the results of `runs` into the table of the document at `path`, which keeps those of other labs.
///
/// # Errors
/// When the document cannot be read or written, or has lost the marks around its table.
pub(super) fn write(path: &Path, labs: &[Lab], runs: &[KernelRun]) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let text = renewed(&text, labs, runs)
        .with_context(|| format!("{} has no place for the table", path.display()))?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn renewed(document: &str, labs: &[Lab], runs: &[KernelRun]) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (old, after) = rest.split_once(END)?;
    let mut table = Table::read(old);
    runs.iter().for_each(|run| table.take(labs, run));
    let table = table.text(labs);
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

impl Table {
    /// What [`Table::text`] wrote; a line that it did not write is nothing.
    fn read(text: &str) -> Self {
        let mut table = Self::default();
        let mut lines = text.lines().map(cells);
        let columns: Vec<Option<Kernel>> = lines.next().map_or_else(Vec::new, |header| {
            header.iter().map(|cell| kernel_of(cell)).collect()
        });
        for (kernel, release) in columns
            .iter()
            .zip(text.lines().next().map(cells).unwrap_or_default())
        {
            kernel.map(|kernel| table.releases.insert(kernel, release.to_owned()));
        }
        for line in lines {
            let Some(&lab) = line.first() else { continue };
            for (kernel, cell) in columns.iter().zip(&line) {
                kernel.map(|kernel| {
                    table
                        .cells
                        .insert((lab.to_owned(), kernel), (*cell).to_owned())
                });
            }
        }
        table
    }

    fn take(&mut self, labs: &[Lab], run: &KernelRun) {
        self.releases.insert(run.kernel, run.release.clone());
        for lab in labs {
            if let Some(outcome) = run.results.of(&lab.name) {
                let cell = word(outcome).to_owned();
                self.cells.insert((lab.name.clone(), run.kernel), cell);
            }
        }
    }

    /// A row for each lab that is for any of the kernels, a column for each kernel.
    fn text(&self, labs: &[Lab]) -> String {
        let mut text = format!(
            "| lab | rows |{}\n|---|---|{}\n",
            self.row(|kernel| self.releases[&kernel].clone()),
            "---|".repeat(self.releases.len())
        );
        for lab in labs.iter().filter(|lab| !lab.kernels.is_empty()) {
            let cells = self.row(|kernel| self.cell(lab, kernel).to_owned());
            let _ = writeln!(text, "| {} | {} |{cells}", lab.name, lab.rows.join(" "));
        }
        let sums = self.row(|kernel| {
            let of_kernel = labs.iter().filter(|lab| lab.kernels.contains(&kernel));
            let cells: Vec<_> = of_kernel.map(|lab| self.cell(lab, kernel)).collect();
            let passed = cells.iter().filter(|&&cell| cell == OK).count();
            format!("{passed} of {}", cells.len())
        });
        let _ = writeln!(text, "| passed | |{sums}");
        text
    }

    fn row(&self, cell: impl Fn(Kernel) -> String) -> String {
        let cells = self.releases.keys();
        cells
            .map(|&kernel| format!(" {} |", cell(kernel)))
            .collect()
    }

    fn cell(&self, lab: &Lab, kernel: Kernel) -> &str {
        if !lab.kernels.contains(&kernel) {
            return "–";
        }
        let known = self.cells.get(&(lab.name.clone(), kernel));
        known.map_or("not run", String::as_str)
    }
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim().trim_matches('|');
    line.split('|').map(str::trim).collect()
}

fn kernel_of(release: &str) -> Option<Kernel> {
    Kernel::ALL
        .into_iter()
        .find(|kernel| kernel.is_version(release))
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => OK,
        Outcome::Failed => "FAILED",
        Outcome::Ignored => "ignored",
        Outcome::Missing => "no result",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::labs::Results;
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
        KernelRun {
            kernel,
            name: kernel.name().to_owned(),
            release: format!("{}.0-x", kernel.name()),
            counts: results.counts(false),
            results,
            took: Duration::ZERO,
        }
    }

    fn document(table: &str) -> String {
        format!("# Kernels\n{BEGIN}{table}{END}rest\n")
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
            run(Kernel::V7, &[&labs[0]], &["test a ... FAILED"]),
            run(Kernel::V7, &[&labs[1]], &[]),
        ];
        assert_eq!(
            renewed(&document("old\n"), &labs, &runs).unwrap(),
            document(
                "| lab | rows | 5.10.0-x | 7.0-x |\n|---|---|---|---|\n| a | A1 | ok | FAILED |\n\
                 | b | A1 | – | no result |\n| passed | | 1 of 1 | 0 of 2 |\n"
            )
        );
        assert_eq!(renewed("# Kernels\n", &labs, &runs), None);
    }

    #[test]
    fn what_was_not_run_keeps_its_result() {
        let all = &[Kernel::V5_10, Kernel::V7];
        let labs = [lab("a", all), lab("b", all), lab("new", all)];
        let old = "| lab | rows | 5.10.9-x | 7.0-x |\n|---|---|---|---|\n| a | A1 | ok | FAILED |\n\
             | b | A1 | FAILED | ok |\n| gone | A1 | ok | ok |\n| passed | | 2 of 3 | 2 of 3 |\n";
        let runs = [run(Kernel::V7, &[&labs[0]], &["test a ... ok"])];
        assert_eq!(
            renewed(&document(old), &labs, &runs).unwrap(),
            document(
                "| lab | rows | 5.10.9-x | 7.0-x |\n|---|---|---|---|\n| a | A1 | ok | ok |\n\
                 | b | A1 | FAILED | ok |\n| new | A1 | not run | not run |\n| passed | | 1 of 3 | 2 of 3 |\n"
            )
        );
    }
}
