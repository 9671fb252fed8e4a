//! Ways: as the kernel told them, else as the main routing table gives them.

use super::stretches::Stretches;
use crate::event::NetnsId;
use crate::inventory::{Inventory, Link, Namespace, Refusal, Route, RouteAnswer, RouteQuestion};
use crate::space::addr;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The kernel's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    answers: BTreeMap<(NetnsId, Asked), Option<Routed>>,
    edges: BTreeMap<NetnsId, Vec<IpNet>>,
    stretches: BTreeMap<NetnsId, Stretches>,
    /// By address family: IPv4, IPv6.
    steering: BTreeMap<NetnsId, [Steering; 2]>,
}

/// What the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// Which way.
    pub way: RouteQuestion,
    /// Of what a namespace sends itself: the source that it has already.
    pub src: Option<IpAddr>,
    /// The packet's mark.
    pub mark: u32,
}

impl From<RouteQuestion> for Asked {
    fn from(way: RouteQuestion) -> Self {
        Self {
            way,
            src: None,
            mark: 0,
        }
    }
}

/// What the routing rules of a namespace (`ip rule`) ask for besides destination and device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Bits of the mark.
    pub mark: u32,
    /// For sources.
    pub sources: BTreeSet<IpNet>,
    /// For devices that packets come in by.
    pub devices: BTreeSet<String>,
    /// What no forecast has: `the destination port`, …
    pub beyond: BTreeSet<String>,
}

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// Where to.
    pub answer: RouteAnswer,
    /// The source that the namespace itself would take.
    pub src: Option<IpAddr>,
}

/// Of a namespace that does not forward.
const REFUSED: Routed = Routed {
    answer: RouteAnswer::Refused(Refusal::Unreachable),
    src: None,
};

impl Routes {
    /// Keeps an answer; `None`: the kernel did not give one.
    pub fn note(&mut self, netns: NetnsId, asked: Asked, answer: Option<Routed>) {
        let own = |routed: &Routed| {
            routed.answer == RouteAnswer::Local && routed.src == Some(asked.way.dst)
        };
        let of_any = |routed: Routed| match own(&routed) {
            true => Routed {
                src: None,
                ..routed
            },
            false => routed,
        };
        let asked = self.standing_for(netns, asked);
        self.answers.insert((netns, asked), answer.map(of_any));
    }

    /// Keeps what a namespace's routing rules ask for, those of IPv4 and of IPv6: what none asks for is not told apart.
    pub fn note_steering(&mut self, netns: NetnsId, steering: [Steering; 2]) {
        self.steering.insert(netns, steering);
    }

    /// What they ask for; `None`: that was not read.
    pub(super) fn steering(&self, netns: NetnsId, v4: bool) -> Option<&Steering> {
        let [of_v4, of_v6] = self.steering.get(&netns)?;
        Some(if v4 { of_v4 } else { of_v6 })
    }

    /// What all that were read ask for.
    pub(crate) fn steerings(&self) -> impl Iterator<Item = &Steering> {
        self.steering.values().flatten()
    }

    /// Keeps which destinations a namespace's routes tell apart, whichever table they are in.
    pub fn note_edges(&mut self, netns: NetnsId, nets: Vec<IpNet>) {
        self.edges.insert(netns, nets);
    }

    /// From now on one answer holds for all destinations that the edges of a namespace, all of which were noted, do
    /// not tell apart.
    pub fn note_alike(&mut self, netns: NetnsId) {
        let nets = self.edges.get(&netns).map_or(&[][..], Vec::as_slice);
        self.stretches.insert(netns, Stretches::of(nets));
    }

    /// Destinations that routes tell apart, as far as that was asked.
    pub fn edges(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.edges.values().flatten().copied()
    }

    /// Whether that was asked.
    #[must_use]
    pub fn knows(&self, netns: NetnsId, asked: Asked) -> bool {
        let asked = self.standing_for(netns, asked);
        self.answers.contains_key(&(netns, asked))
    }

    /// The way; where the kernel was not asked, or gave no answer, by the inventory.
    pub(super) fn way(
        &self,
        inventory: &Inventory,
        netns: NetnsId,
        asked: Asked,
    ) -> Option<Routed> {
        let question = asked.way;
        let asked = self.standing_for(netns, asked);
        let told = self.answers.get(&(netns, asked)).copied().flatten();
        // To an address of its own a namespace sends from that address.
        let own = |routed: Routed| match routed.answer {
            RouteAnswer::Local => Routed {
                src: routed.src.or(Some(question.dst)),
                ..routed
            },
            _ => routed,
        };
        let here = inventory.namespaces.get(&netns);
        // Asked for a way, the kernel says whether it forwards IPv4 packets (a single device may, where others do not),
        // but not that it forwards no IPv6 packets (net/ipv6/ip6_output.c, `ip6_forward`).
        let unsaid = told.is_none() || question.dst.is_ipv6();
        let off = here.and_then(|here| here.forwards(question.dst.is_ipv4())) == Some(false);
        let off = off && unsaid;
        let routed = told.map(own).or_else(|| by_tables(here?, question));
        let forwarded = |routed: &Routed| {
            let on = matches!(routed.answer, RouteAnswer::Out { .. });
            on && question.came.is_some()
        };
        routed.map(|routed| match off && forwarded(&routed) {
            true => REFUSED,
            false => routed,
        })
    }

