//! Taking away what a run added, and nothing else.

use super::record::Record;
use super::tag::{SIDES, Tag, word};
use crate::system::netns::{Discovery, Netns, discover, visit};
use crate::system::tc::{Filter, Tc, device_name};
use crate::system::{Lifetime, Roots, SystemError};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use tracer_core::event::NetnsId;

/// What was removed, in lines, and what could not be.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) lines: Vec<String>,
    pub(super) failed: Vec<String>,
}

/// Removes what a record tells of. What is not there any more is not missed.
pub(super) fn recorded(record: &Record, known: &Discovery, removed: &mut Removed) {
    let mut places: BTreeMap<u32, BTreeMap<u32, bool>> = BTreeMap::new();
    for added in &record.added {
        let alone = places
            .entry(added.netns)
            .or_default()
            .entry(added.ifindex)
            .or_default();
        *alone |= added.qdisc && !added.done;
    }
    for (netns, devices) in places {
        // A namespace that is gone took everything along.
        let Some(found) = known.found.get(&NetnsId(netns)) else {
            continue;
        };
        let place = &found.netns;
        let outcome = visit(place, || {
            let mut tc = Tc::open()?;
            for (ifindex, alone) in devices {
                clear(
                    &mut tc,
                    place,
                    ifindex,
                    &|run| run == record.run,
                    alone,
                    removed,
                )?;
            }
            Ok(())
        });
        note(outcome, removed);
    }
}

/// Removes, from all namespaces, filters whose run is over.
pub(super) fn orphans(roots: &Roots, known: &Discovery, removed: &mut Removed) {
    let over = |run: Lifetime| run.is_over(roots);
    for found in known.found.values() {
        let place = &found.netns;
        let outcome = visit(place, || {
            let mut tc = Tc::open()?;
            let failed = |error| SystemError::os("list the qdiscs in", place, error);
            let hooked: BTreeSet<u32> = tc
                .hooked()
                .map_err(failed)?
                .into_iter()
                .map(|(index, _)| index)
                .collect();
            for ifindex in hooked {
                clear(&mut tc, place, ifindex, &over, false, removed)?;
            }
            Ok(())
        });
        note(outcome, removed);
    }
}

/// All namespaces, as they are now.
pub(super) fn look(roots: &Roots) -> Discovery {
    discover(roots)
}

fn note(outcome: Result<(), SystemError>, removed: &mut Removed) {
    match outcome {
        // Namespaces come and go while we look.
        Ok(()) | Err(SystemError::Vanished(_)) => {}
        Err(error) => removed.failed.push(error.to_string()),
    }
}

/// Removes the filters of runs that `whose` picks from one device of the calling thread's
/// namespace, then the qdisc if it is srctrace's and empty. `alone`: the qdisc is ours although no
/// filter says so.
pub(super) fn clear(
    tc: &mut Tc,
    place: &Netns,
    ifindex: u32,
    whose: &dyn Fn(Lifetime) -> bool,
    alone: bool,
    removed: &mut Removed,
) -> Result<(), SystemError> {
    let name = device_name(ifindex);
    let failed = |error| SystemError::os("remove what srctrace added to", &name, error);
    let mut qdisc = alone;
    for side in SIDES {
        for (filter, tag) in picked(tc, ifindex, side, whose).map_err(failed)? {
            tc.delete_filter(ifindex, side, &filter).map_err(failed)?;
            qdisc |= tag.qdisc;
            removed.lines.push(format!(
                "removed filter {} (priority {}, handle {:#x}) from {name} {} in {place}",
                tag.name(side),
                filter.priority,
                filter.handle,
                word(side)
            ));
        }
        if !picked(tc, ifindex, side, whose).map_err(failed)?.is_empty() {
            return Err(failed(io::Error::other("a filter is still there")));
        }
    }
    if qdisc && is_empty(tc, ifindex).map_err(failed)? {
        tc.delete_clsact(ifindex).map_err(failed)?;
        removed
            .lines
            .push(format!("removed the clsact qdisc from {name} in {place}"));
    }
    Ok(())
}

fn picked(
    tc: &mut Tc,
    ifindex: u32,
    side: tracer_core::event::Dir,
    whose: &dyn Fn(Lifetime) -> bool,
) -> io::Result<Vec<(Filter, Tag)>> {
    let ours = |filter: Filter| {
        let tag = Tag::read(filter.name.as_deref()?)?;
        (filter.kind == "bpf" && filter.handle != 0 && whose(tag.run)).then_some((filter, tag))
    };
    Ok(tc
        .filters(ifindex, side)?
        .into_iter()
        .filter_map(ours)
        .collect())
}

/// Whether a device has a clsact qdisc with nothing on it.
fn is_empty(tc: &mut Tc, ifindex: u32) -> io::Result<bool> {
    let clsact = (ifindex, "clsact".to_owned());
    let empty =
        tc.filters(ifindex, SIDES[0])?.is_empty() && tc.filters(ifindex, SIDES[1])?.is_empty();
    Ok(empty && tc.hooked()?.contains(&clsact))
}
