//! Events through decode, correlate and judge.

use anyhow::Result;
use serde::Serialize;

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) events: u64,
    pub(crate) seconds: f64,
    pub(crate) events_per_s: f64,
}

pub(crate) fn measure(_quick: bool) -> Result<Vec<Run>> {
    Ok(Vec::new())
}
