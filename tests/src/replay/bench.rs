//! A lab in which rulesets are loaded one after the other, and packets sent through each.

use super::Tally;
use super::draft::Draft;
use super::ground::{QUIET_V4, QUIET_V6, know_neighbours, net, node};
use super::kernel::{self, Counts};
use super::packets::{Arrival, Probe};
use super::random::Random;
use super::server::Server;
use super::wire::{Receiver, Sender};
use super::witness::{Met, Witness};
use crate::lab::Lab;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tracer_core::evaluate::{End, Fate, Outcome, Rules, evaluate};
use tracer_core::inventory::Namespace;
use tracer_core::ruleset::Ruleset;

/// Packets for each ruleset.
const PACKETS: usize = 24;
/// How long a packet that should come may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the trace of a round's packets may take.
const LATE: Duration = Duration::from_secs(1);

/// The lab and its sockets.
pub(super) struct Bench {
    lab: Lab,
    pod: Sender,
    node: Sender,
    peer: Receiver,
    server: Server,
    witness: Witness,
    here: Namespace,
    /// The next flow's source port.
    sport: u16,
}

/// What one ruleset showed.
pub(super) struct Round {
    pub(super) tally: Tally,
    /// Whether every answer was certain: only then can counts be compared.
    pub(super) certain: bool,
    pub(super) difference: Option<String>,
}

impl Bench {
    pub(super) fn new(six: bool) -> Result<Self> {
        let lab = net(six).up()?;
        // Neighbour discovery would move counters, and so would an answer.
        let quiet: &[(&str, &str)] = if six { QUIET_V6 } else { QUIET_V4 };
        for ns in ["pod", "node", "peer"] {
            for (key, value) in quiet {
                lab.sysctl(ns, key, value)?;
            }
        }
        if six {
            know_neighbours(&lab)?;
        }
        kernel::load_sets(&lab, six)?;
        kernel::judge(&lab)?;
        Ok(Self {
            pod: Sender::new(&lab, "pod", six)?,
            node: Sender::new(&lab, "node", six)?,
            peer: Receiver::new(&lab, "peer", "eth0", six)?,
            server: Server::new(&lab, "node", six)?,
            witness: Witness::new(&lab, "node")?,
            here: node(six),
            sport: 1024,
            lab,
        })
    }

    pub(super) fn round(&mut self, draft: &Draft, seed: u64) -> Result<Round> {
        self.witness.forget()?;
        kernel::load(&self.lab, draft)?;
        let reading = kernel::read(&self.lab, draft)?;
        let probes = self.probes(draft.six, seed);
        let rules = Rules::new(&reading.ruleset);
        let asked = probes.iter().map(|probe| self.ask(&rules, probe));
        let outcomes: Vec<Outcome<'_>> = asked.collect();
        let arrivals = self.send(&probes, &outcomes)?;
        let certain = outcomes
            .iter()
            .all(|o| o.ends.len() == 1 && o.doubts.is_empty());
        let mut difference = String::new();
        for (probe, outcome) in probes.iter().zip(&outcomes) {
            let arrival = arrivals.get(&probe.id).copied();
            if !outcome.ends.iter().any(|end| agrees(end, arrival)) {
                let _ = writeln!(
                    difference,
                    "{probe:?} arrived as {arrival:?}, not as {outcome:#?}"
                );
            }
        }
        let traced = self.rules_met(&reading.ruleset, &probes, &outcomes, &mut difference)?;
        let mut counted = false;
        if certain {
            let counters = kernel::counts(&self.lab, draft)?;
            self.witness.listen()?;
            // What a REJECT sends back passes rules too, and so does what IPv6 has to say.
            counted = !self.witness.saw_others(&probes);
            if counted {
                compare_counters(&counters, &reading.ruleset, &outcomes, &mut difference);
            }
        }
        kernel::clear(&self.lab, draft)?;
        let difference = (!difference.is_empty())
            .then(|| format!("{difference}\nthe dump was:\n{}", reading.dump));
        Ok(Round {
            tally: Tally::of(&outcomes, traced, counted),
            certain,
            difference,
        })
    }

