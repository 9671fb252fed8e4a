//! Why rules for routed packets acted on one that a bridge only passed on.

use super::findings::finding;
use crate::event::Dir;
use crate::inventory::{HandsOver, Inventory};
use crate::journey::{Hop, Journey};
use crate::report::{Code, Finding, Rewrite, RewriteAgent, RewriteDirection, Severity};
use serde_json::json;

/// A rewrite by netfilter between two ports of one bridge, without a sighting of the bridge's own device, which a
/// packet that is routed passes.
pub(super) fn finding_of(
    journey: &Journey,
    rewrites: &[Rewrite],
    inventory: &Inventory,
) -> Option<Finding> {
    rewrites
        .iter()
        .find_map(|rewrite| handed_over(journey, rewrite, inventory))
}

fn handed_over(journey: &Journey, rewrite: &Rewrite, inventory: &Inventory) -> Option<Finding> {
    let by_netfilter = rewrite.agent == RewriteAgent::Netfilter;
    if !by_netfilter || rewrite.direction != RewriteDirection::Request {
        return None;
    }
    let [Some(before), Some(after)] = rewrite.between else {
        return None;
    };
    let hop = |n: u32| -> Option<&Hop> {
        let at = usize::try_from(n.checked_sub(1)?).ok()?;
        journey.request.hops().get(at)
    };
    let (entered, left) = (hop(before)?, hop(after)?);
    let (netns, there) = (left.place.netns, left.place.netns == entered.place.netns);
    let one_way = (entered.place.dir, left.place.dir) == (Dir::Ingress, Dir::Egress);
    if !there || !one_way {
        return None;
    }
    let (from, to) = (entered.place.ifindex, left.place.ifindex);
    let (index, bridge) = inventory.bridge_of(netns, [from, to])?;
    let (from, to) = (inventory.link(netns, from)?, inventory.link(netns, to)?);
    let ipv4 = journey.opened.src.is_ipv4();
    let tables = if ipv4 { "iptables" } else { "ip6tables" };
    let own = inventory.hands_over(netns, index, ipv4) == Some(HandsOver::ByBridge);
    let (setting, off) = if own {
        let switch = format!("nf_call_{tables}");
        let off = format!("`ip link set {} type bridge {switch} 0`", bridge.name);
        (format!("{switch} of {}", bridge.name), off)
    } else {
        let setting = format!("net.bridge.bridge-nf-call-{tables}");
        (setting.clone(), format!("{setting}=0"))
    };
    Some(Finding {
        text: format!(
            "from {} to {} it only crossed the bridge {}: {setting} hands such packets to the rules for routed ones too",
            from.name, to.name, bridge.name
        ),
        fix: Some(format!(
            "let the rule leave out what stays on {} (its own range as destination), or {off} where \
             nothing needs it (kube-proxy's Services between pods of one bridge do)",
            bridge.name
        )),
        hop: Some(after),
        data: json!({"bridge": bridge.name, "from": from.name, "to": to.name, "setting": setting}),
        ..finding(Code::BridgedThroughNetfilter, Severity::Info)
    })
}
