//! The compact notation of scenario files: what a host looks like, then one line per sighting.
//!
//! ```text
//! include lab.host                   the lines of another file of the folder
//! ns node 1 node                     namespace, inode number; "node" marks the node
//! ns pod 100 pod=shop/web            … pod=NS/NAME, or nothing
//! link pod 2 eth0 10.12.3.4/24 peer=node:7
//! route pod default 10.12.3.1 2      destination, next hop (or -), device
//! cgroup 77 /kubepods/x pod=shop/db
//! rule node *nat                     a line of iptables-legacy-save in that namespace
//! ct A 10.12.3.4:1>10.20.30.40:2 / 10.20.30.40:2>10.100.0.5:9 snat zone=1
//! @0 tx pod/eth0 tcp 10.12.3.4:1>10.20.30.40:2 S seq=100 skb=a local
//!   +12 rx node/veth1                the same packet, 12 µs later: only what changed is said
//!   +47 tx node/eth0 src=10.100.0.5:9 ct=A
//!   +9  drop node/veth1 reason=NETFILTER_DROP at=nf_hook_slow
//! fact node ipv4.ip_forward 0        what the namespace said when that was looked into
//! asked node A                       what its conntrack has when it is asked by tuple; nothing, or entries
//! end 500                            milliseconds; without it the trace lasts ten seconds more
//! ```
//! Times are milliseconds (`@`) or microseconds after the line before (`+`). Taps are rx, tx, tci
//! and tce. Flags are tcpdump's: `S`, `S.`, `.`, `P.`, `F.`, `R`. Counters count by themselves;
//! `more=N` packets passed since the last sighting without being told.

mod drop;
mod host;
mod sighting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracer_core::attribute;
use tracer_core::event::{Conntrack, DropEvent, Event, NetnsId};
use tracer_core::inventory::Inventory;
use tracer_core::journey::{Closed, Settings};
use tracer_core::packet::Tuple;
use tracer_core::report::{Flow, Unavailable};
use tracer_core::ruleset::{Dumps, Family, assemble};
use tracer_core::trace::{Checks, Trace, Wanted};

/// Monotonic time of `@0`.
pub(crate) const START_NS: u64 = 1_000_000_000_000;
/// 2026-12-01T11:39:00Z less START_NS.
pub(crate) const REALTIME_NS: i64 = 1_796_125_140_000_000_000 - START_NS as i64;

/// Where the scenario files are.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// A parsed scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenario {
    pub(crate) inventory: Inventory,
    pub(crate) events: Vec<Event>,
    pub(crate) drops: Vec<DropEvent>,
    pub(crate) end_ns: Option<u64>,
    pub(crate) lost: Option<(u64, u64, u64)>,
    pub(crate) unavailable: Vec<Unavailable>,
    pub(crate) rules: BTreeMap<NetnsId, String>,
    pub(crate) asked: BTreeMap<NetnsId, Vec<Conntrack>>,
    pub(crate) wanted: Wanted,
    pub(crate) checks: Checks,
}

