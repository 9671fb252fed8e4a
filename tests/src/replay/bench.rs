//! A lab in which rulesets are loaded one after the other, and packets sent through each.

use super::Tally;
use super::draft::Draft;
use super::kernel::{self, Counts};
use super::packets::{Arrival, Probe};
use super::random::Random;
use super::server::Server;
use super::wire::{Receiver, Sender};
use crate::lab::{Lab, Topology};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tracer_core::evaluate::{End, Fate, Outcome, Rules, evaluate};
use tracer_core::inventory::{Link, Namespace, Route};
use tracer_core::ruleset::Ruleset;

/// Packets for each ruleset.
const PACKETS: usize = 24;
/// How long a packet that should come may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lab and its sockets.
pub(super) struct Bench {
    lab: Lab,
    pod: Sender,
    node: Sender,
    peer: Receiver,
    server: Server,
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
    pub(super) fn new() -> Result<Self> {
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
            server: Server::new(&lab, "node")?,
            here: node(),
            sport: 1024,
            lab,
        })
    }

    pub(super) fn round(&mut self, draft: &Draft, seed: u64) -> Result<Round> {
        kernel::load(&self.lab, draft)?;
        let reading = kernel::read(&self.lab, draft)?;
        let probes = self.probes(seed);
        let rules = Rules::new(&reading.ruleset);
        let outcomes: Vec<Outcome<'_>> = probes
            .iter()
            .map(|probe| {
                let ask = |delivered| {
                    let (packet, way) = probe.packet(delivered);
                    evaluate(&rules, &packet, way, &self.here)
                };
                match ask(probe.delivered) {
                    outcome if probe.delivered && moved(&outcome) => ask(false),
                    outcome => outcome,
                }
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

/// Whether a packet for the node is sent elsewhere.
fn moved(outcome: &Outcome<'_>) -> bool {
    outcome.ends.iter().any(|end| end.destination.is_some())
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
