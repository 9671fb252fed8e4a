//! What srctrace costs and can carry: `cargo xtask bench`. The measuring program is `xtask/bench`, built for release.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::build::{self, Profile};
use crate::host;
use crate::process;
use crate::setup::{self, Mode, Need};
use crate::tools::{Group, Tools};
use crate::vm::{self, Kernel};
use crate::workspace::Workspace;

/// What to measure, and how long.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Few and short rounds, for development; docs/performance.md stays as it is
    #[arg(long)]
    quick: bool,
    /// Measure only these parts: programs, throughput, core, pods, connections,
    /// observers, merge, map; docs/performance.md stays as it is
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Interleaved rounds of the throughput comparison (default: 21)
    #[arg(long)]
    rounds: Option<usize>,
    /// Measure only the rule observers, in a virtual machine with this kernel: run counts are exact there, times mean
    /// nothing
    #[arg(long, value_enum, conflicts_with_all = ["quick", "only", "rounds"])]
    kernel: Option<Kernel>,
}

/// Where the rule observers are measured as well, when this machine's kernel cannot be probed.
const PROBED: Kernel = Kernel::V6_12;
/// What a machine says of it.
const ELSEWHERE: &str = "target/bench/observers.json";
/// What it runs.
const SCRIPT: &str =
    "export SRCTRACE_BIN=/usr/bin/srctrace\nexec srctrace-bench --quick --only observers";

impl BenchArgs {
    /// Where the table goes: only a whole run is worth keeping.
    fn markdown(&self) -> &'static str {
        if self.quick || !self.only.is_empty() || self.kernel.is_some() {
            "target/bench/performance.md"
        } else {
            "docs/performance.md"
        }
    }

    fn forward(&self) -> Vec<String> {
        let mut words = vec![
            format!("--markdown={}", self.markdown()),
            "--json=target/bench/performance.json".to_owned(),
        ];
        if self.quick {
            words.push("--quick".to_owned());
        }
        words.extend(self.only.iter().map(|part| format!("--only={part}")));
        words.extend(self.rounds.map(|rounds| format!("--rounds={rounds}")));
        words
    }

    /// In which virtual machine the rule observers are measured, if in any.
    fn elsewhere(&self, has_kprobes: bool) -> Option<Kernel> {
        let whole = self.only.is_empty() && !self.quick;
        let wanted = whole || self.only.iter().any(|part| part == "observers");
        self.kernel
            .or(Some(PROBED).filter(|_| wanted && !has_kprobes))
    }
}

/// Installs and builds what is missing, measures, prints a table and JSON, and keeps the table.
///
/// # Errors
/// Status 3 without root; else when building or measuring fails.
pub(crate) fn run(space: &Workspace, args: &BenchArgs, mode: Mode) -> Result<()> {
    host::require_root("bench", "making the lab's network namespaces")?;
    setup::ensure(space, &[Need::Toolchain, Need::Tools(Group::Lab)], mode)?;
    let binary = build::all(space, Profile::Release)?;
    for folder in [space.target().join("bench"), space.root().join("docs")] {
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let bench = build_bench(space)?;
    let mut words = args.forward();
    let probed = Path::new("/sys/bus/event_source/devices/kprobe").exists();
    if let Some(kernel) = args.elsewhere(probed) {
        let json = observers(
            space,
            kernel,
            [("srctrace", &binary), ("srctrace-bench", &bench)],
            mode,
        )?;
        let file = space.root().join(ELSEWHERE);
        fs::write(&file, json).with_context(|| format!("writing {}", file.display()))?;
        words.push(format!("--observers-from={ELSEWHERE}"));
    }
    if args.kernel.is_some() {
        return Ok(());
    }
    let mut bench = process::command(bench);
    bench
        .current_dir(space.root())
        .args(words)
        .env("SRCTRACE_BIN", binary)
        .env("PATH", Tools::of(space).path_variable());
    process::run(&mut bench, "the benchmarks")?;
    println!("the table is in {}", args.markdown());
    Ok(())
}

fn build_bench(space: &Workspace) -> Result<PathBuf> {
    let mut cargo = process::cargo(space);
    cargo.args([
        "build",
        "--quiet",
        "--release",
        "--package",
        "srctrace-bench",
    ]);
    process::run(&mut cargo, "building the benchmarks")?;
    Ok(space.target().join("release/srctrace-bench"))
}

/// Measures the rule observers in a virtual machine, with its output on the screen, and returns the numbers as JSON.
fn observers(
    space: &Workspace,
    kernel: Kernel,
    programs: [(&str, &PathBuf); 2],
    mode: Mode,
) -> Result<String> {
    let programs = programs.map(|(name, path)| (name.to_owned(), path.clone()));
    let mut lines = Vec::new();
    vm::script(space, mode, kernel, (SCRIPT, programs.into()), |line| {
        println!("{line}");
        lines.push(line.to_owned());
    })?;
    Ok(json_in(&lines))
}

/// The object that stands by itself among lines of output, on lines of its own.
fn json_in(lines: &[String]) -> String {
    let start = lines
        .iter()
        .position(|line| line == "{")
        .unwrap_or(lines.len());
    let end = lines
        .iter()
        .rposition(|line| line == "}")
        .map_or(0, |at| at + 1);
    lines.get(start..end).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_run_replaces_the_document() {
        let args = |quick, only: &[&str]| BenchArgs {
            quick,
            only: only.iter().map(|&part| part.to_owned()).collect(),
            rounds: Some(30),
            kernel: None,
        };
        assert_eq!(
            args(false, &[]).forward(),
            [
                "--markdown=docs/performance.md",
                "--json=target/bench/performance.json",
                "--rounds=30"
            ]
        );
        assert_eq!(
            args(true, &["core", "pods"]).forward(),
            [
                "--markdown=target/bench/performance.md",
                "--json=target/bench/performance.json",
                "--quick",
                "--only=core",
                "--only=pods",
                "--rounds=30"
            ]
        );
    }
    #[test]
    fn observers_are_measured_where_they_can_be() {
        let args = |only: &[&str], kernel| BenchArgs {
            quick: false,
            only: only.iter().map(|&part| part.to_owned()).collect(),
            rounds: None,
            kernel,
        };
        assert_eq!(args(&[], None).elsewhere(true), None);
        assert_eq!(args(&[], None).elsewhere(false), Some(PROBED));
        assert_eq!(args(&["core"], None).elsewhere(false), None);
        assert_eq!(
            args(&["core", "observers"], None).elsewhere(false),
            Some(PROBED)
        );
        let old = args(&[], Some(Kernel::V6_1));
        assert_eq!(old.elsewhere(true), Some(Kernel::V6_1));
        assert_eq!(old.markdown(), "target/bench/performance.md");
    }

    #[test]
    fn numbers_are_found_among_lines() {
        let lines = ["| a |", "{", "  \"observers\": {", "  }", "}", "end"].map(str::to_owned);
        assert_eq!(json_in(&lines), "{\n  \"observers\": {\n  }\n}");
        assert_eq!(json_in(&lines[..1]), "");
    }
}
