//! Made-up rules: what the evaluator says of real packets, and what the kernel does.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use super::{Case, NATIVE};
use crate::replay;

/// The labs of this file.
pub(super) const CASES: &[Case] = &[Case::new(
    "rules_evaluated_as_the_kernel_does",
    &["A1", "A2", "A3"],
    made_up,
)
.on(NATIVE)];

/// How many rulesets.
const RULESETS: u64 = 330;

/// Another seed in each run; `SRCTRACE_SEED` repeats one.
fn made_up() -> Result<()> {
    let seed = match env::var("SRCTRACE_SEED") {
        Ok(seed) => seed.parse().context("SRCTRACE_SEED")?,
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    replay::compare(RULESETS, seed)
}
