//! Tunnels that processes speak: before a flow is judged that went through a tun device, or that ended beside one,
//! it is asked who has the device open and who its peers are.

use super::lately::Lately;
use crate::system::Survey;
use std::collections::BTreeMap;
use tracer_core::event::{Dir, NetnsId};
use tracer_core::inventory::{Facts, Inventory};
use tracer_core::journey::Closed;

/// What was asked lately.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    asked: Lately<(NetnsId, u32)>,
}

impl Tunnels {
    /// Asks about the tun devices of flows that are over, and gives the answers to the inventory.
    pub(super) fn settle(&mut self, closed: &[Closed], survey: &mut Survey) {
        let inventory = survey.inventory();
        let met = closed.iter().flat_map(|flow| devices(flow, inventory));
        for (netns, ifindex) in self.asked.due(met) {
            let Some(tunnel) = survey.tunnel(netns, ifindex) else {
                continue;
            };
            let facts = Facts {
                tunnels: BTreeMap::from([(ifindex, tunnel)]),
                ..Facts::default()
            };
            survey.note_facts(netns, facts);
        }
    }
}

/// The tun devices that a flow's request went through, and those of the namespace that it was delivered in.
fn devices(flow: &Closed, inventory: &Inventory) -> Vec<(NetnsId, u32)> {
    let is_tun = |netns, ifindex| {
        let link = inventory.link(netns, ifindex);
        link.is_some_and(|link| link.kind == "tun")
    };
    let hops = flow.journey.request.hops();
    let met = hops.iter().map(|hop| (hop.place.netns, hop.place.ifindex));
    let mut found: Vec<_> = met.filter(|(netns, at)| is_tun(*netns, *at)).collect();
    let end = hops.last().filter(|hop| hop.place.dir == Dir::Ingress);
    if let Some(netns) = end.map(|hop| hop.place.netns)
        && let Some(namespace) = inventory.namespaces.get(&netns)
    {
        let all = namespace.links.keys().filter(|at| is_tun(netns, **at));
        found.extend(all.map(|at| (netns, *at)));
    }
    found
}
