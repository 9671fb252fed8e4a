//! Which traffic-control taps are wanted where. Beside the tracepoints they are attached in the
//! background one at a time, for each costs the kernel 10 to 20 ms. Where the kernel refuses to let
//! its memory be read they are all there are: then every device in scope gets one on each side, and
//! the trace is armed when they are attached.

mod mode;

use super::failure::Failure;
use super::leftovers;
use crate::cli::TapMode;
use crate::kernel::{Attached, Programs, Side};
use crate::system::netns::{Netns, visit};
use crate::system::tc::Tc;
use crate::system::{Delta, Survey, SystemError};
use mode::{Mode, only, start};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use tracer_core::event::{Dir, Event, NetnsId, Tap};
use tracer_core::inventory::{Inventory, Link, Role};
use tracer_core::report::{ObservedBy, Unavailable};
use tracer_core::trace::Wanted;

/// At most so many devices get a tc tap: what they add is worth little beyond.
const MOST: usize = 64;

/// So many are attached before the trace is armed, and not in the background.
const FIRST: usize = 16;

/// Why the last tap of a device may not be the last word.
const OTHERS: &str = "others' clsact filters run after our program";

/// One side of a device.
type Point = (NetnsId, u32, Side);

/// The tc taps of a trace.
pub(super) struct Taps {
    mode: Option<Mode>,
    /// Whether there are no tracepoints beside them.
    alone: bool,
    /// Devices that are waiting.
    queue: VecDeque<Point>,
    asked: BTreeSet<Point>,
    looked: bool,
    unavailable: Vec<Unavailable>,
}

impl Taps {
    /// `unavailable`: what the kernel half already lacks.
    pub(super) fn new(
        mode: TapMode,
        wanted: &Wanted,
        programs: &mut Programs,
        unavailable: Vec<Unavailable>,
    ) -> Result<Self, Failure> {
        let mut taps = Self {
            mode: None,
            alone: false,
            queue: VecDeque::new(),
            asked: BTreeSet::new(),
            looked: false,
            unavailable,
        };
        match start(mode, programs) {
            Ok(started) => taps.mode = started,
            Err(failure) if mode != TapMode::Auto => return Err(failure),
            Err(failure) => taps.lacks("tcx", failure.line().unwrap_or_default()),
        }
        for (netns, index) in &wanted.devices {
            taps.ask_both(NetnsId(*netns), *index);
        }
        Ok(taps)
    }

    /// Attaches the only taps there are, to every device in scope. `unavailable`: why they are.
    pub(super) fn alone(
        mode: TapMode,
        survey: &Survey,
        programs: &mut Programs,
        unavailable: Vec<Unavailable>,
    ) -> Result<Self, Failure> {
        let mut taps = Self {
            mode: Some(only(mode, &unavailable)?),
            alone: true,
            queue: VecDeque::new(),
            asked: BTreeSet::new(),
            looked: false,
            unavailable,
        };
        taps.attach(programs, survey);
        match taps.mode {
            Some(_) => Ok(taps),
            None => Err(Failure::CannotTrace(taps.why())),
        }
    }

    /// What is missing, in one line.
    fn why(&self) -> String {
        let all = self.unavailable.iter();
        let lines: Vec<_> = all.map(|u| format!("{}: {}", u.what, u.why)).collect();
        lines.join("; ")
    }

    /// Whether a sighting is the wire's truth: where there are tracepoints, a tap of ours beside one
    /// shows the same packet once more.
    pub(super) fn is_wire(&self, tap: Tap) -> bool {
        self.alone || matches!(tap, Tap::Receive | Tap::Transmit)
    }

    /// A followed packet came in by a device of the node: that gets a tap, to see what programs there
    /// do.
    pub(super) fn sighted(&mut self, event: &Event, node: Option<NetnsId>) {
        let netns = event.netns.filter(|netns| Some(*netns) == node);
        if let Some(netns) = netns
            && self.mode.is_some()
            && event.tap == Tap::Receive
            && self.asked.len() < MOST
        {
            self.ask((netns, event.ifindex, Side::Ingress));
        }
    }

    /// A followed connection ended in a process of this namespace, which may be a proxy: how its
    /// connections begin is read at its devices.
    pub(super) fn ended(&mut self, netns: NetnsId, inventory: &Inventory) {
        if self.mode.is_some() && !self.alone && inventory.node != Some(netns) {
            self.ask_all(netns, inventory);
        }
    }

    /// Both sides of all devices of a namespace, but for its loopback.
    fn ask_all(&mut self, netns: NetnsId, inventory: &Inventory) {
        let namespace = inventory.namespaces.get(&netns);
        let links = namespace.into_iter().flat_map(|ns| &ns.links);
        for (index, _) in links.filter(|(_, link)| link.up && !link.loopback) {
            if self.asked.len() < MOST {
                self.ask_both(netns, *index);
            }
        }
    }

    /// Before the trace is armed: where a destination is an address of a namespace, connections may
    /// end there, and the very first is to be read.
    pub(super) fn before(
        mut self,
        dests: impl Iterator<Item = IpAddr>,
        programs: &mut Programs,
        survey: &Survey,
    ) -> Self {
        if self.mode.is_none() || self.alone {
            return self;
        }
        let inventory = survey.inventory();
        self.looked = true;
        self.look(inventory);
        for dest in dests {
            let here = inventory.namespaces.keys().filter(|netns| {
                inventory.owns(**netns, dest) && inventory.role(**netns) != Role::External
            });
            here.for_each(|netns| self.ask_all(*netns, inventory));
        }
        for _ in 0..FIRST {
            self.attach(programs, survey);
        }
        self
    }

