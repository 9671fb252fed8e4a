//! Who began a flow.

use super::view::known;
use crate::attribute::original;
use crate::event::{Dir, NetnsId, Process};
use crate::inventory::{Inventory, Role};
use crate::journey::{Direction, Hop, Journey, Place};
use crate::report::{self, OriginKind, OriginProcess};

/// Where a flow came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// What kind of place that is.
    pub kind: OriginKind,
    /// Its namespace, if that is known.
    pub netns: Option<NetnsId>,
    /// The device by which the flow left that, or entered this host.
    pub device: Option<Place>,
}

impl Origin {
    /// Where a journey began.
    #[must_use]
    pub fn of(journey: &Journey, inventory: &Inventory) -> Self {
        source(journey, inventory)
    }
}

pub(super) fn origin(journey: &Journey, inventory: &Inventory) -> report::Origin {
    let source = source(journey, inventory);
    let is_node = source.kind == OriginKind::Node;
    let process = journey.process.as_deref().filter(|_| is_node);
    let cgroup = process
        .and_then(|p| p.cgroup)
        .and_then(|id| inventory.cgroups.get(&id));
    let namespace = source.netns.and_then(|ns| inventory.namespaces.get(&ns));
    report::Origin {
        kind: source.kind,
        netns: source.netns.and_then(known),
        netns_name: namespace.and_then(|ns| ns.name.clone()),
        pod: cgroup
            .and_then(|c| c.pod.clone())
            .or_else(|| namespace.and_then(|ns| ns.pod.clone())),
        ifname: source
            .device
            .and_then(|d| inventory.link(d.netns, d.ifindex))
            .map(|l| l.name.clone()),
        process: process.map(|p| view(p, inventory)),
    }
}

fn view(process: &Process, inventory: &Inventory) -> OriginProcess {
    let cgroup = process.cgroup.and_then(|id| inventory.cgroups.get(&id));
    OriginProcess {
        pid: process.pid,
        comm: process.comm.clone(),
        cgroup: cgroup.map(|c| c.path.clone()),
    }
}

fn source(journey: &Journey, inventory: &Inventory) -> Origin {
    if let Some(first) = journey.request.hops().first() {
        return match first.place.dir {
            Dir::Egress => left(journey, first, inventory),
            Dir::Ingress => entered(journey, first.place, inventory),
        };
    }
    if let Some(place) = stillborn(journey) {
        return within(place, inventory);
    }
    // Only replies were sighted: the last of them is the nearest to the origin.
    match journey.reply.hops().last().map(|h| h.place) {
        Some(last) if last.dir == Dir::Ingress => within(last, inventory),
        Some(last) => entered(journey, last, inventory),
        None => outside(None),
    }
}

/// Where a request died that was made here and that no tap had seen.
fn stillborn(journey: &Journey) -> Option<Place> {
    let loss = journey
        .losses
        .iter()
        .find(|l| l.direction == Direction::Request && l.first.local)?;
    Some(Place {
        netns: loss.netns?,
        ifindex: loss.first.ifindex.unwrap_or(0),
        dir: Dir::Egress,
    })
}

/// First sighted on its way out of a namespace.
fn left(journey: &Journey, first: &Hop, inventory: &Inventory) -> Origin {
    if first.local {
        return within(first.place, inventory);
    }
    if inventory.role(first.place.netns) == Role::Pod {
        return Origin {
            kind: OriginKind::Gateway,
            netns: Some(first.place.netns),
            device: Some(first.place),
        };
    }
    by_address(journey, first.place, inventory).unwrap_or(outside(None))
}

/// Begun in the namespace of a device.
fn within(place: Place, inventory: &Inventory) -> Origin {
    Origin {
        kind: match inventory.role(place.netns) {
            Role::Node => OriginKind::Node,
            Role::Pod => OriginKind::Pod,
            Role::External => OriginKind::External,
        },
        netns: Some(place.netns),
        device: Some(place),
    }
}

/// First sighted on its way into a namespace: begun behind the device.
fn entered(journey: &Journey, place: Place, inventory: &Inventory) -> Origin {
    if let Some((netns, ifindex)) = inventory.peer(place.netns, place.ifindex) {
        if inventory.role(netns) == Role::External && !inventory.namespaces.contains_key(&netns) {
            return outside(Some(place));
        }
        let peer = Place {
            netns,
            ifindex,
            dir: Dir::Egress,
        };
        return within(peer, inventory);
    }
    if inventory.role(place.netns) == Role::Pod {
        // A tunnel ends in the pod: it forwards for clients that are elsewhere.
        return Origin {
            kind: OriginKind::Gateway,
            netns: Some(place.netns),
            device: Some(place),
        };
    }
    let unknown_pair = inventory
        .link(place.netns, place.ifindex)
        .is_none_or(|l| l.kind == "veth");
    by_address(journey, place, inventory)
        .filter(|_| unknown_pair)
        .unwrap_or(outside(Some(place)))
}

/// Where no device tells the sender, its address may.
fn by_address(journey: &Journey, place: Place, inventory: &Inventory) -> Option<Origin> {
    let netns = inventory.pod_behind(place.netns, original(journey).src)?;
    Some(Origin {
        kind: OriginKind::Pod,
        netns: Some(netns),
        device: None,
    })
}

fn outside(device: Option<Place>) -> Origin {
    Origin {
        kind: OriginKind::External,
        netns: None,
        device,
    }
}
