//! A live trace's second half: counters in, flows judged and told, and the sums at its end.

use super::failure::Failure;
use super::live::Live;
use super::pcap::Pcap;
use super::{bugs, clock};
use crate::kernel::Programs;
use crate::render::escape;
use crate::sink;
use crate::system::host;
use std::collections::BTreeSet;
use tracer_core::event::{Counter, NetnsId};
use tracer_core::expect::ExitStatus;
use tracer_core::recording::Part;
use tracer_core::report::{Events, Flow, ObservedBy, SCHEMA, Summary, Unavailable};

/// Counters of flows are read anew at that many judgements, while there are few flows.
const COUNT_EVERY: u32 = 25;
/// With more flows than this their counters are read only at the end.
const FEW_FLOWS: usize = 2000;

impl Live<'_> {
    pub(super) fn judge(&mut self, round: u32) -> Result<(), Failure> {
        let now = clock::monotonic_ns();
        self.count_lost(now)?;
        if !self.strangers.is_empty() {
            let strangers = std::mem::take(&mut self.strangers);
            let delta = self.survey.learn(&strangers);
            self.came_or_went(&delta);
            self.met(&strangers, now);
        }
        // What flows are judged by must not be older than they are.
        if let Some(changed) = self.watch.heard()? {
            self.changed(&changed);
        }
        self.survey.learn_cgroups(std::mem::take(&mut self.cgroups));
        self.inquiries.answer(&mut self.survey);
        if round.is_multiple_of(COUNT_EVERY) && self.trace.stats().followed <= FEW_FLOWS {
            let Self {
                trace, programs, ..
            } = self;
            trace.recount(now, &mut |tap| last_count(programs, tap));
        }
        if self.library.is_waiting(self.trace.rulebook()) {
            return Ok(());
        }
        let parts = self.advance(now);
        self.record()?;
        self.tell(parts)
    }

    /// Asks for the rules of namespaces that packets went through before they were known.
    fn met(&mut self, ids: &BTreeSet<NetnsId>, now_ns: u64) {
        for netns in ids.iter().filter_map(|id| self.survey.netns(*id)) {
            self.library.met(netns, now_ns, self.trace.rulebook());
        }
    }

    pub(super) fn advance(&mut self, now_ns: u64) -> Vec<Part> {
        let Self {
            trace,
            programs,
            survey,
            ..
        } = self;
        let mut closed = trace.close(now_ns, survey.inventory(), &mut |tap| {
            last_count(programs, tap)
        });
        self.doubts.settle(&mut closed, survey);
        self.tunnels.settle(&closed, survey);
        trace.judge_parts(closed, survey.inventory())
    }

    pub(super) fn tell(&mut self, parts: Vec<Part>) -> Result<(), Failure> {
        if let Some(pcap) = &mut self.pcap {
            pcap.told(&parts, self.survey.inventory())?;
        }
        let flows: Vec<Flow> = parts.into_iter().map(|(_, flow)| flow).collect();
        self.rules.note(&flows, self.trace.take_observed());
        for flow in &flows {
            bugs::rehearse();
            self.gone.told(flow, Some(self.node.id));
            self.teller.flow(flow)?;
        }
        Ok(())
    }

    fn count_lost(&mut self, now_ns: u64) -> Result<(), Failure> {
        let counters = self.programs.counters()?;
        let lost = counters.lost + counters.nested;
        self.rules.missed(counters.hits_missed);
        if self.rules.is_too_much(now_ns, counters.passed) {
            self.programs.leave_passing()?;
        }
        if let Some(stores) = self.rules.news() {
            let new = self.programs.observe_rules(&stores, self.rules.full());
            self.rules.came(&new);
        }
        self.trace
            .lost(self.last_counted_ns, now_ns, lost - self.lost);
        self.lost = lost;
        self.last_counted_ns = now_ns;
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<ExitStatus, Failure> {
        self.drain()?;
        let now = clock::monotonic_ns();
        self.count_lost(now)?;
        let strangers = std::mem::take(&mut self.strangers);
        let delta = self.survey.learn(&strangers);
        self.came_or_went(&delta);
        self.met(&strangers, now);
        if let Some(changed) = self.watch.heard()? {
            self.changed(&changed);
        }
        self.survey.learn_cgroups(std::mem::take(&mut self.cgroups));
        self.library.wait(self.trace.rulebook());
        self.inquiries.answer(&mut self.survey);
        let Self {
            trace,
            programs,
            survey,
            ..
        } = self;
        let mut closed = trace.close_all(now, survey.inventory(), &mut |tap| {
            last_count(programs, tap)
        });
        self.doubts.settle(&mut closed, survey);
        self.tunnels.settle(&closed, survey);
        let parts = trace.judge_parts(closed, survey.inventory());
        self.tell(parts)?;
        if let Some(line) = self.pcap.as_ref().and_then(Pcap::remark) {
            sink::note(&format!("srctrace: {}\n", escape(&line)));
        }
        let summary = self.summary();
        self.end_record(&summary)?;
        self.teller.end(
            &summary,
            self.trace.groups(),
            &self.trace.checks().agreements(),
        )?;
        let status = self.trace.checks().status(summary.flows.reported);
        Ok(match self.missing().is_empty() {
            true => status,
            false => status.worse(ExitStatus::Uncertain),
        })
    }

    fn observed_by(&self) -> ObservedBy {
        let mut account = self.taps.observed_by(self.programs.attached());
        self.rules.observed_by(&mut account);
        account.unavailable.extend(self.missing());
        account
    }

    /// What the trace is about and is not here any more.
    fn missing(&self) -> Vec<Unavailable> {
        let here = |id| self.survey.netns(id).is_some();
        self.gone.missing(here, self.survey.inventory())
    }

    fn summary(&self) -> Summary {
        Summary {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: host::kernel_release(),
            host: self.teller.host().to_owned(),
            started: self.started.clone(),
            duration_s: (self.start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
            observed_by: self.observed_by(),
            flows: self.trace.flows(),
            events: Events {
                received: self.received,
                lost: self.lost,
            },
            groups: self.trace.groups().summary(),
            points: self.trace.point_sums().to_vec(),
            expect: self.trace.checks().lines(),
        }
    }
}

/// What a tap counted by now.
fn last_count(programs: &mut Programs, tap: &Counter) -> Option<(u64, u64)> {
    programs.flow_counter(&tap.to_raw()?)
}
