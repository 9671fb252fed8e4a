//! Drops are looked into at once: what the namespace's settings and tables say is asked while it
//! is still there. (What flows leave in doubt is asked before they are judged: `doubts`.)

use crate::kernel;
use crate::system::netns::{Netns, visit};
use crate::system::{self, Survey};
use std::collections::{BTreeMap, BTreeSet};
use tracer_core::event::{Dir, DropEvent, NetnsId};
use tracer_core::inventory::{Attached, Facts, Inquiry, Inventory};

/// Most questions of one run: a storm of drops is not looked into packet by packet.
const MOST: usize = 512;
/// Most at a time.
const AT_ONCE: usize = 32;

/// What is attached to each side of devices.
pub(super) type Sides = BTreeMap<(u32, Dir), Vec<Attached>>;

/// Drops that wait to be looked into.
#[derive(Debug, Default)]
pub(super) struct Inquiries {
    open: BTreeSet<Inquiry>,
    asked: BTreeSet<Inquiry>,
}

impl Inquiries {
    /// A packet died.
    pub(super) fn about(&mut self, drop: &DropEvent) {
        let Some(netns) = drop.netns else { return };
        let inquiry = Inquiry {
            netns,
            ifindex: drop.ifindex,
            src: drop.tuple.src,
            dst: drop.tuple.dst,
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
            if let Some(facts) = ask(survey, netns, &inquiries) {
                survey.note_facts(netns, facts);
            }
        }
    }
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
