//! Which way routes lead, and who has the addresses that they name.

use super::{Inventory, Route};
use crate::event::NetnsId;
use std::net::IpAddr;

impl Inventory {
    /// The route of a namespace's main table that covers a destination best; `None` where there is none,
    /// or several are as good. Rules that ask other tables are not known here.
    #[must_use]
    pub fn route_to(&self, netns: NetnsId, dst: IpAddr) -> Option<&Route> {
        let routes = &self.namespaces.get(&netns)?.routes;
        let covers = |route: &&Route| route.to.contains(&dst);
        let longest = routes.iter().filter(covers).map(|r| r.to.prefix_len());
        let longest = longest.max()?;
        let mut best = routes
            .iter()
            .filter(|r| covers(r) && r.to.prefix_len() == longest);
        let route = best.next()?;
        best.next().is_none().then_some(route)
    }

    /// A route in the words of `ip route`: `10.8.0.0/24 via 10.12.9.4 dev br0`.
    #[must_use]
    pub fn route_words(&self, netns: NetnsId, route: &Route) -> String {
        let to = match route.to.prefix_len() {
            0 => "default".to_owned(),
            _ => route.to.to_string(),
        };
        let via = route
            .via
            .map_or_else(String::new, |via| format!(" via {via}"));
        let device = self.link(netns, route.ifindex).map(|link| &link.name);
        let device = device.map_or_else(String::new, |name| format!(" dev {name}"));
        format!("{to}{via}{device}")
    }

    /// The name of another namespace than `but` that has an address, or had it when it was last seen: one
    /// that vanished stays known for a while.
    #[must_use]
    pub fn holder_but(&self, but: NetnsId, addr: IpAddr) -> Option<&str> {
        let others = self.namespaces.iter().filter(|(id, _)| **id != but);
        let now = others.map(|(_, namespace)| namespace);
        let before = self.replaced.values().map(|former| &former.namespace);
        let mut has = now.chain(before).filter(|namespace| {
            let addrs = namespace.links.values().flat_map(|link| &link.addrs);
            addrs.into_iter().any(|net| net.addr() == addr)
        });
        has.find_map(|namespace| namespace.name.as_deref())
    }
}
