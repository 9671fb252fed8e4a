//! Rules that were seen to run: what the probes found becomes a rule's place in its store.

use super::clock;
use super::failure::Failure;
use super::nftrace::KernelTrace;
use super::plan::Plan;
use super::stores::Modules;
use crate::cli::{RuleMode, TraceOptions};
use crate::kernel::RuleStores;
use crate::render::escape;
use crate::sink;
use crate::system::{Survey, legacy};
use std::collections::BTreeMap;
use tracer_common::event_kind;
use tracer_core::event::NetnsId;
use tracer_core::observed::blob::Blob;
use tracer_core::observed::{self, Pace, RuleHit, RulePlace};
use tracer_core::report::{Flow, ObservedBy, Unavailable};
use tracer_core::ruleset::Family;
use tracer_core::trace::Trace;

/// A table's blob is believed for this long: it may have been replaced by one of the same size.
const FRESH_NS: u64 = 1_000_000_000;

/// The probes of `--observe-rules full`.
const PASSING: &str = "probes on verdicts and marks";
/// They may run so often a second: at about half a microsecond each, a twentieth of one CPU.
const LIMIT: u64 = 100_000;

/// `SRCTRACE_RULE_RATE` sets another limit, to see what happens above it.
fn limit() -> u64 {
    let asked = std::env::var("SRCTRACE_RULE_RATE").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(LIMIT)
}

/// A table: its namespace, family and name.
type Key = (NetnsId, Family, String);

/// The observers of rules, from this side.
pub(super) struct Rules {
    /// Hits whose place is not settled yet.
    pending: Vec<RuleHit>,
    /// Tables of iptables-legacy, with the time of the hit for which they were read.
    blobs: BTreeMap<Key, (u64, Option<Blob>)>,
    /// The kernel's own trace, where it was asked for.
    trace: Option<KernelTrace>,
    unavailable: Vec<Unavailable>,
    /// Of the probes that every packet passes, while they are there.
    pace: Option<Pace>,
    /// Of what is probed, what may still be loaded.
    modules: Option<Modules>,
    /// Rules that ran and could not be told.
    missed: u64,
    verbose: bool,
}

impl Rules {
    /// Starts what the options ask for, beyond the kernel half's probes. What it adds to the node
    /// is said on stderr first.
    pub(super) fn start(options: &TraceOptions, plan: &Plan) -> Result<Self, Failure> {
        let mut rules = Self {
            pending: Vec::new(),
            blobs: BTreeMap::new(),
            trace: None,
            unavailable: Vec::new(),
            pace: (options.observe_rules == RuleMode::Full)
                .then(|| Pace::new(limit(), clock::monotonic_ns())),
            modules: None,
            missed: 0,
            verbose: options.output.verbose > 1,
        };
        if options.observe_rules == RuleMode::Nftrace {
            rules.trace = Some(KernelTrace::start(plan)?);
        }
        Ok(rules)
    }

    /// Modules that are loaded while the trace runs are probed too.
    pub(super) fn await_modules(&mut self, options: &TraceOptions, mut modules: Modules) {
        if matches!(options.observe_rules, RuleMode::Auto | RuleMode::Full) {
            modules.begin();
            self.modules = Some(modules);
        }
    }

    /// What is known of the kernel's rule stores since a module was loaded.
    pub(super) fn news(&mut self) -> Option<RuleStores> {
        self.modules.as_mut()?.news()
    }

    /// Whether what every packet passes is to be probed.
    pub(super) fn full(&self) -> bool {
        self.pace.is_some()
    }

    /// These functions came with a module, and are probed from now on.
    pub(super) fn came(&mut self, functions: &[&str]) {
        let Some(modules) = self.modules.as_ref().filter(|_| !functions.is_empty()) else {
            return;
        };
        let row = Unavailable {
            what: functions.join(", "),
            why: format!(
                "loaded after the trace began; probed from its second {:.1} on",
                modules.waited().as_secs_f64()
            ),
            effect: "which rules called them before that is replayed instead of observed"
                .to_owned(),
        };
        if self.verbose {
            sink::note(&format!("srctrace: {}: {}\n", row.what, row.why));
        }
        self.unavailable.push(row);
    }

    /// The summary's account: traces that run, and what they missed.
    pub(super) fn observed_by(&self, account: &mut ObservedBy) {
        account.nftrace = u32::from(self.trace.is_some());
        account.unavailable.extend(self.unavailable.iter().cloned());
        if self.missed > 0 {
            let why = format!("{} rules ran that could not be told", self.missed);
            account.unavailable.push(lost("kprobe", why));
        }
    }

    /// So many rules ran, by now, that the kernel half could not tell.
    pub(super) fn missed(&mut self, count: u64) {
        self.missed = count;
    }

