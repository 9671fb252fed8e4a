//! One trace for each request of a ladder, and the sums of all of them.

use super::super::failure::Failure;
use super::super::plan::Plan;
use super::super::probe::{Probe, Probes};
use super::super::signals::Signals;
use super::super::tell::{Kept, Teller};
use super::super::{clock, trace};
use super::Request;
use crate::cli::{LadderOptions, TraceOptions};
use crate::render::escape;
use crate::sink;
use std::time::Instant;
use tracer_core::report::{Flow, ObservedBy, RungBy, Summary, Unavailable};

/// Traces, one after the other.
pub(super) struct Looks<'a> {
    pub(super) options: &'a LadderOptions,
    signals: Signals,
    /// When the first was to be armed, in both clocks.
    start: Instant,
    pub(super) started: String,
    /// Whether one was armed.
    armed: bool,
    /// What they saw in all.
    pub(super) summary: Option<Summary>,
}

impl<'a> Looks<'a> {
    pub(super) fn new(options: &'a LadderOptions, signals: Signals) -> Self {
        Self {
            options,
            signals,
            start: Instant::now(),
            started: clock::utc_now(),
            armed: false,
            summary: None,
        }
    }

    /// Seconds since the ladder began, to the millisecond.
    pub(super) fn seconds(&self) -> f64 {
        (self.start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
    }

    /// Sends a probe and gives the flows to its target; `None`: a signal ended it.
    pub(super) async fn probe(
        &mut self,
        (by, to, port): Request,
        probe: Probe,
    ) -> Result<Option<Vec<Flow>>, Failure> {
        let options = self.options.trace(by, Some(to), port);
        self.run(&options, Some(Probes::of(vec![probe])), None)
            .await
    }

    /// Watches until a flow of the client's was seen, or it was waited long enough. `said` is said once it is watched.
    pub(super) async fn watch(
        &mut self,
        by: RungBy,
        to: Option<std::net::IpAddr>,
        port: Option<u16>,
        said: &str,
    ) -> Result<Option<Vec<Flow>>, Failure> {
        let options = self.options.trace(by, to, port);
        self.run(&options, None, Some(said)).await
    }

    async fn run(
        &mut self,
        options: &TraceOptions,
        probes: Option<Probes>,
        said: Option<&str>,
    ) -> Result<Option<Vec<Flow>>, Failure> {
        let begun = Instant::now();
        let plan = Plan::new(options)?;
        let (mut live, ()) = trace::arm(options, &plan, Teller::keeping, |_| Ok(()))?;
        let first = !std::mem::replace(&mut self.armed, true);
        if first {
            trace::announce(options, &live, begun);
        }
        if let Some(said) = said {
            sink::note(&format!("{}\n", escape(said)));
        }
        if first {
            trace::signal_ready();
        }
        live.run(options, probes, &mut self.signals).await?;
        let interrupted = live.interrupted;
        let Kept { flows, summary } = live.teller.take();
        self.add(summary);
        Ok((!interrupted).then_some(flows))
    }

    fn add(&mut self, summary: Option<Summary>) {
        let Some(more) = summary else { return };
        let Some(all) = &mut self.summary else {
            self.summary = Some(more);
            return;
        };
        all.events.received += more.events.received;
        all.events.lost += more.events.lost;
        all.flows.seen += more.flows.seen;
        add_means(&mut all.observed_by, more.observed_by);
    }
}

/// At the most, so many of each were attached.
fn add_means(all: &mut ObservedBy, more: ObservedBy) {
    let counts = [
        (&mut all.tracepoint, more.tracepoint),
        (&mut all.tcx, more.tcx),
        (&mut all.clsact, more.clsact),
        (&mut all.kprobe, more.kprobe),
        (&mut all.nftrace, more.nftrace),
    ];
    for (count, more) in counts {
        *count = more.max(*count);
    }
    let known = |all: &[Unavailable], one: &Unavailable| all.contains(one);
    for one in more.unavailable {
        if !known(&all.unavailable, &one) {
            all.unavailable.push(one);
        }
    }
}
