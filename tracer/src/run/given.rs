//! The flows of a file: of a recording told again, or of a JSON report.

use super::failure::Failure;
use super::merge::Player;
use crate::render::escape;
use crate::source::{self, Given};
use std::path::Path;
use tracer_core::inventory::Inventory;
use tracer_core::report::{Flow, Item, Reader, Summary};

/// What is told of a flow: the flow, and the host as far as the file knows it.
pub(super) type Tell<'a> = dyn FnMut(&Flow, Option<&Inventory>) -> Result<(), Failure> + 'a;

/// Tells each flow of a file; gives the summary of its run, where it holds one.
pub(super) fn each_flow(path: &Path, tell: &mut Tell<'_>) -> Result<Option<Summary>, Failure> {
    match source::open_any(path)? {
        Given::Recording(source) => recorded(path, source, tell),
        Given::Report(text) => reported(path, &text, tell),
    }
}

fn recorded(
    path: &Path,
    source: Box<dyn source::FileSource>,
    tell: &mut Tell<'_>,
) -> Result<Option<Summary>, Failure> {
    let mut player = Player::of(path, source, 1)?;
    while let Some(parts) = player.step()? {
        for (_, flow) in &parts {
            tell(flow, Some(player.replay.inventory()))?;
        }
    }
    player.remark();
    Ok(player.replay.summary().cloned())
}

fn reported(path: &Path, text: &[u8], tell: &mut Tell<'_>) -> Result<Option<Summary>, Failure> {
    let (mut summary, mut flows) = (None, 0u64);
    for item in Reader::new(text) {
        let item = item.map_err(|bad| {
            Failure::Usage(escape(&format!("{}: {bad}", path.display())).into_owned())
        })?;
        match item {
            Item::Flow(flow) => {
                flows += 1;
                tell(&flow, None)?;
            }
            Item::Summary(end) => summary = Some(*end),
            Item::Other => {}
        }
    }
    match flows == 0 && summary.is_none() {
        true => Err(Failure::Usage(
            escape(&format!(
                "{}: no report of a trace: neither a flow nor a summary is in it; give what `srctrace -o json` printed",
                path.display()
            ))
            .into_owned(),
        )),
        false => Ok(summary),
    }
}
