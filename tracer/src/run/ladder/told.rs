//! Printing: each rung as it is known, and what the ladder says at its end.

use super::super::doctor;
use super::super::failure::Failure;
use super::super::tell::look;
use super::Step;
use super::look::Looks;
use crate::cli::{OutputFormat, OutputOptions};
use crate::render::{self, Look, text};
use crate::sink::Sink;
use std::io::Stdout;
use tracer_core::group::Groups;
use tracer_core::report::{Flows, Line, Rung, Summary};

/// Prints rungs.
pub(super) struct Printer {
    sink: Sink<Stdout>,
    json: bool,
    look: Look,
    host: String,
    groups: Groups,
    flows: u64,
}

impl Printer {
    pub(super) fn new(options: &OutputOptions, host: &str) -> Self {
        Self {
            sink: Sink::stdout(),
            json: options.format == OutputFormat::Json,
            look: look(options),
            host: host.to_owned(),
            groups: Groups::default(),
            flows: 0,
        }
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Failure> {
        for flow in &step.flows {
            self.groups.add(flow);
            self.flows += flow.count;
        }
        if !self.json {
            let text = text::rung(&step.rung, &step.flows, self.look);
            return Ok(self.sink.write(&text)?);
        }
        let flows = step
            .flows
            .iter()
            .map(|flow| Line::Flow(Box::new(flow.clone())));
        let rung = Line::Rung(Box::new(step.rung.clone()));
        flows.chain([rung]).try_for_each(|line| self.line(&line))
    }

    /// All rungs that were tried, of so many.
    pub(super) fn end(
        &mut self,
        rungs: &[Rung],
        of: usize,
        looks: &Looks<'_>,
    ) -> Result<(), Failure> {
        if !self.json {
            let text = text::ladder(rungs, of, self.look);
            return Ok(self.sink.write(&text)?);
        }
        let seen = looks.summary.clone().unwrap_or_else(doctor::summary);
        let groups = self.groups.summary();
        let summary = Summary {
            host: self.host.clone(),
            started: looks.started.clone(),
            duration_s: looks.seconds(),
            flows: Flows {
                reported: self.flows,
                groups: groups.len() as u64,
                ..seen.flows
            },
            groups,
            ..seen
        };
        self.line(&Line::Summary(Box::new(summary)))
    }

    fn line(&mut self, line: &Line) -> Result<(), Failure> {
        let json = render::json_line(line).map_err(|e| Failure::Output(e.to_string()))?;
        Ok(self.sink.write(&json)?)
    }
}
