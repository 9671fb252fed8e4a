//! `srctrace diff`: two recordings or reports, and whose source changed between them. Needs no root.

use super::failure::Failure;
use super::{doctor, given, print};
use crate::cli::{DiffOptions, DoctorOutput};
use crate::render::{self, Look, text};
use crate::sink;
use std::path::Path;
use tracer_core::compare::{Comparison, Seen};
use tracer_core::expect::ExitStatus;
use tracer_core::report::{Flows, Line, Summary};

/// Compares two files.
pub(super) fn diff(options: &DiffOptions) -> Result<ExitStatus, Failure> {
    let (before, after) = (seen(&options.before)?, seen(&options.after)?);
    let flows = before.flows() + after.flows();
    let all = Comparison::of(before, after);
    match options.output {
        DoctorOutput::Text => told(&all)?,
        DoctorOutput::Json => lines(&all, flows)?,
    }
    Ok(match &all.compared {
        sums if sums.changed > 0 => ExitStatus::Violated,
        // Nothing was compared: that is no proof that nothing changed.
        sums if sums.paths == 0 => ExitStatus::Nothing,
        sums if sums.unchanged == 0 => ExitStatus::Uncertain,
        _ => ExitStatus::Done,
    })
}

fn seen(path: &Path) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    given::each_flow(path, &mut |flow, _| {
        seen.add(flow);
        Ok(())
    })?;
    Ok(seen)
}

fn told(all: &Comparison) -> Result<(), Failure> {
    let look = Look {
        colour: sink::stdout_colour(),
        names: true,
        verbose: 0,
        width: sink::stdout_width(),
    };
    let changes = all.changes.iter().map(|change| text::change(change, look));
    let mut text: String = changes.collect();
    text.push_str(&text::compared(&all.compared, look));
    print(&text).map(drop)
}

fn lines(all: &Comparison, flows: u64) -> Result<(), Failure> {
    let changes = all.changes.iter().cloned();
    let changes = changes.map(|change| Line::Change(Box::new(change)));
    let sums = Line::Compared(Box::new(all.compared.clone()));
    let summary = Summary {
        flows: Flows {
            seen: flows,
            reported: flows,
            ..Flows::default()
        },
        ..doctor::summary()
    };
    for line in changes.chain([sums, Line::Summary(Box::new(summary))]) {
        let line = render::json_line(&line).map_err(|e| Failure::Output(e.to_string()))?;
        print(&line)?;
    }
    Ok(())
}
