//! The labs as the virtual machine runs them: their table, their command line, their results.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::kernels::Kernel;
use crate::test::Counts;

/// One lab, as the lab program describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Lab {
    /// Unique name.
    pub(crate) name: String,
    /// Scenario rows that it shows.
    pub(crate) rows: Vec<String>,
    /// Kernels that it is for.
    pub(crate) kernels: Vec<Kernel>,
    /// Whether it is for the machine's own kernel too.
    pub(crate) native: bool,
    /// Modules that it needs besides the usual ones.
    pub(crate) needs: Vec<String>,
    /// Words that it needs on the kernel's command line: labs that need others are run in a boot of their own.
    pub(crate) boot: String,
    /// Taps, probe layouts and rule stores that it exercises; none where the lab does not say.
    pub(crate) covers: Option<Vec<String>>,
}

/// Reads the table: one JSON object a line.
///
/// # Errors
/// When a line is not such an object.
pub(crate) fn parse_table(text: &str) -> Result<Vec<Lab>> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| parse_lab(line).with_context(|| format!("the labs' table has the line {line}")))
        .collect()
}

fn parse_lab(line: &str) -> Result<Lab> {
    let lab: Value = serde_json::from_str(line)?;
    let words = |key: &str| {
        let list = lab.get(key)?.as_array()?;
        list.iter()
            .map(|word| word.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
    };
    let kernels = words("kernels").context("no kernels")?;
    let is_listed = |kernel: &Kernel| kernels.iter().any(|name| name == kernel.lab_name());
    Ok(Lab {
        name: lab["name"].as_str().context("no name")?.to_owned(),
        rows: words("rows").context("no rows")?,
        kernels: Kernel::ALL.into_iter().filter(is_listed).collect(),
        native: kernels.iter().any(|name| name == "native"),
        needs: words("needs").context("no needs")?,
        boot: lab["boot"].as_str().context("no boot")?.to_owned(),
        covers: words("covers"),
    })
}

/// The shell script that runs exactly `chosen` of `all`.
pub(crate) fn script(kernel: Kernel, all: &[Lab], chosen: &[&Lab]) -> String {
    let mut modules: Vec<&str> = chosen
        .iter()
        .flat_map(|lab| &lab.needs)
        .map(String::as_str)
        .collect();
    modules.sort_unstable();
    modules.dedup();
    let mut script = String::new();
    if !modules.is_empty() {
        script = format!("modprobe -a {}\n", modules.join(" "));
    }
    let kernel = kernel.lab_name();
    script.push_str("export SRCTRACE_BIN=/usr/bin/srctrace RUST_BACKTRACE=1\n");
    let _ = write!(
        script,
        "export SRCTRACE_LAB_KERNEL={kernel}\nexec labs --exact --test-threads 2"
    );
    for lab in all
        .iter()
        .filter(|lab| !chosen.iter().any(|other| other.name == lab.name))
    {
        let _ = write!(script, " --skip {}", lab.name);
    }
    script
}

/// How a lab ended on a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It held.
    Passed,
    /// It did not.
    Failed,
    /// It was left out by its runner.
    Ignored,
    /// The machine ended before it did.
    Missing,
}

/// What a run on one kernel printed, read line by line.
#[derive(Debug, Default)]
pub(crate) struct Results {
    outcomes: BTreeMap<String, Outcome>,
    closing: Counts,
}

impl Results {
    /// Results of labs that have not ended yet.
    pub(crate) fn expecting(labs: &[&Lab]) -> Self {
        let outcomes = labs
            .iter()
            .map(|lab| (lab.name.clone(), Outcome::Missing))
            .collect();
        Self {
            outcomes,
            closing: Counts::default(),
        }
    }

    /// Takes a line like `test NAME ... ok`, or the closing line; ignores others.
    pub(crate) fn line(&mut self, line: &str) {
        self.closing.add_line(line);
        if let Some((name, outcome)) = parse_result(line)
            && let Some(known) = self.outcomes.get_mut(name)
        {
            *known = outcome;
        }
    }

