//! Whose doing a change was, by the role of the namespace in which it happened.

use crate::event::NetnsId;
use crate::inventory::{Inventory, Role};
use crate::journey::Journey;
use crate::report::{OriginKind, Where};
use crate::verdict::Origin;

/// Whose doing a change in a namespace was.
#[must_use]
pub fn whose(journey: &Journey, inventory: &Inventory, netns: Option<NetnsId>) -> Where {
    let Some(netns) = netns else {
        return Where::Downstream;
    };
    match inventory.role(netns) {
        Role::Node => Where::Node,
        Role::Pod if begun_in(journey, inventory) == Some(netns) => Where::Pod,
        Role::Pod => Where::Gateway,
        Role::External if after_local(journey, inventory, netns) => Where::Downstream,
        Role::External => Where::Gateway,
    }
}

/// The namespace of the flow's own sender; a gateway only forwards.
fn begun_in(journey: &Journey, inventory: &Inventory) -> Option<NetnsId> {
    let origin = Origin::of(journey, inventory);
    origin.netns.filter(|_| origin.kind != OriginKind::Gateway)
}

/// Whether the request had met the node or a pod before it came to this namespace.
fn after_local(journey: &Journey, inventory: &Inventory, netns: NetnsId) -> bool {
    journey
        .request
        .hops()
        .iter()
        .take_while(|h| h.place.netns != netns)
        .any(|h| inventory.role(h.place.netns) != Role::External)
}

/// A place in words.
#[must_use]
pub fn role_word(place: Where) -> &'static str {
    match place {
        Where::Pod => "in the pod's own namespace",
        Where::Node => "on the node",
        Where::Service => "on the node, for a Service",
        Where::Gateway => "in a gateway",
        Where::Downstream => "after it left here",
        Where::Proxy => "by a proxy",
    }
}
