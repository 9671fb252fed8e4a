//! The evaluator against the kernel: made-up rules, real packets, and every difference.
//!
//! A ruleset is loaded by its own tool and read back by it, packets are sent through the node, and
//! three things are compared for each ruleset: whether each packet came through, into what it was
//! translated, and how often the kernel's counter of every rule moved (a NAT rule's counter moves
//! exactly where that rule decided, a RETURN's where it exempted, a DROP's where it dropped).

mod draft;
mod iptables;
mod kernel;
mod nft;
mod packets;
mod random;
mod wire;
mod words;

use crate::lab::{Lab, Topology};
use anyhow::{Context as _, Result, bail};
use draft::{Draft, Tool};
use kernel::Counts;
use packets::{Arrival, Probe};
use random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use tracer_core::evaluate::{End, Fate, Outcome, Rules, evaluate};
use tracer_core::inventory::{Link, Namespace, Route};
use tracer_core::ruleset::Ruleset;
use wire::{Receiver, Sender};

/// Packets for each ruleset.
const PACKETS: usize = 24;
/// How long a packet or a counter that should come may take.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// The lab and its sockets.
struct Bench {
    lab: Lab,
    pod: Sender,
    node: Sender,
    peer: Receiver,
    here: Namespace,
    /// The next flow's source port.
    sport: u16,
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

/// What one ruleset showed.
struct Round {
    tally: Tally,
    /// Whether every answer was certain: only then can counts be compared.
    certain: bool,
    difference: Option<String>,
}

impl Bench {
    fn new() -> Result<Self> {
        let mut net = Topology::new("replay");
        net.forward("node")
            .veth(("pod", "eth0"), ("node", "veth-pod"))
            .veth(("peer", "eth0"), ("node", "eth0"))
            .addr("pod", "eth0", "10.12.3.4/24")
            .addr("node", "veth-pod", "10.12.3.1/24")
            .addr("node", "eth0", "10.100.0.5/24")
            .addr("peer", "eth0", "10.100.0.1/24")
            .route("pod", "default via 10.12.3.1")
            .route("node", "default via 10.100.0.1");
        let lab = net.up()?;
        // Neighbour discovery would move counters, and so would an answer.
        for ns in ["pod", "node", "peer"] {
            lab.sysctl(ns, "ipv6/conf/all/disable_ipv6", "1")?;
        }
        kernel::load_sets(&lab)?;
        Ok(Self {
            pod: Sender::new(&lab, "pod")?,
            node: Sender::new(&lab, "node")?,
            peer: Receiver::new(&lab, "peer", "eth0")?,
            here: node(),
            sport: 1024,
            lab,
        })
    }

    fn round(&mut self, draft: &Draft, seed: u64) -> Result<Round> {
        kernel::load(&self.lab, draft)?;
        let reading = kernel::read(&self.lab, draft)?;
        let probes = self.probes(seed);
        let rules = Rules::new(&reading.ruleset);
        let outcomes: Vec<Outcome<'_>> = probes
            .iter()
            .map(|probe| {
                let (packet, way) = probe.packet();
                evaluate(&rules, &packet, way, &self.here)
            })
            .collect();
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
        if certain {
            self.counters(draft, &reading.ruleset, &outcomes, &mut difference)?;
        }
        kernel::clear(&self.lab, draft)?;
        let difference = (!difference.is_empty())
            .then(|| format!("{difference}\nthe dump was:\n{}", reading.dump));
        Ok(Round {
            tally: Tally::of(&outcomes),
            certain,
            difference,
        })
    }

    fn probes(&mut self, seed: u64) -> Vec<Probe> {
        let mut random = Random::new(!seed);
        let probes = (0..PACKETS).map(|n| {
            self.sport = self.sport.checked_add(1).unwrap_or(1024);
            Probe::random(1 + n as u16, self.sport, &mut random)
        });
        probes.collect()
    }

    /// Sends all and waits for those that should arrive.
    fn send(&self, probes: &[Probe], outcomes: &[Outcome<'_>]) -> Result<BTreeMap<u16, Arrival>> {
        self.peer.arrivals(Duration::ZERO, |_| true)?;
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
        let seen = self.peer.arrivals(PATIENCE, |seen| {
            due.iter().all(|id| seen.iter().any(|a| a.id == *id))
        })?;
        Ok(seen.into_iter().map(|a| (a.id, a)).collect())
    }

    /// Compares every rule's counter with how often the evaluator saw its tests hold.
    fn counters(
        &self,
        draft: &Draft,
        ruleset: &Ruleset,
        outcomes: &[Outcome<'_>],
        difference: &mut String,
    ) -> Result<()> {
        let mut expected = zero(ruleset);
        for at in outcomes.iter().flat_map(|o| &o.ends).flat_map(|e| &e.trace) {
            let id = at.id();
            let key = (kernel::table_key(&id.table), id.chain, id.index);
            *expected.entry(key).or_insert(0) += 1;
        }
        let counted = kernel::counts(&self.lab, draft)?;
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
        Ok(())
    }

    /// Takes rules out for as long as the difference stays.
    fn smallest(
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

/// Whether a packet fared so.
fn agrees(end: &End<'_>, arrival: Option<Arrival>) -> bool {
    match (&end.fate, arrival) {
        (Fate::Passes, Some(arrival)) => {
            end.src.0.is_none_or(|src| src == arrival.src)
                && end.dst.0.is_none_or(|dst| dst == arrival.dst)
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

/// The node as the evaluator is told of it.
fn node() -> Namespace {
    let link = |name: &str, addr: &str| Link {
        name: name.to_owned(),
        addrs: addr.parse().into_iter().collect(),
        loopback: name == "lo",
        up: true,
        ..Link::default()
    };
    let links = [
        (1, link("lo", "127.0.0.1/8")),
        (2, link("veth-pod", "10.12.3.1/24")),
        (3, link("eth0", "10.100.0.5/24")),
    ];
    let default = Route {
        to: ipnet::Ipv4Net::default().into(),
        via: Some([10, 100, 0, 1].into()),
        ifindex: 3,
    };
    Namespace {
        links: links.into(),
        routes: vec![default],
        ..Namespace::default()
    }
}
