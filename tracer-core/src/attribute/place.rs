//! Whose doing a change was, by the role of the namespace in which it happened.

use crate::event::NetnsId;
use crate::inventory::{Inventory, Role};
use crate::journey::Journey;
use crate::report::Where;
use crate::verdict::origin_netns;

/// Whose doing a change in a namespace was.
#[must_use]
pub fn whose(journey: &Journey, inventory: &Inventory, netns: Option<NetnsId>) -> Where {
    let Some(netns) = netns else {
        return Where::Downstream;
    };
    match inventory.role(netns) {
        Role::Node => Where::Node,
        Role::Pod if origin_netns(journey, inventory) == Some(netns) => Where::Pod,
        Role::Pod => Where::Gateway,
        Role::External if before_node(journey, inventory, netns) => Where::Gateway,
        Role::External => Where::Downstream,
    }
}

/// Whether the request met this namespace and later the node.
fn before_node(journey: &Journey, inventory: &Inventory, netns: NetnsId) -> bool {
    let hops = journey.request.hops();
    let here = hops.iter().position(|h| h.place.netns == netns);
    here.is_some_and(|at| {
        hops[at..]
            .iter()
            .any(|h| inventory.role(h.place.netns) == Role::Node)
    })
}

/// A place in words.
#[must_use]
pub fn role_word(place: Where) -> &'static str {
    match place {
        Where::Pod => "in the pod's own namespace",
        Where::Node => "on the node",
        Where::Service => "on the node, for a Service",
        Where::Gateway => "in a gateway's namespace",
        Where::Downstream => "after it left here",
        Where::Proxy => "by a proxy",
    }
}
