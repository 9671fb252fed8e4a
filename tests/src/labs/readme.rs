//! The README shows what the demo prints.

use anyhow::{Context as _, Result};

use super::steps::{answered, same, same_text};
use super::{Case, NATIVE};
use crate::lab::Agent;
use crate::lab::cast::{self, EXEMPT, PEER, RouteBack};
use crate::trace::Srctrace;
use crate::traffic::{Behaviour, StreamCall, StreamServer};

pub(super) const CASES: &[Case] =
    &[Case::new("readme_shows_the_demo", &[], shows_the_demo).on(NATIVE)];

const README: &str = include_str!("../../../README.md");

/// The demo's first request, and the block of the README that begins with the program's name.
fn shows_the_demo() -> Result<()> {
    let lab = cast::two_pods("demo", RouteBack::Known).up()?;
    let agent = Agent {
        chain: "IP-MASQ-AGENT",
        exempt: &["10.30.0.0/16"],
    };
    lab.restore("node", "iptables-legacy-restore", &agent.restore_script())?;
    let _peer = StreamServer::start(&lab, "peer", "10.20.30.40:443", Behaviour::Answer)?;
    let trace = Srctrace::new(&lab, &["--dest", PEER, "--dest", EXEMPT])
        .text()
        .start()?;
    let outcome = StreamCall::new("pod", "10.20.30.40:443", 43_210).run(&lab)?;
    same(
        "what the far side saw",
        outcome,
        answered("10.100.0.5:43210")?,
    )?;
    let report = trace.stop()?;
    // The last two lines are empty and the summary.
    let flow = report
        .lines
        .split(String::is_empty)
        .next()
        .unwrap_or_default();
    let printed = format!("{}\n{}", report.stderr, flow.join("\n"));
    let shown = README
        .split("```")
        .find(|block| block.starts_with("\nsrctrace 0"))
        .context("the README shows no output")?;
    same_text("the README's output", &still(&printed), &still(shown))
}

/// Without what differs from run to run: numbers of the machine and the moment, and the columns' width, which goes by them.
fn still(text: &str) -> String {
    let mut lines = text.trim().lines();
    // When, where and on how many.
    let header = lines.next().and_then(|line| line.split(" · ").next());
    let words = |line: &str| -> String {
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        words.join(" ")
    };
    let rest: Vec<String> = lines.map(words).collect();
    format!("{}\n{}", header.unwrap_or_default(), rest.join("\n"))
}

fn word(word: &str) -> String {
    if let Some(lab) = word.strip_prefix("stlab-") {
        return lab
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == '-')
            .to_owned();
    }
    if word.starts_with('+') || word.ends_with(['↑', '↓']) {
        return word.replace(|c: char| c.is_ascii_digit(), "");
    }
    word.to_owned()
}