    /// What the rules do to a packet: where it goes, which is known only when rules have chosen its
    /// destination, decides which of them it meets then.
    fn ask<'r>(&self, rules: &Rules<'r>, probe: &Probe) -> Outcome<'r> {
        let ask = |delivered| {
            let (packet, way) = probe.packet(delivered);
            evaluate(rules, &packet, way, &self.here)
        };
        let outcome = ask(probe.delivered);
        let mut ends = outcome.ends.iter();
        let moved = ends.find(|end| end.destination.is_some());
        let mine = |addr| {
            let mut addrs = self.here.links.values().flat_map(|link| &link.addrs);
            addrs.any(|net| net.addr() == addr)
        };
        match moved.and_then(|end| end.dst.0).map(mine) {
            Some(delivered) if delivered != probe.delivered => ask(delivered),
            _ => outcome,
        }
    }

    /// Compares the rules that the kernel's trace names for each packet, in order, with those that
    /// the evaluator says it met: the last one of a traversal is the one that decided. Returns how
    /// many the kernel named.
    fn rules_met(
        &mut self,
        rules: &Ruleset,
        probes: &[Probe],
        outcomes: &[Outcome<'_>],
        difference: &mut String,
    ) -> Result<usize> {
        let mut named = 0;
        let deadline = Instant::now() + LATE;
        for (probe, outcome) in probes.iter().zip(outcomes) {
            let possible: Vec<Met<'_>> = outcome.ends.iter().map(Met::of).collect();
            let met = loop {
                self.witness.listen()?;
                let met = self.witness.met(probe, rules);
                // A packet that is dropped is not waited for: it may still be on its way.
                if possible.contains(&met) || Instant::now() > deadline {
                    break met;
                }
                std::thread::yield_now();
            };
            named += met.len();
            if !possible.contains(&met) {
                let _ = writeln!(
                    difference,
                    "{probe:?} met {met:?}, should have met {possible:?}"
                );
            }
        }
        Ok(named)
    }

    fn probes(&mut self, six: bool, seed: u64) -> Vec<Probe> {
        let mut random = Random::new(!seed);
        let probes = (0..PACKETS).map(|n| {
            self.sport = self.sport.checked_add(1).unwrap_or(1024);
            Probe::random(1 + n as u16, self.sport, six, &mut random)
        });
        probes.collect()
    }

    /// Sends all and waits for those that should arrive.
    fn send(&self, probes: &[Probe], outcomes: &[Outcome<'_>]) -> Result<BTreeMap<u16, Arrival>> {
        self.arrivals(Duration::ZERO, |_| true)?;
        for probe in probes {
            let sender = if probe.local { &self.node } else { &self.pod };
            sender.send(probe.dst, &probe.bytes())?;
        }
        let due: Vec<u16> = probes
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| outcome.ends.iter().all(|end| end.fate == Fate::Passes))
            .map(|(probe, _)| probe.id)
            .collect();
        let seen = self.arrivals(PATIENCE, |seen| {
            due.iter().all(|id| seen.iter().any(|a| a.id == *id))
        })?;
        Ok(seen.into_iter().map(|a| (a.id, a)).collect())
    }

    /// Everything that has arrived, until `enough` says so or for as long as `patience`.
    fn arrivals(
        &self,
        patience: Duration,
        enough: impl Fn(&[Arrival]) -> bool,
    ) -> Result<Vec<Arrival>> {
        let deadline = Instant::now() + patience;
        let mut seen = Vec::new();
        loop {
            self.peer.drain(&mut seen)?;
            self.server.drain(&mut seen)?;
            if enough(&seen) || Instant::now() > deadline {
                return Ok(seen);
            }
            std::thread::yield_now();
        }
    }

    /// Takes rules out for as long as the difference stays.
    pub(super) fn smallest(
        &mut self,
        mut draft: Draft,
        seed: u64,
        mut difference: String,
    ) -> Result<(Draft, String)> {
        let mut n = 0;
        while n < draft.len() {
            let less = draft.without(n);
            match self
                .round(&less, seed)
                .context("a smaller ruleset")?
                .difference
            {
                Some(still) => (draft, difference) = (less, still),
                None => n += 1,
            }
        }
        Ok((draft, difference))
    }
}

/// Compares every rule's counter with how often the evaluator saw its tests hold.
fn compare_counters(
    counted: &Counts,
    ruleset: &Ruleset,
    outcomes: &[Outcome<'_>],
    difference: &mut String,
) {
    let mut expected = zero(ruleset);
    for met in outcomes.iter().flat_map(|o| &o.ends).flat_map(|e| &e.trace) {
        let id = met.at.id();
        let key = (kernel::table_key(&id.table), id.chain, id.index);
        *expected.entry(key).or_insert(0) += 1;
    }
    for (rule, count) in &expected {
        let kernel = counted.get(rule);
        if kernel != Some(count) {
            let _ = writeln!(difference, "{rule:?} matched {kernel:?}, should {count}");
        }
    }
    if counted.len() != expected.len() {
        let _ = writeln!(
            difference,
            "{} rules are counted, {} read",
            counted.len(),
            expected.len()
        );
    }
}

/// Whether a packet fared so.
fn agrees(end: &End<'_>, arrival: Option<Arrival>) -> bool {
    match (&end.fate, arrival) {
        (Fate::Passes, Some(arrival)) => {
            end.src.0.is_none_or(|src| src == arrival.src)
                && arrival
                    .dst
                    .is_none_or(|dst| end.dst.0.is_none_or(|end| end == dst))
        }
        (Fate::Dropped { .. } | Fate::Policy { .. }, None) => true,
        _ => false,
    }
}

/// Every rule, never matched.
fn zero(ruleset: &Ruleset) -> Counts {
    let mut counts = Counts::new();
    for table in &ruleset.tables {
        for chain in &table.chains {
            for rule in &chain.rules {
                let key = (kernel::table_key(&table.id), chain.name.clone(), rule.index);
                counts.insert(key, 0);
            }
        }
    }
    counts
}
