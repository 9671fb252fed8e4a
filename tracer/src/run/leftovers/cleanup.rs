//! `srctrace cleanup`: for when the watcher was killed too.

use super::record::Record;
use super::remove::{self, Removed};
use crate::run::failure::Failure;
use crate::sink::{self, Sink};
use crate::system::{Roots, capabilities, host};
use tracer_core::expect::ExitStatus;

/// Removes what runs that are over left, from all namespaces, and says what it removed.
///
/// # Errors
/// Without the rights, or where live runs cannot be told from dead ones.
pub(in crate::run) fn cleanup() -> Result<ExitStatus, Failure> {
    if let Some(line) = capabilities::error(&capabilities::missing()) {
        return Err(Failure::CannotTrace(line));
    }
    let roots = Roots::default();
    if !host::sees_host_processes(&roots) {
        return Err(Failure::CannotTrace(
            "cleanup: which runs are over cannot be told from a container's view of processes; \
             run it on the node itself"
                .to_owned(),
        ));
    }
    let mut removed = Removed::default();
    let known = remove::look(&roots);
    let runs = Record::runs()
        .map_err(|e| Failure::CannotTrace(format!("cleanup: cannot read the records: {e}")))?;
    for run in runs.into_iter().filter(|run| run.is_over(&roots)) {
        let before = removed.failed.len();
        match Record::load(run) {
            Ok(Some(record)) => remove::recorded(&record, &known, &mut removed),
            Ok(None) => {}
            // What it told of bears its names: the search below finds it.
            Err(error) => sink::note(&format!("srctrace: the record of run {run}: {error}\n")),
        }
        if removed.failed.len() == before {
            Record::delete(run);
            removed
                .lines
                .push(format!("removed the record of run {run}"));
        }
    }
    Record::leave_folder();
    remove::orphans(&roots, &known, &mut removed);
    tell(&removed)
}

fn tell(removed: &Removed) -> Result<ExitStatus, Failure> {
    let mut out = Sink::stdout();
    for line in &removed.lines {
        out.write(&format!("{}\n", crate::render::escape(line)))?;
    }
    if removed.lines.is_empty() && removed.failed.is_empty() {
        out.write("nothing left behind\n")?;
    }
    match removed.failed.as_slice() {
        [] => Ok(ExitStatus::Done),
        failed => Err(Failure::CannotTrace(format!(
            "cleanup: {}",
            failed.join("; ")
        ))),
    }
}
