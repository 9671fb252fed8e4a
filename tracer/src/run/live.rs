//! The loop of a live trace: ring and counters in, flows out.

use super::clock;
use super::doubts::Doubts;
use super::entries::Entries;
use super::failure::Failure;
use super::gone::Gone;
use super::inquire::Inquiries;
use super::library::RuleReader;
use super::pcap::Pcap;
use super::plan::Plan;
use super::policies::Policies;
use super::probe::Probes;
use super::record::Recorder;
use super::rules::Rules;
use super::signals::Signals;
use super::silence::Silence;
use super::taps::Taps;
use super::tell::Teller;
use super::tunnels::Tunnels;
use crate::cli::TraceOptions;
use crate::kernel::{DropWords, Programs, Ring};
use crate::sink;
use crate::system::netns::Netns;
use crate::system::{Changed, Delta, Survey, Watch};
use std::collections::BTreeSet;
use std::future::pending;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tracer_core::event::NetnsId;
use tracer_core::expect::ExitStatus;
use tracer_core::inventory::Inventory;
use tracer_core::point::Point;
use tracer_core::recording::Clock;
use tracer_core::report::Summary;
use tracer_core::trace::{Trace, Wanted};

/// The ring is looked at this often: its writers do not wake us, unless it is a quarter full.
const POLL: Duration = Duration::from_millis(20);
/// Every so many polls flows are judged and the kernel's counters read.
const JUDGE_EVERY: u32 = 2;

/// A running trace.
pub(super) struct Live<'a> {
    pub(super) node: &'a Netns,
    pub(super) survey: Survey,
    pub(super) watch: Watch,
    pub(super) programs: Programs,
    pub(super) ring: Ring,
    pub(super) trace: Trace,
    pub(super) taps: Taps,
    pub(super) entries: Entries,
    pub(super) library: RuleReader,
    pub(super) rules: Rules,
    pub(super) teller: Teller,
    pub(super) words: DropWords,
    pub(super) inquiries: Inquiries,
    pub(super) doubts: Doubts,
    pub(super) tunnels: Tunnels,
    pub(super) policies: Policies,
    pub(super) silence: Silence<'a>,
    pub(super) started: String,
    pub(super) start: Instant,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) last_counted_ns: u64,
    pub(super) strangers: BTreeSet<NetnsId>,
    pub(super) cgroups: BTreeSet<u64>,
    recorder: Option<Recorder>,
    pub(super) pcap: Option<Pcap>,
    pub(super) gone: Gone,
    /// A signal ended it.
    pub(super) interrupted: bool,
}

/// Why the loop ended.
enum Stop {
    Asked,
    Enough,
}

impl<'a> Live<'a> {
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of a trace, put together once"
    )]
    pub(super) fn new(
        plan: &'a Plan,
        survey: Survey,
        watch: Watch,
        programs: Programs,
        ring: Ring,
        trace: Trace,
        (taps, entries, rules, library): (Taps, Entries, Rules, RuleReader),
        teller: Teller,
        words: DropWords,
    ) -> Self {
        Self {
            node: &plan.node,
            silence: Silence::new(plan),
            survey,
            watch,
            programs,
            ring,
            trace,
            taps,
            entries,
            library,
            rules,
            teller,
            words,
            inquiries: Inquiries::default(),
            doubts: Doubts::default(),
            tunnels: Tunnels::default(),
            policies: Policies::default(),
            started: clock::utc_now(),
            start: Instant::now(),
            received: 0,
            lost: 0,
            last_counted_ns: clock::monotonic_ns(),
            strangers: BTreeSet::new(),
            cgroups: BTreeSet::new(),
            recorder: None,
            pcap: None,
            gone: Gone::default(),
            interrupted: false,
        }
    }

    /// Begins the recording, where there is one.
    pub(super) fn record_to(
        &mut self,
        recorder: Option<Recorder>,
        options: &TraceOptions,
        plan: &Plan,
        (wanted, points, clocks): (Wanted, Vec<Point>, Clock),
    ) -> Result<(), Failure> {
        self.recorder = recorder;
        let Self {
            recorder: Some(recorder),
            teller,
            started,
            ..
        } = self
        else {
            return Ok(());
        };
        recorder.begin(
            options,
            plan,
            (wanted, points),
            (teller.host(), started),
            clocks,
        )
    }

    /// Writes down what the trace was told since the last time.
    pub(super) fn record(&mut self) -> Result<(), Failure> {
        match &mut self.recorder {
            Some(recorder) => recorder.write(self.trace.take_journal()),
            None => Ok(()),
        }
    }

    /// The recording is complete.
    pub(super) fn end_record(&mut self, summary: &Summary) -> Result<(), Failure> {
        self.record()?;
        let Some(recorder) = &mut self.recorder else {
            return Ok(());
        };
        if let Some(line) = recorder.remark() {
            sink::note(&format!("srctrace: {}\n", crate::render::escape(&line)));
        }
        recorder.end(summary)
    }

    pub(super) fn inventory(&self) -> &Inventory {
        self.survey.inventory()
    }

    pub(super) fn host(&self) -> &str {
        self.teller.host()
    }

    pub(super) fn started(&self) -> &str {
        &self.started
    }

    /// Runs until something ends it, then sums up.
    pub(super) async fn run(
        &mut self,
        options: &TraceOptions,
        probes: Option<Probes>,
        signals: &mut Signals,
    ) -> Result<ExitStatus, Failure> {
        let outcome = self.look(options, probes, signals).await;
        if let Err(failure @ (Failure::Closed | Failure::Output(_))) = outcome {
            return Err(failure);
        }
        outcome?;
        self.finish()
    }

    async fn look(
        &mut self,
        options: &TraceOptions,
        mut probes: Option<Probes>,
        signals: &mut Signals,
    ) -> Result<Stop, Failure> {
        let mut poll = interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = options
            .stop
            .after
            .map(|after| tokio::time::Instant::now() + after);
        let mut polls = 0u32;
        loop {
            tokio::select! {
                biased;
                () = signals.any() => {
                    self.interrupted = true;
                    return Ok(Stop::Asked);
                }
                () = until(end) => return Ok(Stop::Asked),
                changed = self.watch.changed() => self.changed(&changed?),
                answered = super::probe::next(&mut probes) => {
                    if answered? {
                        return Ok(Stop::Enough);
                    }
                }
                _ = poll.tick() => {
                    polls = polls.wrapping_add(1);
                    self.drain()?;
                    self.taps.attach(&mut self.programs, &self.survey);
                    if polls.is_multiple_of(JUDGE_EVERY) {
                        self.judge(polls / JUDGE_EVERY)?;
                        if self.received == 0 {
                            self.silence.speak(self.start.elapsed(), &self.survey).await;
                        }
                    }
                    if options.stop.flows.is_some_and(|n| self.teller.told() >= n.get()) {
                        return Ok(Stop::Enough);
                    }
                }
            }
        }
    }

    pub(super) fn changed(&mut self, changed: &Changed) {
        let delta = self.survey.refresh(changed);
        if delta.removed.contains(&self.node.id) {
            self.watch.release_node();
        }
        self.came_or_went(&delta);
    }

    /// Namespaces or devices are others than before.
    pub(super) fn came_or_went(&mut self, delta: &Delta) {
        self.taps.changed(delta);
        self.gone.changed(delta, self.survey.inventory());
    }
}

async fn until(end: Option<tokio::time::Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => pending().await,
    }
}
