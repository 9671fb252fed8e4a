//! Telling: each flow as it is judged, or each way that flows took.

use super::failure::Failure;
use crate::cli::{Grouping, OutputFormat, OutputOptions};
use crate::render::text::{self, Way};
use crate::render::{self, Look, html};
use crate::sink::{self, Sink};
use std::collections::BTreeSet;
use std::io::Stdout;
use tracer_core::event::Event;
use tracer_core::group::Groups;
use tracer_core::inventory::Inventory;
use tracer_core::report::{Agreement, Flow, Line, Summary};
use tracer_core::verdict;

/// In text, so many flows get a block each; after that only those that took a new way.
const BLOCKS: u64 = 10;

/// Prints flows and, at the end, the summary.
pub(super) struct Teller {
    sink: Sink<Stdout>,
    format: OutputFormat,
    grouping: Grouping,
    packets: bool,
    look: Look,
    host: String,
    ways: BTreeSet<String>,
    told: u64,
    printed: u64,
    /// Whether it was said that some flows are only counted.
    counting: bool,
    /// Whether the page was begun.
    begun: bool,
    /// What is kept instead of being printed.
    kept: Option<Kept>,
}

/// What a trace told.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Its flows.
    pub(super) flows: Vec<Flow>,
    /// Its sums, once it is over.
    pub(super) summary: Option<Summary>,
}

/// How text is shown on standard output.
pub(super) fn look(options: &OutputOptions) -> Look {
    Look {
        colour: sink::stdout_colour(),
        names: options.names,
        verbose: options.verbose,
        width: sink::stdout_width(),
    }
}

impl Teller {
    pub(super) fn new(options: &OutputOptions, host: &str) -> Self {
        Self {
            sink: Sink::stdout(),
            format: options.format,
            grouping: options.grouping,
            packets: options.each_packet,
            look: look(options),
            host: host.to_owned(),
            ways: BTreeSet::new(),
            told: 0,
            printed: 0,
            counting: false,
            begun: false,
            kept: None,
        }
    }

    /// One that keeps everything and prints nothing.
    pub(super) fn keeping(options: &OutputOptions, host: &str) -> Self {
        Self {
            kept: Some(Kept::default()),
            packets: false,
            ..Self::new(options, host)
        }
    }

