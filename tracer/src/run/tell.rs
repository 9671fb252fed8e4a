//! Telling: each flow as it is judged, or each way that flows took.

use super::failure::Failure;
use crate::cli::{Grouping, OutputFormat, OutputOptions};
use crate::render::text::{self, Way};
use crate::render::{self, Look};
use crate::sink::{self, Sink};
use std::collections::BTreeSet;
use std::io::Stdout;
use tracer_core::event::Event;
use tracer_core::group::Groups;
use tracer_core::inventory::Inventory;
use tracer_core::report::{Flow, Line, Summary};
use tracer_core::verdict;

/// In text, so many flows get a block each; after that only those that took a new way.
const BLOCKS: u64 = 10;

/// Prints flows and, at the end, the summary.
pub(super) struct Teller {
    sink: Sink<Stdout>,
    json: bool,
    grouping: Grouping,
    packets: bool,
    look: Look,
    host: String,
    ways: BTreeSet<String>,
    told: u64,
    printed: u64,
    /// Whether it was said that some flows are only counted.
    counting: bool,
}

impl Teller {
    pub(super) fn new(options: &OutputOptions, host: &str) -> Self {
        Self {
            sink: Sink::stdout(),
            json: options.format == OutputFormat::Json,
            grouping: options.grouping,
            packets: options.each_packet,
            look: Look {
                colour: sink::stdout_colour(),
                names: options.names,
                verbose: options.verbose,
                width: sink::stdout_width(),
            },
            host: host.to_owned(),
            ways: BTreeSet::new(),
            told: 0,
            printed: 0,
            counting: false,
        }
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
        match (self.grouping, self.json) {
            (Grouping::Group, _) => Ok(()),
            (_, true) => self.json(&Line::Flow(Box::new(flow.clone()))),
            (Grouping::Each, false) => self.block(flow),
            (Grouping::Auto, false) => {
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
        if self.packets && !self.json {
            let (tuple, hop) = verdict::sighting(event, inventory);
            let line = text::packet(&tuple, &hop, self.look);
            let _ = self.sink.write(&line);
        }
    }

    /// The trace is over.
    pub(super) fn end(&mut self, summary: &Summary, groups: &Groups) -> Result<(), Failure> {
        let paths = groups.paths();
        let many = self.grouping == Grouping::Group || self.printed < self.told;
        if self.json {
            if self.grouping == Grouping::Group {
                for path in paths {
                    self.json(&Line::Flow(Box::new(path.exemplar)))?;
                }
            }
            return self.json(&Line::Summary(Box::new(summary.clone())));
        }
        let ways: Vec<Way<'_>> = paths
            .iter()
            .map(|path| Way {
                exemplar: &path.exemplar,
                origins: path.origins,
                source_on_wire: path.source_on_wire,
            })
            .collect();
        if many {
            self.sink.write(&text::ways(&ways, self.look))?;
        }
        if self.grouping == Grouping::Group {
            for way in &ways {
                self.sink.write(&text::way(way, self.look))?;
            }
        }
        Ok(self.sink.write(&text::summary(summary, self.look))?)
    }

    fn block(&mut self, flow: &Flow) -> Result<(), Failure> {
        self.printed += flow.count;
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
