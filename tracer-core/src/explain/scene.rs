//! A drop with what is known of the place where it happened.

use super::cause::Cause;
use crate::event::{Dir, NetnsId};
use crate::inventory::{Facts, IPVS_DEVICE, Inventory, Namespace, Role, RouteAnswer, answers_way};
use crate::journey::{Journey, Loss};
use crate::packet::Tuple;
use std::net::IpAddr;

/// A drop with its surroundings.
pub(crate) struct Scene<'a> {
    pub(crate) loss: &'a Loss,
    pub(crate) journey: &'a Journey,
    pub(super) inventory: &'a Inventory,
    pub(super) facts: Option<&'a Facts>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(loss: &'a Loss, journey: &'a Journey, inventory: &'a Inventory) -> Self {
        Self {
            loss,
            journey,
            inventory,
            facts: loss.netns.and_then(|netns| inventory.facts.get(&netns)),
        }
    }

    pub(crate) fn cause(&self) -> Cause {
        Cause::of(self)
    }

    pub(super) fn tuple(&self) -> Tuple {
        self.loss.first.tuple
    }

    fn namespace(&self) -> Option<&'a Namespace> {
        self.inventory.namespaces.get(&self.loss.netns?)
    }

    /// The destination, if it is an address that kube-proxy's IPVS mode serves there.
    pub(super) fn of_ipvs(&self) -> Option<IpAddr> {
        let dst = self.tuple().dst;
        let mut links = self.namespace()?.links.values();
        let has = links
            .any(|link| link.name == IPVS_DEVICE && link.addrs.iter().any(|net| net.addr() == dst));
        has.then_some(dst)
    }

    pub(super) fn role(&self) -> Option<Role> {
        Some(self.inventory.role(self.loss.netns?))
    }

    /// The namespace in words: its name, or its number.
    pub(super) fn space(&self) -> String {
        let name = |netns: NetnsId| match self.inventory.name(netns) {
            Some(name) => name.to_owned(),
            None => format!("netns {}", netns.0),
        };
        self.loss
            .netns
            .map_or_else(|| "a namespace that is not known".to_owned(), name)
    }

    /// The route to the packet's destination by a next hop, as `ip route` prints it.
    pub(super) fn route_by(&self, next: IpAddr) -> Option<String> {
        let netns = self.loss.netns?;
        let route = self.inventory.route_to(netns, self.tuple().dst)?;
        let by = route.via == Some(next);
        by.then(|| self.inventory.route_words(netns, route))
    }

    /// Another namespace that has an address, or had it.
    pub(super) fn holder(&self, addr: IpAddr) -> Option<&'a str> {
        self.inventory.holder_but(self.loss.netns?, addr)
    }

    pub(crate) fn owns(&self, addr: IpAddr) -> bool {
        self.loss
            .netns
            .is_some_and(|netns| self.inventory.owns(netns, addr))
    }

    /// `ipv4` or `ipv6`.
    pub(super) fn family(&self) -> &'static str {
        if self.tuple().src.is_ipv4() {
            "ipv4"
        } else {
            "ipv6"
        }
    }

    /// The device by which the packet came in, where it did.
    pub(crate) fn came_by(&self) -> Option<u32> {
        let last = self
            .loss
            .after
            .filter(|place| Some(place.netns) == self.loss.netns);
        match last {
            Some(place) if place.dir == Dir::Ingress => Some(place.ifindex),
            Some(_) => None,
            None => self.loss.first.ifindex.filter(|_| !self.loss.first.local),
        }
    }

    /// Whether the request had come into this namespace by one of its devices: then none of its sockets sent it.
    pub(super) fn request_came_in(&self) -> bool {
        let mut way = self.journey.request.hops().iter();
        way.find(|hop| Some(hop.place.netns) == self.loss.netns)
            .is_some_and(|hop| hop.place.dir == Dir::Ingress)
    }

    /// A device's name in this namespace.
    pub(crate) fn device(&self, ifindex: Option<u32>) -> Option<&'a str> {
        Some(self.namespace()?.links.get(&ifindex?)?.name.as_str())
    }

    /// A device in words.
    pub(super) fn device_word(&self, ifindex: Option<u32>) -> String {
        match (self.device(ifindex), ifindex) {
            (Some(name), _) => name.to_owned(),
            (None, Some(index)) => format!("device {index}"),
            (None, None) => "its device".to_owned(),
        }
    }

    pub(super) fn mtu(&self, ifindex: u32) -> Option<u32> {
        let mtu = self.namespace()?.links.get(&ifindex)?.mtu;
        (mtu > 0).then_some(mtu)
    }

    /// What the kernel said it would do with this very packet.
    pub(crate) fn way(&self) -> Option<RouteAnswer> {
        let t = self.tuple();
        let facts = self.facts?;
        let came = self.came_by().map(|dev| (t.src, dev));
        facts
            .route(t.dst, came)
            .or_else(|| facts.route(t.dst, None))
    }

    /// What the kernel said it would do with a packet of its own to the same destination.
    pub(super) fn plain_way(&self) -> Option<RouteAnswer> {
        self.facts?.route(self.tuple().dst, None)
    }

    /// The way that any packet to its source would take.
    pub(super) fn plain_way_back(&self) -> Option<RouteAnswer> {
        self.facts?.route(self.tuple().src, None)
    }

    /// The way that an answer to this packet would take, from where it was going: rules may send by source.
    pub(super) fn way_back(&self) -> Option<RouteAnswer> {
        let (facts, t) = (self.facts?, self.tuple());
        let answer = answers_way(&facts.routes, t.dst, t.src)
            .and_then(|question| facts.route(question.dst, question.came));
        match answer {
            Some(out @ RouteAnswer::Out { .. }) => Some(out),
            _ => self.plain_way_back(),
        }
    }

    pub(super) fn setting(&self, name: &str) -> Option<i64> {
        self.facts?.setting(name)
    }

    /// A setting of the device by which the packet came in.
    pub(super) fn device_setting(&self, name: &str) -> Option<i64> {
        let device = self.device(self.came_by())?;
        self.setting(&format!("{}.conf.{device}.{name}", self.family()))
    }

    /// The reverse-path check that counts for that device.
    pub(super) fn rp_filter(&self) -> Option<i64> {
        let device = self.device(self.came_by())?;
        self.facts?.effective("ipv4", device, "rp_filter")
    }

    pub(super) fn forwarding_is_off(&self) -> bool {
        let all = match self.family() {
            "ipv4" => self.setting("ipv4.ip_forward"),
            _ => self.setting("ipv6.conf.all.forwarding"),
        };
        let off = all == Some(0) || self.device_setting("forwarding") == Some(0);
        off && !self.owns(self.tuple().dst)
    }

    /// Length of the packet as it would be on the wire: a large one is cut into segments.
    pub(super) fn wire_size(&self) -> u32 {
        let first = &self.loss.first;
        match u32::from(first.print.wire_packets) {
            0 | 1 => first.l3_len,
            n => {
                let headers = first.l3_len.saturating_sub(first.print.payload_len);
                headers + first.print.payload_len.div_ceil(n)
            }
        }
    }

    pub(super) fn is_too_big(&self) -> bool {
        let out = match self.way().or_else(|| self.plain_way()) {
            Some(RouteAnswer::Out { ifindex, .. }) => self.mtu(ifindex),
            _ => None,
        };
        out.is_some_and(|mtu| self.wire_size() > mtu)
    }

    /// The path of the socket's cgroup.
    pub(super) fn cgroup(&self) -> Option<&'a str> {
        let id = self.loss.first.cgroup?;
        Some(self.inventory.cgroups.get(&id)?.path.as_str())
    }

    /// Whether programs look at what comes to the socket's cgroup.
    pub(super) fn has_cgroup_ingress_programs(&self) -> bool {
        let key = self.loss.first.cgroup.map(|id| (id, Dir::Ingress));
        let programs = key.and_then(|key| self.facts?.cgroups.get(&key));
        programs.is_some_and(|programs| !programs.is_empty())
    }

    pub(super) fn has_egress_programs(&self) -> bool {
        let key = self.loss.first.ifindex.map(|dev| (dev, Dir::Egress));
        let programs = key.and_then(|key| self.facts?.programs.get(&key));
        programs.is_some_and(|programs| !programs.is_empty())
    }
}
