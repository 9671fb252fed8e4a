//! Adding clsact filters, so that they can be removed.

use super::record::{Added, Record};
use super::remove::{self, Removed};
use super::tag::{SIDES, Tag};
use super::watcher::Watcher;
use crate::kernel::{Programs, Side};
use crate::run::failure::Failure;
use crate::sink;
use crate::system::netns::{Netns, visit};
use crate::system::tc::{Filter, Tc};
use crate::system::{Lifetime, Roots, SystemError, in_container};
use std::io;
use std::os::fd::BorrowedFd;
use tracer_core::event::Dir;

/// The priority that the kernel gives the first filter of a device.
const FIRST: u16 = 0xc000;
/// EtherType "all", of linux/if_ether.h.
const ALL: u16 = 3;
/// Handles of ours: these bits and the process id, which has 22.
const HANDLE: u32 = 0x5c00_0000;

/// The clsact filters of a run. Dropping it removes them.
pub(in crate::run) struct Clsact {
    record: Record,
    /// Dropped after ours are removed; removes what we could not.
    _watcher: Watcher,
}

/// How one filter is to be added.
struct Place<'a> {
    ifindex: u32,
    side: Dir,
    device: &'a str,
    filter: Filter,
    tag: Tag,
    /// Whether the qdisc has to be added first.
    create: bool,
}

impl Clsact {
    /// Gets ready to add filters: adds nothing, but starts the watcher.
    ///
    /// # Errors
    /// Where the removal cannot be promised: in a container, which can be killed whole, or when
    /// there can be no record or no watcher.
    pub(in crate::run) fn start() -> Result<Self, Failure> {
        let roots = Roots::default();
        if in_container(&roots) {
            return Err(Failure::CannotTrace(
                "--tap clsact: a container can be killed together with the watcher that removes \
                 the filters; run it on the node itself, or with --tap tcx or tracepoint"
                    .to_owned(),
            ));
        }
        let run = Lifetime::own(&roots)?;
        let record = Record::new(run)?;
        Ok(Self {
            record,
            _watcher: Watcher::start(run)?,
        })
    }

    /// Adds our program to one side of a device of a namespace, and the qdisc that it needs.
    ///
    /// # Errors
    /// When the device is gone or the kernel refuses. Then nothing of it stays.
    pub(in crate::run) fn add(
        &mut self,
        programs: &mut Programs,
        netns: &Netns,
        (ifindex, device): (u32, &str),
        side: Side,
    ) -> Result<(), SystemError> {
        let failed = |error| SystemError::os("add a clsact filter to", device, error);
        let program = programs
            .tc_program(netns.id, side)
            .map_err(|e| failed(io::Error::other(e)))?;
        let record = &mut self.record;
        visit(netns, || {
            let mut tc = Tc::open()?;
            let place = Place::choose(&mut tc, record.run, (ifindex, device), side.dir());
            let place = place.map_err(failed)?;
            announce(&place);
            record.added.push(place.entry(netns));
            let done = place.fill(&mut tc, record, program);
            if done.is_err() {
                let alone = record.added.pop().is_some_and(|entry| entry.qdisc);
                let mut removed = Removed::default();
                let run = record.run;
                remove::clear(
                    &mut tc,
                    netns,
                    ifindex,
                    &|tag| tag == run,
                    alone,
                    &mut removed,
                )?;
                let _ = record.save();
            }
            done.map_err(failed)
        })?;
        programs.count_clsact();
        Ok(())
    }
}

impl Drop for Clsact {
    fn drop(&mut self) {
        if self.record.added.is_empty() {
            Record::delete(self.record.run);
            return;
        }
        let mut removed = Removed::default();
        remove::recorded(&self.record, &remove::look(&Roots::default()), &mut removed);
        if removed.failed.is_empty() {
            Record::delete(self.record.run);
            return;
        }
        for line in removed.failed {
            let line = crate::render::escape(&line).into_owned();
            sink::note(&format!("srctrace: {line}; run `srctrace cleanup`\n"));
        }
    }
}

impl<'a> Place<'a> {
    /// Looks at a device: is there a qdisc, whose is it, and what runs first.
    fn choose(
        tc: &mut Tc,
        run: Lifetime,
        (ifindex, device): (u32, &'a str),
        side: Dir,
    ) -> io::Result<Self> {
        let create = !tc.hooked()?.iter().any(|(index, _)| *index == ifindex);
        let mut inherited = false;
        for side in SIDES {
            let names = tc
                .filters(ifindex, side)?
                .into_iter()
                .filter_map(|filter| filter.name);
            inherited |= names
                .filter_map(|name| Tag::read(&name))
                .any(|tag| tag.qdisc);
        }
        let tag = Tag {
            run,
            qdisc: create || inherited,
        };
        let filter = Filter {
            chain: 0,
            priority: before(&tc.filters(ifindex, side)?)?,
            protocol: ALL,
            handle: HANDLE | run.pid,
            kind: "bpf".to_owned(),
            name: Some(tag.name(side)),
            program: None,
        };
        Ok(Self {
            ifindex,
            side,
            device,
            filter,
            tag,
            create,
        })
    }

    fn entry(&self, netns: &Netns) -> Added {
        Added {
            netns: netns.id.0,
            place: netns.to_string(),
            ifindex: self.ifindex,
            device: self.device.to_owned(),
            side: self.side,
            priority: self.filter.priority,
            handle: self.filter.handle,
            qdisc: self.create,
            done: false,
        }
    }

    /// Adds it, step by step, each recorded before it is done. The entry is the record's last.
    fn fill(mut self, tc: &mut Tc, record: &mut Record, program: BorrowedFd<'_>) -> io::Result<()> {
        record.save()?;
        if self.create && !tc.add_clsact(self.ifindex)? {
            // Somebody was faster: it is theirs.
            self.tag.qdisc = false;
            self.filter.name = Some(self.tag.name(self.side));
            record.update(|entry| entry.qdisc = false)?;
        }
        tc.add_program(self.ifindex, self.side, &self.filter, program)?;
        record.update(|entry| entry.done = true)
    }
}

/// Says what is about to be added.
fn announce(place: &Place<'_>) {
    let what = if place.create {
        "a clsact qdisc and a filter"
    } else {
        "a filter"
    };
    let device = crate::render::escape(place.device);
    let side = super::tag::word(place.side);
    sink::note(&format!(
        "srctrace: --tap clsact adds {what} to {device} ({side}); removed at the end, by a \
         watcher if srctrace is killed\n"
    ));
}

/// A priority that runs before all of these.
fn before(filters: &[Filter]) -> io::Result<u16> {
    let first = filters
        .iter()
        .filter(|filter| filter.chain == 0)
        .min_by_key(|f| f.priority);
    match first {
        None => Ok(FIRST),
        Some(filter) if filter.priority > 1 => Ok(filter.priority - 1),
        // Within one priority the newest program runs first.
        Some(filter) if filter.kind == "bpf" && filter.protocol == ALL => Ok(filter.priority),
        Some(filter) => Err(io::Error::other(format!(
            "a {} filter with priority {} is there, before which none can run",
            filter.kind, filter.priority
        ))),
    }
}
