//! Several virtual machines at a time: each is one host thread, so a processor more is a machine more.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result};

use super::guest::Job;
use super::host::Host;
use super::kernels::{Kernel, Unpacked};
use super::plan::Boot;
use super::report::KernelRun;

/// Runs all `boots`, as many at a time as there are processors, and returns what came of them in their order. Each is shown
/// to `each` when it has ended, one at a time.
///
/// # Errors
/// When a kernel or the emulator cannot be had; failed labs are in the results.
pub(super) fn run(
    host: &Host,
    boots: &[Boot<'_>],
    job: impl Fn(&Boot<'_>) -> Job + Sync,
    each: impl Fn(&KernelRun) + Sync,
) -> Result<Vec<KernelRun>> {
    let kernels = kernels(host, boots)?;
    let waiting = Mutex::new(boots.iter().enumerate());
    let ended = Mutex::new(BTreeMap::new());
    let crew = thread::available_parallelism()?.get().min(boots.len());
    thread::scope(|scope| {
        for _ in 0..crew {
            scope.spawn(|| {
                while let Some((at, boot)) = next(&waiting) {
                    let run = host.labs(&kernels[&boot.kernel], boot, &job(boot));
                    if let Ok(mut ended) = ended.lock() {
                        if let Ok(run) = &run {
                            each(run);
                        }
                        ended.insert(at, run);
                    }
                }
            });
        }
    });
    let ended = ended.into_inner().ok().context("a machine's thread died")?;
    ended.into_values().collect()
}

fn next<T>(waiting: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    waiting.lock().ok()?.next()
}

/// Each kernel once, one after the other: they share the store.
fn kernels(host: &Host, boots: &[Boot<'_>]) -> Result<BTreeMap<Kernel, Unpacked>> {
    let mut kernels = BTreeMap::new();
    for boot in boots {
        if let Entry::Vacant(place) = kernels.entry(boot.kernel) {
            place.insert(host.kernel(boot.kernel)?);
        }
    }
    Ok(kernels)
}