impl Scenario {
    /// Reads a file; panics with the line that is wrong, since it is part of a test.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parser = Parser::default();
        parser.text(text);
        parser.scenario
    }

    /// Runs the events in the given order. Each is read as late as the reorder window allows, or
    /// at its own time.
    pub(crate) fn run(&self, events: impl IntoIterator<Item = (u64, Event)>) -> (Vec<Flow>, Trace) {
        let mut trace = Trace::new(Settings::default(), REALTIME_NS);
        trace.want(self.wanted.clone());
        trace.check(self.checks.clone());
        for what in &self.unavailable {
            trace.unavailable(what.clone());
        }
        for (netns, dump) in &self.rules {
            let dumps = Dumps {
                legacy: vec![(Family::Ip, dump.clone())],
                ..Dumps::default()
            };
            trace.rulebook().add(*netns, START_NS, assemble(&dumps));
        }
        if let Some((from, to, count)) = self.lost {
            trace.lost(from, to, count);
        }
        for drop in &self.drops {
            trace.push_drop(drop.clone());
        }
        let mut flows = Vec::new();
        let mut last = START_NS;
        for (read_ns, event) in events {
            last = last.max(event.time_ns);
            let closed = trace.close(read_ns, &self.inventory, &mut |_| None);
            flows.extend(self.judge(&mut trace, closed));
            assert!(!trace.push(event), "far fewer events than that");
        }
        let end = self.end_ns.unwrap_or(last + 10_000_000_000);
        let closed = trace.close(end, &self.inventory, &mut |_| None);
        flows.extend(self.judge(&mut trace, closed));
        let closed = trace.close_all(end, &self.inventory, &mut |_| None);
        flows.extend(self.judge(&mut trace, closed));
        (flows, trace)
    }

    /// Asks what is in doubt, as a live trace does, then judges.
    fn judge(&self, trace: &mut Trace, mut closed: Vec<Closed>) -> Vec<Flow> {
        for flow in &mut closed {
            for doubt in attribute::doubts(&flow.journey, &self.inventory) {
                if let Some(entries) = self.asked.get(&doubt.netns) {
                    let all = entries.iter().copied();
                    flow.conntrack(
                        doubt.netns,
                        all.filter(|ct| doubt.tuples.iter().any(|t| has(ct, *t))),
                    );
                }
            }
        }
        trace.judge(closed, &self.inventory)
    }

    /// Runs the events as they come.
    pub(crate) fn run_in_order(&self) -> (Vec<Flow>, Trace) {
        self.run(self.events.iter().map(|e| (e.time_ns, e.clone())))
    }
}

/// Whether an entry has this tuple, in one of its four forms.
fn has(ct: &Conntrack, tuple: Tuple) -> bool {
    let both = [ct.orig, ct.reply];
    both.contains(&tuple) || both.contains(&tuple.reversed())
}

#[derive(Default)]
struct Parser {
    scenario: Scenario,
    host: host::Names,
    sightings: sighting::Sightings,
}

impl Parser {
    fn text(&mut self, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("");
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            if let Err(wrong) = self.line(&words) {
                panic!("line {number}: {wrong}: {line}");
            }
        }
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        if words[0] == "include" {
            let path = folder().join(arg(words, 1)?);
            let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
            self.text(&text);
            return Ok(());
        }
        let scenario = &mut self.scenario;
        match words[0] {
            "host" | "ns" | "link" | "route" | "cgroup" => {
                self.host.line(&mut scenario.inventory, words)
            }
            "ct" => self.sightings.entry(words),
            "rule" => {
                let netns = self.host.netns(arg(words, 1)?)?;
                let dump = scenario.rules.entry(netns).or_default();
                dump.push_str(&words[2..].join(" "));
                dump.push('\n');
                Ok(())
            }
            "asked" => {
                let netns = self.host.netns(arg(words, 1)?)?;
                let entries = words[2..].iter().map(|name| self.sightings.known(name));
                let entries = entries.collect::<Result<Vec<_>, _>>()?;
                scenario.asked.insert(netns, entries);
                Ok(())
            }
            "fact" => drop::fact(&self.host, &mut scenario.inventory, words),
            "end" => {
                scenario.end_ns = Some(START_NS + sighting::millis(arg(words, 1)?)?);
                Ok(())
            }
            "lost" => {
                let at = |i| Ok::<_, String>(START_NS + sighting::millis(arg(words, i)?)?);
                scenario.lost = Some((at(1)?, at(2)?, number(arg(words, 3)?)?));
                Ok(())
            }
            "unavailable" => {
                scenario.unavailable.push(Unavailable {
                    what: arg(words, 1)?.into(),
                    why: words[2..].join(" "),
                    effect: "no hop there".into(),
                });
                Ok(())
            }
            _ if words.get(1) == Some(&"drop") => {
                let drop = drop::line(&mut self.sightings, &self.host, words)?;
                scenario.drops.push(drop);
                Ok(())
            }
            _ => {
                let event = self.sightings.line(&self.host, words)?;
                scenario.events.push(event);
                Ok(())
            }
        }
    }
}

fn arg<'a>(words: &[&'a str], at: usize) -> Result<&'a str, String> {
    words
        .get(at)
        .copied()
        .ok_or_else(|| format!("word {at} is missing"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number"))
}
