//! Which traffic-control taps are wanted where, attached in the background one at a time: each
//! costs the kernel 10 to 20 ms.

use super::failure::Failure;
use crate::cli::TapMode;
use crate::kernel::{Attached, Programs, Side, TcMode};
use crate::system::netns::{Netns, visit};
use crate::system::{Delta, SystemError};
use std::collections::{BTreeSet, VecDeque};
use tracer_core::event::{Event, NetnsId, Tap};
use tracer_core::expect::ExitStatus;
use tracer_core::inventory::{Inventory, Link, Role};
use tracer_core::report::{ObservedBy, Unavailable};
use tracer_core::trace::Wanted;

/// At most so many devices get a tc tap: what they add is worth little beyond.
const MOST: usize = 64;

/// The tc taps of a trace.
pub(super) struct Taps {
    mode: Option<TcMode>,
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
            mode: match mode {
                TapMode::Auto | TapMode::Tcx => Some(TcMode::Tcx),
                TapMode::Clsact => Some(TcMode::Clsact),
                TapMode::Tracepoint => None,
            },
            queue: VecDeque::new(),
            asked: BTreeSet::new(),
            looked_for_uplinks: false,
            unavailable,
        };
        if let Some(tc) = taps.mode
            && let Err(error) = programs.load_tc(tc)
        {
            if mode != TapMode::Auto {
                return Err(error.into());
            }
            taps.give_up(&error.to_string());
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
        let Some(link) = inventory.link(node.id, index).filter(|link| !link.loopback) else {
            return;
        };
        let name = link.name.clone();
        let attached = visit(node, || {
            programs
                .attach_tc(&name, side)
                .map_err(|error| SystemError::Unknown {
                    kind: "tap",
                    given: name.clone(),
                    why: error.to_string(),
                })
        });
        if let Err(error) = attached
            && programs.attached().tcx + programs.attached().clsact == 0
        {
            self.give_up(&error.to_string());
        }
    }

    fn give_up(&mut self, why: &str) {
        let what = if self.mode == Some(TcMode::Clsact) {
            "clsact"
        } else {
            "tcx"
        };
        self.mode = None;
        self.queue.clear();
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

/// `srctrace cleanup`.
pub(super) fn cleanup() -> Result<ExitStatus, Failure> {
    Err(Failure::CannotTrace(
        "cleanup is not part of this build".to_owned(),
    ))
}
