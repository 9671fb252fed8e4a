//! The evaluator against the kernel: made-up rules, real packets, and every difference.
//!
//! A ruleset is loaded by its own tool and read back by it, packets are sent through the node, and
//! four things are compared for each ruleset: whether each packet came through; into what it was
//! translated; which rules it met in which order, by the kernel's own trace, so which one decided in
//! each chain; and, as a second witness, how often the kernel's counter of every rule moved (a NAT
//! rule's counter moves exactly where that rule decided, a RETURN's where it exempted, a DROP's where
//! it dropped).

mod bench;
mod draft;
mod ground;
mod iptables;
mod kernel;
mod netlink;
mod nft;
mod packets;
mod random;
mod server;
mod six;
mod wire;
mod witness;
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
    let mut certain = 0;
    let mut tally = Tally::default();
    // Until IPv6's turn comes, its lab has said all that new interfaces say by themselves.
    let benches = [(true, Bench::new(true)?), (false, Bench::new(false)?)];
    for (six, mut bench) in benches.into_iter().rev() {
        let seeds = (0..rulesets).map(|n| seed.wrapping_add(n));
        for seed in seeds.filter(|seed| is_six(*seed) == six) {
            let draft = made_up(seed);
            let round = bench.round(&draft, seed)?;
            if let Some(difference) = round.difference {
                let (draft, difference) = bench.smallest(draft, seed, difference)?;
                bail!("seed {seed}:\n{}\n{difference}", draft.whole());
            }
            certain += u64::from(round.certain);
            tally.add(&round.tally);
        }
    }
    println!("{certain} of {rulesets} rulesets, seeds from {seed}, agree in every rule; {tally:?}");
    if certain * 10 < rulesets * 9 {
        bail!("only {certain} of {rulesets} rulesets had certain answers");
    }
    Ok(())
}

/// Every third ruleset is IPv6's.
fn is_six(seed: u64) -> bool {
    seed.is_multiple_of(3)
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
    Draft {
        six: is_six(seed),
        tables,
    }
}

/// How many packets fared how, to show that rules were met at all.
#[derive(Debug, Default)]
struct Tally {
    packets: usize,
    translated: usize,
    exempted: usize,
    untracked: usize,
    dropped: usize,
    rejected: usize,
    rules_matched: usize,
    rules_traced: usize,
    rulesets_counted: usize,
}

impl Tally {
    fn of(outcomes: &[Outcome<'_>], traced: usize, counted: bool) -> Self {
        let ends = || outcomes.iter().filter_map(|outcome| outcome.ends.first());
        let count = |is: &dyn Fn(&End<'_>) -> bool| ends().filter(|end| is(end)).count();
        Self {
            packets: outcomes.len(),
            translated: count(&|end| end.source.is_some() || end.destination.is_some()),
            exempted: count(&|end| !end.exemptions.is_empty()),
            untracked: count(&|end| end.untracked.is_some()),
            dropped: count(&|end| end.fate != Fate::Passes),
            rejected: count(&|end| {
                matches!(
                    &end.fate,
                    Fate::Dropped {
                        reject: Some(_),
                        ..
                    }
                )
            }),
            rules_matched: ends().map(|end| end.trace.len()).sum(),
            rules_traced: traced,
            rulesets_counted: usize::from(counted),
        }
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.translated += other.translated;
        self.exempted += other.exempted;
        self.untracked += other.untracked;
        self.dropped += other.dropped;
        self.rejected += other.rejected;
        self.rules_matched += other.rules_matched;
        self.rules_traced += other.rules_traced;
        self.rulesets_counted += other.rulesets_counted;
    }
}
