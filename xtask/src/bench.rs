//! What srctrace costs and can carry: `cargo xtask bench`. The measuring program is `xtask/bench`, built for release.

use std::fs;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::build::{self, Profile};
use crate::host;
use crate::process;
use crate::setup::{self, Mode, Need};
use crate::tools::{Group, Tools};
use crate::workspace::Workspace;

/// What to measure, and how long.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Few and short rounds, for development; docs/performance.md stays as it is
    #[arg(long)]
    quick: bool,
    /// Measure only these parts: programs, throughput, core, pods, connections; docs/performance.md stays as it is
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<String>,
    /// Interleaved rounds of the throughput comparison (default: 21)
    #[arg(long)]
    rounds: Option<usize>,
}

impl BenchArgs {
    /// Where the table goes: only a whole run is worth keeping.
    fn markdown(&self) -> &'static str {
        if self.quick || !self.only.is_empty() {
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
    let mut cargo = process::cargo(space);
    cargo
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "srctrace-bench",
            "--",
        ])
        .args(args.forward())
        .env("SRCTRACE_BIN", binary)
        .env("PATH", Tools::of(space).path_variable());
    process::run(&mut cargo, "the benchmarks")?;
    println!("the table is in {}", args.markdown());
    Ok(())
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
}