    /// So often the probes ran, by now, that every packet passes: whether that is too often, so that
    /// they must be taken away. Then it is said.
    pub(super) fn is_too_much(&mut self, now_ns: u64, passed: u64) -> bool {
        let over = |pace: &mut Pace| Some((pace.is_over(now_ns, passed)?, pace.limit()));
        let Some((rate, limit)) = self.pace.as_mut().and_then(over) else {
            return false;
        };
        self.pace = None;
        let why = format!(
            "they ran {rate} times a second, more often than {limit}, and were taken away at {}",
            clock::utc_now()
        );
        sink::note(&format!("srctrace: {PASSING}: {why}\n"));
        self.unavailable.push(Unavailable {
            what: PASSING.to_owned(),
            why,
            effect: "which rules exempted or marked later packets is not observed but replayed \
                     from the rules"
                .to_owned(),
        });
        true
    }

    /// Takes what the kernel's trace said since it was last asked.
    pub(super) fn listen(&mut self, now_ns: u64) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let pending = &mut self.pending;
        let heard = trace.listen(now_ns, &mut |hit| pending.push(hit));
        if let Err(error) = heard
            && self.unavailable.is_empty()
        {
            let why = format!("messages were lost: {error}");
            self.unavailable.push(lost("nftrace", why));
        }
    }

    /// Takes a record out of the ring, if it is about a rule.
    pub(super) fn took(&mut self, bytes: &[u8]) -> bool {
        if bytes.first() != Some(&event_kind::RULE_HIT) {
            return false;
        }
        // As with events: what cannot be read is a bug of ours.
        if let Ok(hit) = observed::decode(bytes) {
            self.pending.push(hit);
        }
        true
    }

    /// Hands what was taken to the trace, with chain and number where only a place in a table was
    /// known. A table that was replaced since is not read as the old one: the place stays as it is.
    pub(super) fn settle(&mut self, survey: &Survey, trace: &mut Trace) {
        for mut hit in std::mem::take(&mut self.pending) {
            if let Some(place) = self.numbered(&hit, survey) {
                hit.place = place;
            }
            trace.hit(hit);
        }
    }

    fn numbered(&mut self, hit: &RuleHit, survey: &Survey) -> Option<RulePlace> {
        let RulePlace::LegacyOffset {
            family,
            table,
            offset,
            size,
            number,
        } = &hit.place
        else {
            return None;
        };
        let key = (hit.netns, *family, table.clone());
        let same = |blob: &Blob| (blob.bytes.len(), blob.number) == (*size as usize, *number);
        let known = self.blobs.get(&key).is_some_and(|(read_for_ns, blob)| {
            hit.time_ns.saturating_sub(*read_for_ns) < FRESH_NS && blob.as_ref().is_some_and(same)
        });
        if !known {
            let netns = survey.netns(hit.netns)?;
            let blob = legacy::table(netns, *family, table).ok().flatten();
            self.blobs.insert(key.clone(), (hit.time_ns, blob));
        }
        let blob = self.blobs.get(&key)?.1.as_ref().filter(|blob| same(blob))?;
        let rule = blob.locate(*offset)?;
        Some(RulePlace::Legacy {
            family: *family,
            table: table.clone(),
            chain: rule.chain,
            index: rule.index,
        })
    }

    /// With `-vv`: says on stderr which rules ran for the flows that are told.
    pub(super) fn note(&self, flows: &[Flow], observed: Vec<(String, RuleHit)>) {
        if !self.verbose {
            return;
        }
        for (id, hit) in observed {
            let told = flows.iter().any(|flow| flow.id == id);
            if told {
                sink::note(&escape(&line(&id, &hit)));
                sink::note("\n");
            }
        }
    }
}

/// What an observer of rules did not see.
fn lost(what: &str, why: String) -> Unavailable {
    Unavailable {
        what: what.to_owned(),
        why,
        effect: "which rule rewrote a packet may be replayed instead of observed".to_owned(),
    }
}

/// A hit in one line.
fn line(id: &str, hit: &RuleHit) -> String {
    let RuleHit {
        netns,
        hook,
        tuple,
        place,
        path,
        ..
    } = hit;
    let hook = hook.map_or_else(|| "a hook".to_owned(), |hook| hook.to_string());
    let mut text = format!(
        "srctrace: rule observed: flow {id}: {} {}:{} → {}:{} in netns {} at {hook}: {place}",
        tuple.proto, tuple.src, tuple.sport, tuple.dst, tuple.dport, netns.0
    );
    for (place, verdict) in path {
        text.push_str(&format!(" ← {place} {verdict:?}"));
    }
    text
}
