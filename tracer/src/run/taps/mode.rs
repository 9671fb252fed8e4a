//! How traffic-control programs are attached.

use super::super::failure::Failure;
use super::super::leftovers::Clsact;
use crate::cli::TapMode;
use crate::kernel::{Programs, features};
use tracer_core::report::Unavailable;

/// How traffic-control programs are attached.
pub(super) enum Mode {
    /// tcx links, Linux 6.6 and later: they go with the process.
    Tcx,
    /// A clsact qdisc and a cls_bpf filter: they outlive a killed process, so a watcher removes
    /// them.
    Clsact(Clsact),
}

impl Mode {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Clsact(_) => "clsact",
        }
    }
}

/// A way of attaching where there is nothing else.
pub(super) fn only(mode: TapMode, because: &[Unavailable]) -> Result<Mode, Failure> {
    let refused = because.first().map_or("", |u| u.why.as_str());
    let no = |why: &str| Failure::CannotTrace(format!("{why}: {refused}"));
    match mode {
        TapMode::Tracepoint => Err(no("--tap tracepoint: tracepoints show no packet here; \
             `--tap tcx`, or `--tap clsact` before Linux 6.6, does without kernel memory")),
        TapMode::Clsact => Ok(Mode::Clsact(Clsact::start()?)),
        TapMode::Auto | TapMode::Tcx => tcx().map_err(|why| {
            no(&format!(
                "{why}; --tap clsact does without, and without kernel memory"
            ))
        }),
    }
}

/// Gets a way of attaching ready.
pub(super) fn start(mode: TapMode, programs: &mut Programs) -> Result<Option<Mode>, Failure> {
    let mode = match mode {
        TapMode::Tracepoint => return Ok(None),
        TapMode::Clsact => Mode::Clsact(Clsact::start()?),
        TapMode::Auto => tcx().map_err(Failure::CannotTrace)?,
        TapMode::Tcx => tcx().map_err(|why| {
            Failure::CannotTrace(format!("--tap tcx: {why}; --tap clsact does without"))
        })?,
    };
    programs.load_tc()?;
    Ok(Some(mode))
}

fn tcx() -> Result<Mode, String> {
    features::tcx().map(|()| Mode::Tcx)
}
