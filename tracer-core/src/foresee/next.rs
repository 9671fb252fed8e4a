//! Where a packet that leaves a namespace comes in next.

use super::walk::{Carried, Walk};
use crate::event::NetnsId;
use crate::inventory::Role;
use std::net::IpAddr;

impl<'r> Walk<'_, 'r> {
    /// The namespace of this node behind a device, and the device by which the packet comes in there.
    pub(super) fn next(
        &self,
        netns: NetnsId,
        out: u32,
        dst: Option<IpAddr>,
    ) -> Option<(NetnsId, u32)> {
        let inventory = self.ground.inventory;
        let (peer, index) = match inventory.peer(netns, out) {
            Some(peer) => peer,
            None => self.behind_bridge(netns, out, dst?)?,
        };
        inventory.namespaces.get(&peer)?;
        inventory.link(peer, index)?;
        (inventory.role(peer) != Role::External).then_some((peer, index))
    }

    /// The pod that has an address and hangs on a port of this bridge.
    fn behind_bridge(&self, netns: NetnsId, bridge: u32, dst: IpAddr) -> Option<(NetnsId, u32)> {
        let inventory = self.ground.inventory;
        let pod = inventory.pod_behind(netns, dst)?;
        let links = &inventory.namespaces.get(&netns)?.links;
        let ports = links.values().filter(|link| link.master == Some(bridge));
        let mut peers = ports.filter_map(|link| link.peer);
        peers.find(|(peer, _)| *peer == pod)
    }

    /// Whether a pod that is asked for a destination on the link has another address.
    pub(super) fn nobody(&self, pod: NetnsId, dst: IpAddr) -> bool {
        let inventory = self.ground.inventory;
        inventory.role(pod) == Role::Pod && !inventory.owns(pod, dst)
    }

    /// The same packet where it comes into the next namespace, by a router (`via`) or straight.
    pub(super) fn carried_on(
        &self,
        at: Carried<'r>,
        (netns, device): (NetnsId, u32),
        via: Option<IpAddr>,
        (src, sport): (Option<IpAddr>, Option<u16>),
        (dst, dport): (IpAddr, Option<u16>),
    ) -> Carried<'r> {
        let link = self.ground.inventory.link(netns, device);
        let master = link.and_then(|link| link.master);
        Carried {
            netns,
            came: Some(master.unwrap_or(device)),
            port: master.map(|_| device),
            hop: Some(via.unwrap_or(dst)),
            src,
            sport,
            dst,
            dport,
            ..at
        }
    }
}
