//! Programs on the way, which may send a packet past the rules.

use super::Fare;
use super::datapath::Decider;
use crate::event::{Dir, NetnsId};
use crate::inventory::{Attached, Inventory};
use crate::report::{Code, Finding, Severity};
use crate::verdict::finding;

/// A program that the packet meets.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnTheWay<'a> {
    device: &'a str,
    dir: Dir,
    program: &'a Attached,
}

/// The programs on the devices of a way, where these were asked for.
pub(super) fn programs<'a>(fare: &Fare<'_>, inventory: &'a Inventory) -> Vec<OnTheWay<'a>> {
    let sides = fare.legs.iter().flat_map(|leg| {
        let side = |index: Option<u32>, dir| index.map(|index| (leg.netns, index, dir));
        [side(leg.iif, Dir::Ingress), side(leg.oif, Dir::Egress)]
    });
    let on = |(netns, index, dir): (NetnsId, u32, Dir)| {
        let device = inventory.link(netns, index).map_or("", |link| &link.name);
        let facts = inventory.facts.get(&netns);
        let programs = facts.and_then(|facts| facts.programs.get(&(index, dir)));
        let programs = programs.into_iter().flatten().filter(|p| p.is_program());
        programs.map(move |program| OnTheWay {
            device,
            dir,
            program,
        })
    };
    sides.flatten().flat_map(on).collect()
}

impl OnTheWay<'_> {
    /// Whether it is of a data path that sends packets out and translates them itself.
    pub(super) fn decides(&self) -> bool {
        is_ciliums(self.program)
    }

    /// What that means; of Cilium's programs by who decides.
    pub(super) fn finding(&self, decider: Option<&Decider>) -> Finding {
        let side = match self.dir {
            Dir::Ingress => "ingress",
            Dir::Egress => "egress",
        };
        let what = format!("{} at {side} of {}", self.program.words(), self.device);
        let decider = decider.filter(|_| self.decides());
        let severity = match decider {
            None | Some(Decider::Rules(_)) => Severity::Info,
            Some(_) => Severity::Warning,
        };
        let text = match decider {
            Some(decider) => format!("{what} {}", decider.words()),
            None => {
                format!("{what} is met on the way: what it does to the packet is not told by rules")
            }
        };
        Finding {
            text,
            fix: Some(format!(
                "trace one request (`srctrace --probe`): what leaves {} is the answer",
                self.device
            )),
            data: serde_json::json!({
                "device": self.device, "side": side, "program": self.program.name, "id": self.program.id,
                "decided_by": decider.map(Decider::data),
            }),
            rule: decider.and_then(Decider::rule),
            ..finding(Code::ProgramDecides, severity)
        }
    }
}

/// Cilium's, by its programs' names (bpf/bpf_lxc.c, bpf_host.c and bpf_overlay.c).
pub(super) fn is_ciliums(program: &Attached) -> bool {
    let name = program.name.as_deref().unwrap_or_default();
    name.starts_with("cil_") || name.starts_with("tail_") && name.contains("nodeport")
}
