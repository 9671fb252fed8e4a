//! What a configuration would change where Cilium masquerades: its maps of today against the list after it.

use super::changed::Changed;
use super::plan::{self, Ask};
use crate::run::terrain::Terrain;
use ipnet::IpNet;
use std::net::IpAddr;
use tracer_core::event::NetnsId;
use tracer_core::inventory::Inventory;
use tracer_core::masqconfig::Config;
use tracer_core::report::{OriginKind, PlanReport, PlannedSource, SCHEMA, SourceCode};

/// Every path of a pod, those whose source changes first. Without the maps nothing is known of today.
pub(super) fn plans(
    terrain: &Terrain,
    ask: &Ask<'_>,
    now: Option<&[IpNet]>,
    after: &Config,
) -> Vec<PlanReport> {
    let Some(now) = now else { return Vec::new() };
    let families = [false, true].into_iter().filter(|v6| !v6 || ask.flags.ipv6);
    let then: Vec<IpNet> = families.flat_map(|v6| after.exempt(v6)).collect();
    let trials = plan::trials(terrain, ask, &Changed::between(now, &then));
    let mut plans = Vec::new();
    // What is not a pod's Cilium masquerades by other rules than this list.
    for trial in trials
        .into_iter()
        .filter(|t| t.sender.kind == OriginKind::Pod)
    {
        let dst = trial.request.dst;
        let mut path = trial.path;
        path.src = path
            .src
            .or_else(|| address(&terrain.inventory, trial.sender.netns, dst));
        let plan = PlanReport {
            schema: SCHEMA,
            from: source(now, dst, path.src),
            to: source(&then, dst, path.src),
            path,
            count: trial.count,
        };
        plan::add(&mut plans, plan);
    }
    plans.sort_by_key(|plan: &PlanReport| !plan.changes());
    plans
}

/// What a pod sends with: its address of the destination's family.
fn address(inventory: &Inventory, pod: NetnsId, dst: IpAddr) -> Option<IpAddr> {
    let links = inventory.namespaces.get(&pod)?.links.values();
    let of_links = links
        .filter(|link| !link.loopback)
        .flat_map(|link| &link.addrs);
    let mut addrs = of_links.map(IpNet::addr);
    addrs.find(|addr| match addr {
        IpAddr::V4(v4) => dst.is_ipv4() && !v4.is_link_local(),
        IpAddr::V6(v6) => dst.is_ipv6() && !v6.is_unicast_link_local(),
    })
}

/// The node's address is Cilium's choice.
fn source(exempt: &[IpNet], dst: IpAddr, src: Option<IpAddr>) -> PlannedSource {
    let keeps = exempt.iter().any(|net| net.contains(&dst));
    PlannedSource {
        source: match keeps {
            true => SourceCode::SourcePreserved,
            false => SourceCode::SourceRewritten,
        },
        source_on_wire: src.filter(|_| keeps),
        rule: None,
    }
}
