//! The evaluator against the kernel: made-up rules, real packets, and every difference.
//!
//! A ruleset is loaded by its own tool and read back by it, packets are sent through the node, and
//! three things are compared for each ruleset: whether each packet came through, into what it was
//! translated, and how often the kernel's counter of every rule moved (a NAT rule's counter moves
//! exactly where that rule decided, a RETURN's where it exempted, a DROP's where it dropped).

mod bench;
mod draft;
mod iptables;
mod kernel;
mod nft;
mod packets;
mod random;
mod server;
mod wire;
mod words;

use anyhow::{Result, bail};
use bench::Bench;
use draft::{Draft, Tool};
use random::Random;
use tracer_core::evaluate::{End, Fate, Outcome};

/// Compares this many rulesets, each seed giving one; fails on the first difference.
///
/// # Errors
/// The smallest ruleset that still shows the difference, with its seed, packets and dump.
pub fn compare(rulesets: u64, seed: u64) -> Result<()> {
    let mut bench = Bench::new()?;
    let mut certain = 0;
    let mut tally = Tally::default();
    for n in 0..rulesets {
        let seed = seed.wrapping_add(n);
        let draft = made_up(seed);
        let round = bench.round(&draft, seed)?;
        if let Some(difference) = round.difference {
            let (draft, difference) = bench.smallest(draft, seed, difference)?;
            bail!(
                "seed {seed}:
{}
{difference}",
                draft.whole()
            );
        }
        certain += u64::from(round.certain);
        tally.add(&round.tally);
    }
    println!(
        "{certain} of {rulesets} rulesets, seeds from {seed}, agree in every rule's count; {tally:?}"
    );
    if certain * 10 < rulesets * 9 {
        bail!("only {certain} of {rulesets} rulesets had certain answers");
    }
    Ok(())
}

/// Each store alone, and each pair that a node may have.
fn made_up(seed: u64) -> Draft {
    let mut random = Random::new(seed);
    let mut tables = Vec::new();
    if matches!(seed % 5, 0 | 3 | 4) {
        tables.extend(iptables::tables(Tool::Legacy, &mut random));
    }
    if matches!(seed % 5, 1 | 3) {
        tables.extend(iptables::tables(Tool::IptablesNft, &mut random));
    }
    if matches!(seed % 5, 2 | 4) {
        tables.extend(nft::tables(&mut random));
    }
    Draft { tables }
}

/// How many packets fared how, to show that rules were met at all.
#[derive(Debug, Default)]
struct Tally {
    packets: usize,
    translated: usize,
    exempted: usize,
    untracked: usize,
    dropped: usize,
    rules_matched: usize,
}

impl Tally {
    fn of(outcomes: &[Outcome<'_>]) -> Self {
        let ends = || outcomes.iter().filter_map(|outcome| outcome.ends.first());
        let count = |is: &dyn Fn(&End<'_>) -> bool| ends().filter(|end| is(end)).count();
        Self {
            packets: outcomes.len(),
            translated: count(&|end| end.source.is_some() || end.destination.is_some()),
            exempted: count(&|end| !end.exemptions.is_empty()),
            untracked: count(&|end| end.untracked.is_some()),
            dropped: count(&|end| end.fate != Fate::Passes),
            rules_matched: ends().map(|end| end.trace.len()).sum(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.translated += other.translated;
        self.exempted += other.exempted;
        self.untracked += other.untracked;
        self.dropped += other.dropped;
        self.rules_matched += other.rules_matched;
    }
}
