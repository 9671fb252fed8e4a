//! Holding a report against what a lab expects of it: the claims that the test spells out, and the whole report that is kept
//! in `expect/`.
//!
//! `UPDATE_EXPECT=1` writes the files instead of comparing; read the difference before committing it. A file
//! `NAME@KERNEL.json` goes before `NAME.json` on that kernel.

use std::env;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::Report;
use super::digest::{digest, findings};
use super::normal::{Names, whole, without_kernels_words};

static EXPECTED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/expected.rs"));

/// What a lab expects of a whole run.
#[derive(Debug)]
pub struct Expected<'a> {
    /// The name of the file in `expect/`, without `.json`.
    pub name: &'a str,
    /// The exit status.
    pub status: i32,
    /// The claims of every flow ([`digest`]), in the order of the flows' tuples.
    pub flows: &'a [&'a str],
    /// Codes that must be among the findings of the flow with that number (from 0).
    pub findings: &'a [(usize, &'a str)],
}

impl Expected<'_> {
    /// Compares everything and names all that differs at once.
    ///
    /// # Errors
    /// When anything differs.
    pub fn hold(&self, report: &Report, names: &Names) -> Result<()> {
        let mut wrong = Vec::new();
        if report.status != Some(self.status) {
            wrong.push(format!(
                "exit status {:?}, should be {}",
                report.status, self.status
            ));
        }
        for problem in [self.claims(report, names), no_loss(report)] {
            wrong.extend(problem.err().map(|error| format!("{error:#}")));
        }
        // A report whose claims are wrong must not become the expected one.
        if wrong.is_empty() || !updating() {
            wrong.extend(
                compare(self.name, report, names)
                    .err()
                    .map(|error| format!("{error:#}")),
            );
        }
        ensure!(
            wrong.is_empty(),
            "{}\n--- what srctrace printed\n{}\n--- and on standard error\n{}",
            wrong.join("\n"),
            report.lines.join("\n"),
            report.stderr
        );
        Ok(())
    }

    fn claims(&self, report: &Report, names: &Names) -> Result<()> {
        let flows = report.flows()?;
        let is: Vec<String> = flows.iter().map(|flow| digest(flow, names)).collect();
        let should: Vec<String> = self
            .flows
            .iter()
            .map(|claims| reasons_of(&kernel(), &unindent(claims)))
            .collect();
        if is != should {
            bail!(
                "the flows' claims differ:\n{}",
                difference(&should.join("\n\n"), &is.join("\n\n"))
            );
        }
        for (number, code) in self.findings {
            let found = flows.get(*number).map(findings).unwrap_or_default();
            ensure!(
                found.iter().any(|found| found == code),
                "flow {number} lacks the finding {code}: {found:?}"
            );
        }
        Ok(())
    }
}

/// The kernel that the labs run on.
fn kernel() -> String {
    env::var("SRCTRACE_LAB_KERNEL").unwrap_or_else(|_| NATIVE.to_owned())
}

/// The name of the machine's own.
const NATIVE: &str = "native";

/// Claims with the reasons of drops as that kernel names them: labs spell out the newest names.
fn reasons_of(kernel: &str, claims: &str) -> String {
    let named = |reason: &str| match (kernel, reason) {
        ("5.10", _) => "null".to_owned(), // reasons came with 5.17
        ("6.1" | "6.12", "IP_LOCAL_SOURCE") => "NOT_SPECIFIED".to_owned(),
        _ => reason.to_owned(),
    };
    let line = |line: &str| match line.strip_prefix("dropped: ") {
        Some(reason) => format!("dropped: {}", named(reason)),
        None => line.to_owned(),
    };
    claims.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether the expected reports are to be written instead of compared.
fn updating() -> bool {
    env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1")
}

/// A lab that is about something else must not lose events.
fn no_loss(report: &Report) -> Result<()> {
    let lost = &report.summary()?["events"]["lost"];
    ensure!(lost == 0, "events lost: {lost}");
    Ok(())
}

/// Compares the whole normalised report with the file of that name.
///
/// # Errors
/// When it differs, or there is no such file.
pub fn compare(name: &str, report: &Report, names: &Names) -> Result<()> {
    let is = whole(report, names)?;
    let kernel = kernel();
    if updating() {
        let is = pretty(&is)?;
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("expect")
            .join(format!("{name}.json"));
        return fs::write(&path, is).with_context(|| format!("write {}", path.display()));
    }
    let find = |name: &str| {
        EXPECTED
            .iter()
            .find(|(file, _)| *file == name)
            .map(|(_, text)| *text)
    };
    let Some(should) = find(&format!("{name}@{kernel}")).or_else(|| find(name)) else {
        bail!(
            "there is no expect/{name}.json; run with UPDATE_EXPECT=1 (or take what follows), read it, commit it\n\
             --- expect/{name}.json\n{}--- end of expect/{name}.json",
            pretty(&is)?
        );
    };
    let (is, should) = if kernel == NATIVE {
        (pretty(&is)?, should.to_owned())
    } else {
        let should =
            serde_json::from_str(should).with_context(|| format!("read expect/{name}.json"))?;
        (elsewhere(is)?, elsewhere(should)?)
    };
    if is != should {
        bail!(
            "the report is not that of expect/{name}.json:\n{}",
            difference(&should, &is)
        );
    }
    Ok(())
}

fn pretty(value: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value).context("print a report")?;
    Ok(text + "\n")
}

/// A report without the words of the kernel that it was written on.
fn elsewhere(mut report: Value) -> Result<String> {
    without_kernels_words(&mut report);
    pretty(&report)
}

/// The lines that differ, with three lines around them.
pub fn difference(should: &str, is: &str) -> String {
    let diff = TextDiff::from_lines(should, is);
    let mut text = String::new();
    for group in diff.grouped_ops(3) {
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => "should ",
                ChangeTag::Insert => "is     ",
                ChangeTag::Equal => "       ",
            };
            text.push_str(sign);
            text.push_str(change.value().trim_end_matches('\n'));
            text.push('\n');
        }
        text.push_str("       ...\n");
    }
    text
}

/// Lets a test indent its literals.
fn unindent(text: &str) -> String {
    text.trim()
        .lines()
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("\n")
}