    /// What was kept.
    pub(super) fn take(&mut self) -> Kept {
        self.kept.take().unwrap_or_default()
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Flows told so far, singly or in groups.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// One flow was judged.
    pub(super) fn flow(&mut self, flow: &Flow) -> Result<(), Failure> {
        self.told += flow.count;
        if let Some(kept) = &mut self.kept {
            kept.flows.push(flow.clone());
            return Ok(());
        }
        match (self.grouping, self.format) {
            (Grouping::Group, _) => Ok(()),
            (_, OutputFormat::Json) => self.json(&Line::Flow(Box::new(flow.clone()))),
            (Grouping::Each, _) => self.block(flow),
            (Grouping::Auto, _) => {
                let fresh = self.ways.insert(way(flow));
                if fresh || self.told <= BLOCKS {
                    return self.block(flow);
                }
                if !std::mem::replace(&mut self.counting, true) {
                    let look = Look {
                        colour: sink::stderr_colour(),
                        width: sink::stderr_width(),
                        ..self.look
                    };
                    sink::note(&text::counting(look));
                }
                Ok(())
            }
        }
    }

    /// One packet was sighted on the wire, with `--each-packet`.
    pub(super) fn packet(&mut self, event: &Event, inventory: &Inventory) {
        if self.packets && self.format == OutputFormat::Text {
            let (tuple, hop) = verdict::sighting(event, inventory);
            let line = text::packet(&tuple, &hop, self.look);
            let _ = self.sink.write(&line);
        }
    }

    /// The trace is over.
    pub(super) fn end(
        &mut self,
        summary: &Summary,
        groups: &Groups,
        agreements: &[Agreement],
    ) -> Result<(), Failure> {
        if let Some(kept) = &mut self.kept {
            kept.summary = Some(summary.clone());
            return Ok(());
        }
        let paths = groups.paths();
        let ways: Vec<Way<'_>> = paths
            .iter()
            .map(|path| Way {
                exemplar: &path.exemplar,
                origins: path.origins,
                source_on_wire: path.source_on_wire,
            })
            .collect();
        match self.format {
            OutputFormat::Text => self.end_text(summary, &ways, agreements),
            OutputFormat::Html => self.end_page(summary, &ways, agreements),
            OutputFormat::Json => {
                let grouped = self.grouping == Grouping::Group;
                let flows = ways.iter().filter(|_| grouped);
                let flows = flows.map(|way| Line::Flow(Box::new(way.exemplar.clone())));
                let agreed = agreements.iter().cloned();
                let agreed = agreed.map(|one| Line::Agreement(Box::new(one)));
                let end = Line::Summary(Box::new(summary.clone()));
                flows
                    .chain(agreed)
                    .chain([end])
                    .try_for_each(|line| self.json(&line))
            }
        }
    }

    /// Whether some flows were only counted, so that the ways they took are to be listed.
    fn many(&self) -> bool {
        self.grouping == Grouping::Group || self.printed < self.told
    }

    fn end_text(
        &mut self,
        summary: &Summary,
        ways: &[Way<'_>],
        agreements: &[Agreement],
    ) -> Result<(), Failure> {
        if self.many() {
            self.sink.write(&text::ways(ways, self.look))?;
        }
        if self.grouping == Grouping::Group {
            for way in ways {
                self.sink.write(&text::way(way, self.look))?;
            }
        }
        self.sink.write(&text::agreements(agreements, self.look))?;
        Ok(self.sink.write(&text::summary(summary, self.look))?)
    }

    fn end_page(
        &mut self,
        summary: &Summary,
        ways: &[Way<'_>],
        agreements: &[Agreement],
    ) -> Result<(), Failure> {
        self.begin_page()?;
        if self.grouping == Grouping::Group {
            for way in ways {
                self.sink.write(&html::way(way, self.look))?;
            }
        }
        let listed = self.many().then_some(ways);
        let tail = html::tail(summary, listed, agreements, self.look);
        Ok(self.sink.write(&tail)?)
    }

    /// The page's head, once.
    fn begin_page(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        Ok(self
            .sink
            .write(&html::head(env!("CARGO_PKG_VERSION"), &self.host))?)
    }

    fn block(&mut self, flow: &Flow) -> Result<(), Failure> {
        self.printed += flow.count;
        if self.format == OutputFormat::Html {
            self.begin_page()?;
            return Ok(self.sink.write(&html::flow(flow, self.look))?);
        }
        Ok(self.sink.write(&text::flow(flow, self.look))?)
    }

    fn json(&mut self, line: &Line) -> Result<(), Failure> {
        let text = render::json_line(line)
            .map_err(|e| Failure::Output(format!("cannot write a report line as JSON: {e}")))?;
        Ok(self.sink.write(&text)?)
    }
}

/// What tells one way from another: where it passed, what changed, what came of it.
fn way(flow: &Flow) -> String {
    let hops = flow
        .hops
        .iter()
        .map(|h| format!("{:?}/{}/{:?}", h.netns, h.ifindex, h.dir));
    let changes = flow
        .rewrites
        .iter()
        .map(|r| format!("{:?}{:?}{:?}", r.field, r.place, r.agent));
    let findings = flow.findings.iter().map(|f| format!("{:?}", f.code));
    let points = flow.points.iter().map(|p| format!("{:?}", p.seen));
    let parts: Vec<String> = hops.chain(points).chain(changes).chain(findings).collect();
    format!(
        "{:?} {:?} {parts:?}",
        flow.delivery.code, flow.verdict.source
    )
}
