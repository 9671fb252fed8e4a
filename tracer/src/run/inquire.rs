//! Drops are looked into at once: what the namespace's settings and tables say is asked while it
//! is still there. (What flows leave in doubt is asked before they are judged: `doubts`.)

use crate::kernel;
use crate::system::netns::{Netns, visit};
use crate::system::{self, Survey};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use tracer_core::event::{Dir, DropEvent, Event, NetnsId};
use tracer_core::inventory::{Attached, Facts, Inquiry, Inventory};
use tracer_core::packet::Tuple;
use tracer_core::recent::Recent;

/// Most questions of one run: a storm of drops is not looked into packet by packet.
const MOST: usize = 512;
/// Most at a time.
const AT_ONCE: usize = 32;
/// Most senders that are remembered, the oldest forgotten first.
const SENDERS: usize = 4096;
/// How long, nanoseconds: what dies on its way to a socket was asked for not long ago.
const SENDERS_NS: u64 = 60_000_000_000;

/// What is attached to each side of devices.
pub(super) type Sides = BTreeMap<(u32, Dir), Vec<Attached>>;

/// Drops that wait to be looked into.
#[derive(Debug)]
pub(super) struct Inquiries {
    open: BTreeSet<Inquiry>,
    asked: BTreeSet<Inquiry>,
    /// cgroups of the sockets that sent requests from a namespace: a packet that dies on its way to a
    /// socket names none.
    senders: Recent<(NetnsId, Tuple), u64>,
}

impl Default for Inquiries {
    fn default() -> Self {
        Self {
            open: BTreeSet::new(),
            asked: BTreeSet::new(),
            senders: Recent::new(SENDERS_NS, SENDERS),
        }
    }
}

impl Inquiries {
    /// A packet was sighted.
    pub(super) fn sighted(&mut self, event: &Event) {
        let cgroup = event.process.as_ref().and_then(|p| p.cgroup);
        if let (Some(netns), Some(cgroup)) = (event.netns, cgroup) {
            let sender = (netns, event.tuple);
            self.senders.note(event.time_ns, sender, cgroup);
        }
    }

    /// A packet died.
    pub(super) fn about(&mut self, drop: &mut DropEvent) {
        let Some(netns) = drop.netns else { return };
        if drop.cgroup.is_none() {
            let asked = (netns, drop.tuple.reversed());
            drop.cgroup = self.senders.get(drop.time_ns, &asked).copied();
        }
        let inquiry = Inquiry {
            netns,
            ifindex: drop.ifindex,
            src: drop.tuple.src,
            dst: drop.tuple.dst,
            cgroup: drop.cgroup,
        };
        if self.asked.len() < MOST && self.open.len() < MOST && !self.asked.contains(&inquiry) {
            self.open.insert(inquiry);
        }
    }

    /// Asks what is open and puts the answers into the inventory.
    pub(super) fn answer(&mut self, survey: &mut Survey) {
        let mut now: BTreeMap<NetnsId, Vec<Inquiry>> = BTreeMap::new();
        for _ in 0..AT_ONCE {
            let Some(inquiry) = self.open.pop_first() else {
                break;
            };
            self.asked.insert(inquiry);
            now.entry(inquiry.netns).or_default().push(inquiry);
        }
        for (netns, inquiries) in now {
            let cgroups = cgroups(survey, &inquiries);
            if let Some(facts) = ask(survey, netns, &inquiries) {
                survey.note_facts(netns, Facts { cgroups, ..facts });
            }
        }
    }
}

/// The programs on the packets of the cgroups that packets came from, or were for.
fn cgroups(survey: &mut Survey, inquiries: &[Inquiry]) -> BTreeMap<(u64, Dir), Vec<Attached>> {
    let ids: BTreeSet<u64> = inquiries.iter().filter_map(|one| one.cgroup).collect();
    let mut found = BTreeMap::new();
    for id in ids {
        let Some(folder) = survey.cgroup_folder(id) else {
            continue;
        };
        for dir in [Dir::Ingress, Dir::Egress] {
            let mut programs = kernel::cgroup_programs(folder.as_fd(), dir);
            kernel::name_programs([&mut programs]);
            found.insert((id, dir), programs);
        }
    }
    found
}

/// `None` when the namespace is gone: then nothing is known of it.
fn ask(survey: &Survey, id: NetnsId, inquiries: &[Inquiry]) -> Option<Facts> {
    let netns = survey.netns(id)?;
    let devices = devices(survey.inventory(), id, inquiries);
    let mut facts = system::facts(netns, inquiries, &devices).ok()?;
    add_tcx(netns, &devices, &mut facts.programs);
    Some(facts)
}

/// Adds the programs on tcx links to the lists of devices' sides, and finishes these.
pub(super) fn add_tcx(netns: &Netns, devices: &BTreeMap<u32, String>, programs: &mut Sides) {
    let tcx = visit(netns, || {
        let sides = devices.iter().flat_map(|(index, name)| {
            [Dir::Ingress, Dir::Egress].map(|dir| ((*index, dir), kernel::tcx_programs(name, dir)))
        });
        Ok(sides.collect::<Vec<_>>())
    });
    for (side, links) in tcx.unwrap_or_default() {
        // tcx runs before the filters.
        programs.entry(side).or_default().splice(0..0, links);
    }
    kernel::name_programs(programs.values_mut());
}

/// The devices that the packets met there, by index.
fn devices(inventory: &Inventory, netns: NetnsId, inquiries: &[Inquiry]) -> BTreeMap<u32, String> {
    let indexes = inquiries.iter().filter_map(|one| one.ifindex);
    indexes
        .filter_map(|index| Some((index, inventory.link(netns, index)?.name.clone())))
        .collect()
}