    /// Where destinations begin that the routes of some namespace tell from those before, as numbers in order.
    pub(crate) fn places(&self, v4: bool) -> Vec<u128> {
        let all = self
            .stretches
            .values()
            .flat_map(|stretches| stretches.of_family(v4));
        let mut starts: Vec<u128> = all.copied().collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// The question whose answer holds for this one, too.
    fn standing_for(&self, netns: NetnsId, mut asked: Asked) -> Asked {
        if let Some(stretches) = self.stretches.get(&netns) {
            let dst = asked.way.dst;
            asked.way.dst = addr(stretches.start(dst), dst.is_ipv4());
        }
        if let Some(steering) = self.steering(netns, asked.way.dst.is_ipv4()) {
            asked.mark &= steering.mark;
            asked.src = asked.src.filter(|_| !steering.sources.is_empty());
        }
        asked
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: NetnsId = NetnsId(1);

    fn asked(dst: &str) -> Asked {
        let dst = dst.parse().unwrap();
        RouteQuestion { dst, came: None }.into()
    }

    fn out(ifindex: u32, src: Option<&str>) -> Option<Routed> {
        Some(Routed {
            answer: RouteAnswer::Out { via: None, ifindex },
            src: src.map(|src| src.parse().unwrap()),
        })
    }

    fn routes(nets: &[&str]) -> Routes {
        let mut routes = Routes::default();
        let nets = nets.iter().map(|net| net.parse().unwrap()).collect();
        routes.note_edges(HERE, nets);
        routes.note_alike(HERE);
        routes
    }

    #[test]
    fn one_answer_holds_for_all_that_routes_do_not_tell_apart() {
        let mut routes = routes(&["0.0.0.0/0", "10.20.0.0/16"]);
        routes.note(HERE, asked("10.20.30.40"), out(2, Some("10.100.0.5")));
        let inventory = Inventory::default();
        let way = |dst: &str| routes.way(&inventory, HERE, asked(dst));
        assert_eq!(way("10.20.255.255"), out(2, Some("10.100.0.5")));
        assert!(routes.knows(HERE, asked("10.20.0.0")));
        for other in ["10.19.255.255", "10.21.0.0"] {
            assert!(!routes.knows(HERE, asked(other)), "{other}");
        }
        let elsewhere = NetnsId(2);
        assert!(!routes.knows(elsewhere, asked("10.20.30.40")));
    }

    /// As with `ip route add local 10.50.0.0/16 dev lo`: each of them is its own source.
    #[test]
    fn to_itself_a_namespace_sends_from_where_it_sends_to() {
        let mut routes = routes(&["10.50.0.0/16"]);
        let own = |dst: &str| {
            Some(Routed {
                answer: RouteAnswer::Local,
                src: dst.parse().ok(),
            })
        };
        routes.note(HERE, asked("10.50.0.1"), own("10.50.0.1"));
        let way = routes.way(&Inventory::default(), HERE, asked("10.50.0.2"));
        assert_eq!(way, own("10.50.0.2"));
    }

    /// The kernel tells a way even where it will not forward.
    #[test]
    fn what_comes_in_goes_on_only_where_its_family_is_forwarded() {
        for (forwards_v6, came, goes) in [
            (Some(true), Some(3), true),
            (None, Some(3), true),
            (Some(false), Some(3), false),
            (Some(false), None, true),
        ] {
            let dst = "fd50::20".parse().unwrap();
            let came = came.map(|iif| ("fd12:3::4".parse().unwrap(), iif));
            let asked: Asked = RouteQuestion { dst, came }.into();
            let mut routes = Routes::default();
            routes.note(HERE, asked, out(2, None));
            let here = Namespace {
                forwards: Some(true),
                forwards_v6,
                ..Namespace::default()
            };
            let inventory = Inventory {
                namespaces: [(HERE, here)].into(),
                ..Inventory::default()
            };
            let way = if goes { out(2, None) } else { Some(REFUSED) };
            assert_eq!(
                routes.way(&inventory, HERE, asked),
                way,
                "{forwards_v6:?} {came:?}"
            );
        }
    }

    /// As where forwarding is on for the device that a packet came by, and off elsewhere.
    #[test]
    fn of_ipv4_the_kernel_says_itself_whether_it_forwards() {
        let dst = "10.20.30.40".parse().unwrap();
        let came = Some(("10.12.3.4".parse().unwrap(), 3));
        let asked: Asked = RouteQuestion { dst, came }.into();
        let mut routes = Routes::default();
        routes.note(HERE, asked, out(2, None));
        let here = Namespace {
            forwards: Some(false),
            ..Namespace::default()
        };
        let inventory = Inventory {
            namespaces: [(HERE, here)].into(),
            ..Inventory::default()
        };
        assert_eq!(routes.way(&inventory, HERE, asked), out(2, None));
    }

    /// Marks and sources are told apart as far as routing rules do.
    #[test]
    fn what_no_routing_rule_asks_for_is_not_told_apart() {
        let src = |last: u8| Some([10, 100, 0, last].into());
        let marked = |mark, src| Asked {
            mark,
            src,
            ..asked("10.20.30.40")
        };
        for (steering, known) in [
            (Steering::default(), [true, true, true]),
            (
                Steering {
                    mark: 0xf,
                    ..Steering::default()
                },
                [true, false, true],
            ),
            (
                Steering {
                    sources: ["10.12.0.0/16".parse().unwrap()].into(),
                    ..Steering::default()
                },
                [true, true, false],
            ),
        ] {
            let mut routes = Routes::default();
            routes.note_steering(HERE, [steering.clone(), Steering::default()]);
            routes.note(HERE, marked(0x4000, src(5)), out(2, None));
            let asked = [
                marked(0x8000, src(5)),
                marked(0x4007, src(5)),
                marked(0, src(6)),
            ];
            assert_eq!(
                asked.map(|asked| routes.knows(HERE, asked)),
                known,
                "{steering:?}"
            );
        }
    }
}
