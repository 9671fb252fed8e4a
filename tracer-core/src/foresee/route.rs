//! Ways: as the kernel told them, else as the main routing table gives them.

use crate::event::NetnsId;
use crate::inventory::{Inventory, Link, Namespace, Refusal, Route, RouteAnswer, RouteQuestion};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The kernel's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    answers: BTreeMap<(NetnsId, RouteQuestion), Option<Routed>>,
    edges: BTreeMap<NetnsId, Vec<IpNet>>,
}

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Where to.
    pub answer: RouteAnswer,
    /// The source that the namespace itself would take.
    pub src: Option<IpAddr>,
}

impl Routes {
    /// Keeps an answer; `None`: the kernel did not give one.
    pub fn note(&mut self, netns: NetnsId, question: RouteQuestion, answer: Option<Routed>) {
        self.answers.insert((netns, question), answer);
    }

    /// Keeps which destinations a namespace's routes tell apart, whichever table they are in.
    pub fn note_edges(&mut self, netns: NetnsId, nets: Vec<IpNet>) {
        self.edges.insert(netns, nets);
    }

    /// Destinations that routes tell apart, as far as that was asked.
    pub fn edges(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.edges.values().flatten().copied()
    }

    /// Whether that was asked.
    #[must_use]
    pub fn knows(&self, netns: NetnsId, question: RouteQuestion) -> bool {
        self.answers.contains_key(&(netns, question))
    }

    /// The way; where the kernel was not asked, or gave no answer, by the inventory.
    pub(super) fn way(
        &self,
        inventory: &Inventory,
        netns: NetnsId,
        question: RouteQuestion,
    ) -> Option<Routed> {
        let told = self.answers.get(&(netns, question)).copied().flatten();
        told.or_else(|| by_tables(inventory.namespaces.get(&netns)?, question))
    }
}

/// The way by the namespace's addresses and main routing table.
fn by_tables(here: &Namespace, question: RouteQuestion) -> Option<Routed> {
    let dst = question.dst;
    let own = |link: &&Link| {
        let is = |net: &IpNet| {
            net.addr() == dst || (link.loopback && dst.is_ipv4() && net.contains(&dst))
        };
        link.addrs.iter().any(is)
    };
    if here.links.values().any(|link| own(&link)) {
        return Some(Routed {
            answer: RouteAnswer::Local,
            src: Some(dst),
        });
    }
    let refused = |refusal| {
        Some(Routed {
            answer: RouteAnswer::Refused(refusal),
            src: None,
        })
    };
    let routes = here.routes.iter().filter(|route| route.to.contains(&dst));
    let up = routes.filter(|route| here.links.get(&route.ifindex).is_some_and(|link| link.up));
    // Of equal ones the first: the kernel keeps them by their metric.
    let Some(route) = up.reduce(|best, route| longer(best, route)) else {
        return refused(Refusal::NoRoute);
    };
    if question.came.is_some() && dst.is_ipv4() && here.forwards == Some(false) {
        return refused(Refusal::Unreachable);
    }
    Some(Routed {
        answer: RouteAnswer::Out {
            via: route.via,
            ifindex: route.ifindex,
        },
        src: source(here, route, dst),
    })
}

fn longer<'a>(best: &'a Route, route: &'a Route) -> &'a Route {
    if route.to.prefix_len() > best.to.prefix_len() {
        route
    } else {
        best
    }
}

/// The source that the kernel takes where the route names none: of the device, the address whose network
/// has the next hop, else the first (net/ipv4/devinet.c, `inet_select_addr`).
fn source(here: &Namespace, route: &Route, dst: IpAddr) -> Option<IpAddr> {
    let next = route.via.unwrap_or(dst);
    let of = |link: &Link| {
        let nets = link.addrs.iter().filter(|net| {
            let local = matches!(net.addr(), IpAddr::V6(v6) if v6.is_unicast_link_local());
            net.addr().is_ipv4() == dst.is_ipv4() && !local
        });
        let nets: Vec<_> = nets.collect();
        let near = nets.iter().find(|net| net.contains(&next));
        near.or(nets.first()).map(|net| net.addr())
    };
    let out = here.links.get(&route.ifindex).and_then(of);
    let others = || {
        here.links
            .values()
            .filter(|link| !link.loopback)
            .find_map(of)
    };
    out.or_else(others)
}
