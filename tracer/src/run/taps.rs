//! Which traffic-control taps are wanted where, attached in the background one at a time: each
//! costs the kernel 10 to 20 ms.

use super::failure::Failure;
use super::leftovers::Clsact;
use crate::cli::TapMode;
use crate::kernel::{Attached, Programs, Side, features};
use crate::system::netns::{Netns, visit};
use crate::system::{Delta, SystemError};
use std::collections::{BTreeSet, VecDeque};
use tracer_core::event::{Event, NetnsId, Tap};
use tracer_core::inventory::{Inventory, Link, Role};
use tracer_core::report::{ObservedBy, Unavailable};
use tracer_core::trace::Wanted;

/// At most so many devices get a tc tap: what they add is worth little beyond.
const MOST: usize = 64;

/// How traffic-control programs are attached.
enum Mode {
    /// tcx links, Linux 6.6 and later: they go with the process.
    Tcx,
    /// A clsact qdisc and a cls_bpf filter: they outlive a killed process, so a watcher removes
    /// them.
    Clsact(Clsact),
}

impl Mode {
    fn name(&self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Clsact(_) => "clsact",
        }
    }
}

/// The tc taps of a trace.
pub(super) struct Taps {
    mode: Option<Mode>,
    /// Devices of the node, by index, that are waiting.
    queue: VecDeque<(u32, Side)>,
    asked: BTreeSet<(u32, bool)>,
    looked_for_uplinks: bool,
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
            queue: VecDeque::new(),
            asked: BTreeSet::new(),
            looked_for_uplinks: false,
            unavailable,
        };
        match start(mode, programs) {
            Ok(started) => taps.mode = started,
            Err(failure) if mode != TapMode::Auto => return Err(failure),
            Err(failure) => taps.lacks("tcx", failure.line().unwrap_or_default()),
        }
        for (_, index) in &wanted.devices {
            taps.ask(*index, Side::Ingress);
            taps.ask(*index, Side::Egress);
        }
        Ok(taps)
    }

    /// A followed packet came in: its device gets a tap, to see what programs there do.
    pub(super) fn sighted(&mut self, event: &Event) {
        if self.mode.is_some() && event.tap == Tap::Receive && self.asked.len() < MOST {
            self.ask(event.ifindex, Side::Ingress);
        }
    }

    /// Devices came or changed: uplinks are looked for again.
    pub(super) fn changed(&mut self, delta: &Delta) {
        self.looked_for_uplinks &= delta.is_empty();
    }

    fn ask(&mut self, index: u32, side: Side) {
        if self.asked.insert((index, side == Side::Egress)) {
            self.queue.push_back((index, side));
        }
    }

    /// Attaches at most one tap.
    pub(super) fn attach_next(
        &mut self,
        programs: &mut Programs,
        node: &Netns,
        inventory: &Inventory,
    ) {
        if self.mode.is_none() {
            return;
        }
        if !self.looked_for_uplinks {
            self.looked_for_uplinks = true;
            for index in uplinks(inventory, node.id) {
                self.ask(index, Side::Egress);
            }
        }
        let Some((index, side)) = self.queue.pop_front() else {
            return;
        };
        let Some(mode) = &mut self.mode else { return };
        let Some(link) = inventory.link(node.id, index).filter(|link| !link.loopback) else {
            return;
        };
        let name = link.name.clone();
        let attached = match mode {
            Mode::Clsact(clsact) => clsact.add(programs, node, (index, &name), side),
            Mode::Tcx => visit(node, || {
                programs
                    .attach_tcx(&name, side)
                    .map_err(|error| SystemError::Unknown {
                        kind: "tap",
                        given: name.clone(),
                        why: error.to_string(),
                    })
            }),
        };
        if let Err(error) = attached
            && programs.attached().tcx + programs.attached().clsact == 0
        {
            self.give_up(&error.to_string());
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
            kprobe: 0,
            nftrace: 0,
            unavailable: self.unavailable.iter().cloned().chain(missing).collect(),
        }
    }
}

/// Gets a way of attaching ready.
fn start(mode: TapMode, programs: &mut Programs) -> Result<Option<Mode>, Failure> {
    let mode = match mode {
        TapMode::Tracepoint => return Ok(None),
        TapMode::Clsact => Mode::Clsact(Clsact::start()?),
        TapMode::Auto => tcx().map_err(Failure::CannotTrace)?,
        TapMode::Tcx => tcx().map_err(|why| {
            Failure::CannotTrace(format!("--tap tcx: {why}; --tap clsact does without"))
        })?,
    };
    programs.load_tc()?;
    Ok(Some(mode))
}

fn tcx() -> Result<Mode, String> {
    features::tcx().map(|()| Mode::Tcx)
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