    /// Devices came or changed: they are looked for again.
    pub(super) fn changed(&mut self, delta: &Delta) {
        self.looked &= delta.is_empty();
        self.asked
            .retain(|(netns, ..)| !delta.removed.contains(netns));
    }

    fn ask(&mut self, point: Point) {
        if self.asked.insert(point) {
            self.queue.push_back(point);
        }
    }

    fn ask_both(&mut self, netns: NetnsId, index: u32) {
        self.ask((netns, index, Side::Ingress));
        self.ask((netns, index, Side::Egress));
    }

    /// Attaches what is waiting: at most one tap, unless they are all there are.
    pub(super) fn attach(&mut self, programs: &mut Programs, survey: &Survey) {
        if self.mode.is_none() {
            return;
        }
        if !self.looked {
            self.looked = true;
            self.look(survey.inventory());
        }
        while let Some(point) = self.queue.pop_front() {
            self.attach_at(point, programs, survey);
            if !self.alone {
                return;
            }
        }
    }

    /// Asks for the devices that matter without a packet seen there.
    fn look(&mut self, inventory: &Inventory) {
        if self.alone {
            for (netns, namespace) in &inventory.namespaces {
                // A pod's own loopback is left out: what does not leave the pod is its own affair,
                // and each device costs time.
                let is_node = inventory.node == Some(*netns);
                let links = namespace.links.iter();
                for (index, _) in links.filter(|(_, l)| l.up && (is_node || !l.loopback)) {
                    self.ask_both(*netns, *index);
                }
            }
        } else if let Some(node) = inventory.node {
            for index in uplinks(inventory, node) {
                self.ask((node, index, Side::Egress));
            }
        }
    }

    fn attach_at(&mut self, (netns, index, side): Point, programs: &mut Programs, survey: &Survey) {
        let Some(mode) = &mut self.mode else { return };
        let link = survey.inventory().link(netns, index);
        let link = link.filter(|link| !link.loopback || self.alone);
        let (Some(link), Some(netns)) = (link, survey.netns(netns)) else {
            return;
        };
        let name = link.name.clone();
        let device = (index, name.as_str());
        let attached = match mode {
            Mode::Clsact(clsact) => clsact.add(programs, netns, device, side),
            Mode::Tcx => visit(netns, || {
                programs
                    .attach_tcx(netns.id, device, side)
                    .map_err(|error| SystemError::Unknown {
                        kind: "tap",
                        given: name.clone(),
                        why: error.to_string(),
                    })
            }),
        };
        if self.alone && side == Side::Egress && has_later(netns, index) {
            self.lacks_device(
                &name,
                OTHERS,
                "what they do to packets that go out is not seen",
            );
        }
        match attached {
            Err(error) if programs.attached().tcx + programs.attached().clsact == 0 => {
                self.give_up(&error.to_string());
            }
            Err(error) if self.alone => {
                self.lacks_device(&name, &error.to_string(), "packets are not seen there");
            }
            _ => {}
        }
    }

    /// Something of a device is not seen, and nothing else shows it.
    fn lacks_device(&mut self, name: &str, why: &str, effect: &str) {
        if self.unavailable.len() < MOST {
            self.unavailable.push(Unavailable {
                what: format!("device {name}"),
                why: why.to_owned(),
                effect: effect.to_owned(),
            });
        }
    }

    fn give_up(&mut self, why: &str) {
        self.queue.clear();
        if let Some(mode) = self.mode.take() {
            self.lacks(mode.name(), why);
        }
    }

    fn lacks(&mut self, what: &str, why: &str) {
        self.unavailable.push(Unavailable {
            what: what.to_owned(),
            why: why.to_owned(),
            effect: "a rewrite by a tc program is told by what left, not by the program's device"
                .to_owned(),
        });
    }

    /// The summary's account.
    pub(super) fn observed_by(&self, attached: &Attached) -> ObservedBy {
        let missing = attached
            .unavailable
            .iter()
            .map(|(what, why, effect)| Unavailable {
                what: what.clone(),
                why: why.clone(),
                effect: effect.clone(),
            });
        ObservedBy {
            tracepoint: attached.tracepoints,
            tcx: attached.tcx,
            clsact: attached.clsact,
            kprobe: attached.kprobes,
            nftrace: 0,
            unavailable: self.unavailable.iter().cloned().chain(missing).collect(),
        }
    }
}

/// Whether a device has filters that packets meet on their way out after our program.
fn has_later(netns: &Netns, index: u32) -> bool {
    let others = visit(netns, || {
        let filters = Tc::open()?.filters(index, Dir::Egress);
        let filters = filters.map_err(|e| SystemError::os("list the filters of", netns, e))?;
        Ok(filters
            .iter()
            .any(|f| f.handle != 0 && !leftovers::is_ours(f)))
    });
    others.unwrap_or(false)
}

/// Devices by which packets leave the node: out devices of its routes that lead to no pod.
fn uplinks(inventory: &Inventory, node: NetnsId) -> Vec<u32> {
    let Some(ns) = inventory.namespaces.get(&node) else {
        return Vec::new();
    };
    let leads_to_pod = |link: &Link| {
        link.peer
            .is_some_and(|(peer, _)| peer != node && inventory.role(peer) == Role::Pod)
    };
    let through: BTreeSet<u32> = ns.routes.iter().map(|route| route.ifindex).collect();
    let usable = |index: &u32| {
        ns.links
            .get(index)
            .is_some_and(|link| link.up && !link.loopback && !leads_to_pod(link))
    };
    through.into_iter().filter(usable).collect()
}
