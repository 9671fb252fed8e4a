//! Programs on the node's devices, which may send packets past the rules, and what Cilium's exempt.

use super::inquire::{Sides, add_tcx};
use crate::kernel;
use crate::sink;
use crate::system::netns::{Netns, visit};
use crate::system::{self, Roots, agent};
use std::collections::BTreeMap;
use tracer_core::event::Dir;
use tracer_core::foresee::is_ciliums;
use tracer_core::inventory::{Facts, Inventory, Namespace};
use tracer_core::masqconfig::{Agent, Pinned};

/// The destinations that Cilium's data path exempts, where its programs are on the node's devices.
pub(super) fn pinned(roots: &Roots, inventory: &Inventory) -> Option<Pinned> {
    let node = inventory.node?;
    let programs = inventory.facts.get(&node)?.programs.values();
    if !programs.flatten().any(is_ciliums) {
        return None;
    }
    let agent = agent::find(roots, node).filter(|found| found.agent == Agent::Cilium);
    kernel::ipmasq(roots, agent.map(|found| found.pid))
}

/// The programs on the node's devices: they may send packets past the rules.
pub(super) fn add_programs(node: &Netns, inventory: &mut Inventory) {
    let Some(ns) = inventory.namespaces.get(&node.id) else {
        return;
    };
    let devices = ns
        .links
        .iter()
        .map(|(index, link)| (*index, link.name.clone()));
    let devices: BTreeMap<u32, String> = devices.collect();
    let found = system::programs(node, devices.keys().copied().collect::<Vec<_>>());
    let mut programs: Sides = match found {
        Ok(programs) => programs,
        Err(error) => {
            sink::note(&format!(
                "srctrace: programs on the node's devices cannot be listed: {error}\n"
            ));
            return;
        }
    };
    add_netkit(node, ns, &mut programs);
    add_tcx(node, &devices, &mut programs);
    let facts = Facts {
        programs,
        ..Facts::default()
    };
    inventory.facts.entry(node.id).or_default().absorb(facts);
}

/// Those on the netkit pairs of pods.
fn add_netkit(node: &Netns, ns: &Namespace, programs: &mut Sides) {
    let pairs = ns.links.iter().filter(|(_, link)| link.kind == "netkit");
    let indexes: Vec<u32> = pairs.map(|(index, _)| *index).collect();
    let found = visit(node, || {
        let sides = indexes.iter().flat_map(|index| {
            let side = |dir| ((*index, dir), kernel::netkit_programs(*index, dir));
            [side(Dir::Ingress), side(Dir::Egress)]
        });
        Ok(sides.collect::<Vec<_>>())
    });
    for (side, more) in found.unwrap_or_default() {
        programs.entry(side).or_default().extend(more);
    }
}