    /// How `lab` ended; none if it was not run here.
    pub(crate) fn of(&self, lab: &str) -> Option<Outcome> {
        self.outcomes.get(lab).copied()
    }

    /// The counts; `succeeded` is whether the run as a whole did. Whatever does not add up is a failure more: labs
    /// without a result, a closing line that says something else, a run that failed without a failed lab.
    pub(crate) fn counts(&self, succeeded: bool) -> Counts {
        let count = |wanted: &[Outcome]| {
            self.outcomes
                .values()
                .filter(|o| wanted.contains(o))
                .count() as u64
        };
        let mut counts = Counts {
            passed: count(&[Outcome::Passed]),
            failed: count(&[Outcome::Failed, Outcome::Missing]),
            ignored: count(&[Outcome::Ignored]),
        };
        if counts.failed == 0 && (!succeeded || counts != self.closing) {
            counts.failed = 1;
        }
        counts
    }
}

fn parse_result(line: &str) -> Option<(&str, Outcome)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let outcome = match outcome.split_whitespace().next()? {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Ignored,
        _ => return None,
    };
    Some((name.trim(), outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(name: &str, needs: &[&str]) -> Lab {
        Lab {
            name: name.to_owned(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
            ..Lab::default()
        }
    }

    #[test]
    fn the_table_is_read_whole_or_not_at_all() {
        let line = r#"{"name":"a1","rows":["A1","E6"],"kernels":["native","6.1","7.x"],"needs":["sctp"],"boot":"quiet","alone":true}"#;
        let expected = Lab {
            rows: vec!["A1".to_owned(), "E6".to_owned()],
            kernels: vec![Kernel::V6_1, Kernel::V7],
            native: true,
            boot: "quiet".to_owned(),
            ..lab("a1", &["sctp"])
        };
        assert_eq!(parse_table(&format!("{line}\n\n")).unwrap(), [expected]);
        for bad in [
            "x",
            "{}",
            r#"{"name":"a","rows":[1],"kernels":[],"needs":[],"boot":""}"#,
            r#"{"name":"a","rows":[],"kernels":[],"needs":[]}"#,
        ] {
            assert!(parse_table(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_script_leaves_out_what_was_not_chosen() {
        let all = [
            lab("a", &["sctp", "esp4"]),
            lab("b", &[]),
            lab("c", &["esp4"]),
        ];
        assert_eq!(
            script(Kernel::V7, &all, &[&all[0], &all[2]]),
            "modprobe -a esp4 sctp\nexport SRCTRACE_BIN=/usr/bin/srctrace RUST_BACKTRACE=1\n\
             export SRCTRACE_LAB_KERNEL=7.x\nexec labs --exact --test-threads 2 --skip b"
        );
    }

    fn results(lines: &[&str]) -> Results {
        let labs = [lab("a", &[]), lab("b", &[])];
        let mut results = Results::expecting(&[&labs[0], &labs[1]]);
        lines.iter().for_each(|line| results.line(line));
        results
    }

    const CLOSING: &str = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 1s";

    #[test]
    fn results_count_when_they_add_up() {
        let ok = results(&["test a   ... ok", "noise", "test b ... ok", CLOSING]);
        assert_eq!(ok.of("b"), Some(Outcome::Passed));
        assert_eq!(ok.of("c"), None);
        assert_eq!(
            ok.counts(true),
            Counts {
                passed: 2,
                failed: 0,
                ignored: 0
            }
        );
        assert_eq!(
            ok.counts(false),
            Counts {
                passed: 2,
                failed: 1,
                ignored: 0
            }
        );
    }

    #[test]
    fn labs_without_a_result_have_failed() {
        let cut = results(&["test a ... ok", "test b ... "]);
        assert_eq!(cut.of("b"), Some(Outcome::Missing));
        assert_eq!(
            cut.counts(false),
            Counts {
                passed: 1,
                failed: 1,
                ignored: 0
            }
        );
        let lied = results(&["test a ... ok", "test b ... ignored", CLOSING]);
        assert_eq!(
            lied.counts(true),
            Counts {
                passed: 1,
                failed: 1,
                ignored: 1
            }
        );
    }
}
