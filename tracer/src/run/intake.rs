//! Records out of the ring: sightings, drops and rules that ran, each to whoever waits for it.

use super::clock;
use super::entries::Entries;
use super::failure::Failure;
use super::inquire::Inquiries;
use super::library::RuleReader;
use super::live::Live;
use super::pcap::Pcap;
use super::rules::Rules;
use super::taps::Taps;
use super::tell::Teller;
use crate::kernel::DropWords;
use crate::system::Survey;
use std::collections::BTreeSet;
use tracer_common::reason;
use tracer_core::event::{DropEvent, Event, NetnsId, decode, decode_drop, is_drop};
use tracer_core::inventory::Inventory;
use tracer_core::proxy::{decode_opening, decode_socket, is_opening, is_socket};
use tracer_core::trace::Trace;

/// Records taken at once, before anything else gets its turn.
const BATCH: usize = 65_536;
/// Records taken before questions that they raised are answered.
const HANDFUL: usize = 256;

impl Live<'_> {
    /// Takes what is in the ring.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        self.rules.listen(clock::monotonic_ns());
        loop {
            let full = self.batch();
            self.rules.settle(&self.survey, &mut self.trace);
            self.record()?;
            if !full {
                return Ok(());
            }
            // Memory before order: what is held back is processed now.
            self.library.hurry(self.trace.rulebook());
            let parts = self.advance(clock::monotonic_ns());
            self.tell(parts)?;
        }
    }

    /// Takes a batch; gives whether the trace holds as much as it may.
    fn batch(&mut self) -> bool {
        let mut intake = Intake {
            trace: &mut self.trace,
            survey: &self.survey,
            taps: &mut self.taps,
            rules: &mut self.rules,
            library: &mut self.library,
            teller: &mut self.teller,
            words: &mut self.words,
            inquiries: &mut self.inquiries,
            entries: &mut self.entries,
            pcap: self.pcap.as_mut(),
            strangers: &mut self.strangers,
            cgroups: &mut self.cgroups,
            full: false,
        };
        let mut taken = 0;
        while taken < BATCH && !intake.full {
            let got = self.ring.drain(HANDFUL, |bytes| intake.record(bytes));
            intake.answered();
            taken += got;
            if got < HANDFUL {
                break;
            }
        }
        let full = intake.full;
        self.received += taken as u64;
        full
    }
}

/// Where records go.
struct Intake<'a> {
    trace: &'a mut Trace,
    survey: &'a Survey,
    taps: &'a mut Taps,
    rules: &'a mut Rules,
    library: &'a mut RuleReader,
    teller: &'a mut Teller,
    words: &'a mut DropWords,
    inquiries: &'a mut Inquiries,
    entries: &'a mut Entries,
    pcap: Option<&'a mut Pcap>,
    strangers: &'a mut BTreeSet<NetnsId>,
    cgroups: &'a mut BTreeSet<u64>,
    full: bool,
}

impl Intake<'_> {
    /// One record. One that cannot be read is a bug of ours; it was counted as told.
    fn record(&mut self, bytes: &[u8]) {
        if self.rules.took(bytes) {
            return;
        }
        if is_drop(bytes) {
            return self.lost(bytes);
        }
        if is_socket(bytes) {
            return self.used(bytes);
        }
        if is_opening(bytes) {
            decode_opening(bytes)
                .into_iter()
                .for_each(|opening| self.trace.opening(opening));
            return;
        }
        if let Ok(event) = decode(bytes) {
            self.sighted(event);
        }
    }

    /// A packet was sighted.
    fn sighted(&mut self, event: Event) {
        let inventory = self.survey.inventory();
        self.taps.sighted(&event, inventory.node);
        self.inquiries.sighted(&event);
        if event.reasons.any(reason::FIRST)
            && let Some(netns) = event.netns.and_then(|id| self.survey.netns(id))
        {
            self.library
                .met(netns, event.time_ns, self.trace.rulebook());
        }
        if self.taps.is_wire(event.tap) {
            self.teller.packet(&event, inventory);
            if let Some(pcap) = &mut self.pcap {
                pcap.sighted(&event);
            }
        }
        note_unknown(&event, inventory, self.strangers, self.cgroups);
        if self.entries.wants(&event) {
            self.entries.hold(event);
        } else {
            self.full |= self.trace.push(event);
        }
    }

    /// A process used a connection that was accepted here.
    fn used(&mut self, bytes: &[u8]) {
        if let Some(socket) = decode_socket(bytes) {
            let inventory = self.survey.inventory();
            self.taps.ended(socket.netns, inventory);
            let cgroup = socket.process.cgroup;
            self.cgroups
                .extend(cgroup.filter(|id| !inventory.cgroups.contains_key(id)));
            self.trace.socket(socket);
        }
    }

    /// A packet died.
    fn lost(&mut self, bytes: &[u8]) {
        if let Ok(mut drop) = decode_drop(bytes) {
            self.words.name(&mut drop);
            self.inquiries.about(&mut drop);
            let known = &self.survey.inventory().cgroups;
            self.cgroups
                .extend(drop.cgroup.filter(|id| !known.contains_key(id)));
            if is_of_netfilter(&drop)
                && let Some(netns) = drop.netns.and_then(|id| self.survey.netns(id))
            {
                let book = self.trace.rulebook();
                self.library.met(netns, drop.time_ns, book);
            }
            self.trace.push_drop(drop);
        }
    }

    /// Conntrack entries that were asked for, with the packets that waited for them.
    fn answered(&mut self) {
        for (event, entry) in self.entries.answered(self.survey) {
            if let Some(entry) = entry {
                self.trace.entry(&event, entry);
            }
            self.full |= self.trace.push(event);
        }
    }
}

/// Whether rules may have dropped a packet: perhaps it died before any tap saw it, and nobody has read
/// its namespace's rules yet. (Kernels before 5.17 give no reason.)
fn is_of_netfilter(drop: &DropEvent) -> bool {
    let reason = drop.reason.as_deref();
    reason.is_none_or(|reason| matches!(reason, "NETFILTER_DROP" | "NOT_SPECIFIED"))
}

/// Remembers cgroups that an event names and the inventory does not know, and namespaces: unknown ones,
/// and those with a device that is not known yet.
fn note_unknown(
    event: &Event,
    inventory: &Inventory,
    strangers: &mut BTreeSet<NetnsId>,
    cgroups: &mut BTreeSet<u64>,
) {
    if let Some(netns) = event.netns
        && inventory.link(netns, event.ifindex).is_none()
    {
        strangers.insert(netns);
    }
    if let Some(cgroup) = event.process.as_ref().and_then(|p| p.cgroup)
        && !inventory.cgroups.contains_key(&cgroup)
    {
        cgroups.insert(cgroup);
    }
}
