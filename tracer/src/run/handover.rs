//! `srctrace handover`: the text for the other side's team, from a recording or report. Needs no root.

use super::failure::Failure;
use super::{given, print};
use crate::render::{escape, text};
use crate::sink;
use std::path::Path;
use tracer_core::expect::ExitStatus;
use tracer_core::handover::Handover;

/// Most sheets that are printed.
const MOST: usize = 20;

/// Prints a sheet for each source and destination.
pub(super) fn handover(file: &Path) -> Result<ExitStatus, Failure> {
    let mut all = Handover::default();
    given::each_flow(file, &mut |flow, inventory| {
        all.add(flow, inventory);
        Ok(())
    })?;
    let (silent, overflow) = all.left_out();
    let sheets = all.sheets();
    let name = file.display().to_string();
    let texts: Vec<String> = sheets.iter().take(MOST).map(text::handover).collect();
    let more = (sheets.len().saturating_sub(MOST) as u64).saturating_add(overflow);
    for (n, what) in [
        (silent, "flows were not seen leaving, and are in no text"),
        (
            more,
            "more of them were left out; narrow the trace to one destination",
        ),
    ] {
        if n > 0 {
            sink::note(&format!("srctrace: {}: {n} {what}\n", escape(&name)));
        }
    }
    if texts.is_empty() {
        return Ok(ExitStatus::Nothing);
    }
    print(&texts.join("\n----\n\n"))
}
