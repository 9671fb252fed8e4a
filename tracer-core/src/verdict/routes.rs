//! Routes that hold only for as long as a pod stays where it is.

use super::findings::finding;
use crate::attribute::number_at;
use crate::event::{Dir, NetnsId};
use crate::inventory::{Inventory, Role};
use crate::journey::{Hop, Journey};
use crate::report::{Code, Finding, Severity};
use serde_json::json;

/// One finding for each route on the flow's ways whose next hop is a pod.
pub(super) fn findings(journey: &Journey, inventory: &Inventory) -> Vec<Finding> {
    let ways = [
        (journey.request.hops(), "the request"),
        (journey.reply.hops(), "the reply"),
    ];
    let mut found: Vec<Finding> = Vec::new();
    for (hops, what) in ways {
        for hop in hops {
            let Some(next) = unstable(hop, what, inventory) else {
                continue;
            };
            let next = Finding {
                hop: number_at(journey, hop.place),
                ..next
            };
            if !found.iter().any(|known| known.data == next.data) {
                found.push(next);
            }
        }
    }
    found
}

/// The packet left by the device of the route that covers its destination best, and the next hop of that
/// is a pod's address.
fn unstable(hop: &Hop, what: &str, inventory: &Inventory) -> Option<Finding> {
    let netns = hop.place.netns;
    let dst = hop.tuples().next_back()?.dst;
    let route = inventory.route_to(netns, dst)?;
    let via = route.via.filter(|via| *via != dst)?;
    let elsewhere = inventory.role(netns) == Role::External;
    if elsewhere || hop.place.dir == Dir::Ingress || route.ifindex != hop.place.ifindex {
        return None;
    }
    let pod = inventory.pod_behind(netns, via)?;
    let (route, pod) = (
        inventory.route_words(netns, route),
        pod_name(pod, inventory),
    );
    let space = space(netns, inventory);
    Some(Finding {
        text: format!(
            "{what} took the route {route} of {space}, whose next hop is the pod {pod}: when that is \
             rescheduled its address moves, and the route does not"
        ),
        fix: Some(
            "let what knows where the pod is set the route (a controller, BGP), or lead the prefix to \
             the pod's node and have a route to the pod there that its start sets anew"
                .into(),
        ),
        data: json!({"netns": space, "route": route, "next_hop": via, "pod": pod}),
        ..finding(Code::UnstableNextHop, Severity::Warning)
    })
}

fn space(netns: NetnsId, inventory: &Inventory) -> String {
    let name = inventory.name(netns).map(str::to_owned);
    name.unwrap_or_else(|| format!("netns {}", netns.0))
}

fn pod_name(netns: NetnsId, inventory: &Inventory) -> String {
    let pod = inventory
        .namespaces
        .get(&netns)
        .and_then(|ns| ns.pod.clone());
    pod.unwrap_or_else(|| space(netns, inventory))
}
