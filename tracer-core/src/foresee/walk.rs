//! The walk: namespace by namespace, each time the route and then the rules.

use super::fare::{Ended, Fare, Leg};
use super::turns::Turn;
use super::{Forecast, Ground, Needs, Request, Routed, Sender};
use crate::evaluate::{Assumption, Bits, End, Fate, Known, Outcome, Packet, Way, evaluate};
use crate::event::NetnsId;
use crate::inventory::{Namespace, RouteAnswer};
use crate::packet::{Proto, Tuple};
use crate::report::OriginKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Namespaces on one way, at most.
const LEGS: usize = 8;
/// Ways, at most.
const FARES: usize = 64;

/// A walk under way.
pub(super) struct Walk<'g, 'r> {
    pub(super) ground: &'g Ground<'g, 'r>,
    pub(super) proto: Proto,
    pub(super) found: Forecast<'r>,
}

/// The packet where it enters a namespace, or is made.
#[derive(Clone, Debug)]
pub(super) struct Carried<'r> {
    pub(super) netns: NetnsId,
    /// The device by which it came in, as IP sees it: of a bridge's port the bridge.
    pub(super) came: Option<u32>,
    /// The bridge's port.
    pub(super) port: Option<u32>,
    /// Whom its frame is addressed to.
    pub(super) hop: Option<IpAddr>,
    pub(super) from: Option<IpAddr>,
    pub(super) src: Option<IpAddr>,
    /// As whom the route is asked where the source is not known.
    pub(super) neighbour: Option<IpAddr>,
    pub(super) sport: Option<u16>,
    pub(super) dst: IpAddr,
    pub(super) dport: Option<u16>,
    pub(super) legs: Vec<Leg<'r>>,
    pub(super) assumed: Vec<Assumption>,
}

impl<'g, 'r> Walk<'g, 'r> {
    pub(super) fn of(
        ground: &'g Ground<'g, 'r>,
        sender: &Sender,
        request: &Request,
    ) -> Forecast<'r> {
        let mut walk = Self {
            ground,
            proto: request.proto,
            found: Forecast {
                fares: Vec::new(),
                doubts: Vec::new(),
                needs: Needs::default(),
                asks_transport: false,
            },
        };
        let made_here = matches!(sender.kind, OriginKind::Pod | OriginKind::Node);
        let mut start = Carried {
            netns: sender.netns,
            came: sender.iif.filter(|_| !made_here),
            port: None,
            hop: None,
            from: sender.src,
            src: sender.src,
            neighbour: neighbour(ground, sender, request.dst),
            sport: request.sport,
            dst: request.dst,
            dport: request.dport,
            legs: Vec::new(),
            assumed: Vec::new(),
        };
        if made_here && start.src.is_none() {
            let routed = walk.route(&start, start.dst, 0);
            start.src = routed.and_then(|routed| routed.src);
            start.from = start.src;
        }
        let mut open = vec![start];
        while let Some(next) = open.pop() {
            if walk.found.fares.len() >= FARES {
                walk.doubt("more ways than are followed".to_owned());
                break;
            }
            open.extend(walk.leg(next));
        }
        walk.found.fares.reverse(); // the first branch was walked last
        walk.found
    }

    pub(super) fn doubt(&mut self, doubt: String) {
        if !self.found.doubts.contains(&doubt) {
            self.found.doubts.push(doubt);
        }
    }

    pub(super) fn ended(&mut self, at: Carried<'r>, ended: Ended, dst: Option<IpAddr>) {
        self.found.fares.push(Fare {
            legs: at.legs,
            ended,
            from: at.from,
            source: at.src,
            dst,
            assumed: at.assumed,
        });
    }

    /// One namespace; gives where the packet goes on.
    fn leg(&mut self, at: Carried<'r>) -> Vec<Carried<'r>> {
        let inventory = self.ground.inventory;
        let Some(here) = inventory.namespaces.get(&at.netns) else {
            let dst = Some(at.dst);
            self.ended(at, Ended::Unknown, dst);
            return Vec::new();
        };
        if !self.ground.rules.contains_key(&at.netns) {
            self.found.needs.rules.insert(at.netns);
            self.doubt("the rules of a namespace on the way were not read".to_owned());
            let dst = Some(at.dst);
            self.ended(at, Ended::Unknown, dst);
            return Vec::new();
        }
        if let Some(across) = self.across(&at)
            && let Some(open) = self.bridge(&at, here, &across)
        {
            return open;
        }
        let mut open = Vec::new();
        for (way, end, outcome) in self.ends(&at, here) {
            open.extend(self.after(at.clone(), way, end, &outcome));
        }
        open
    }

    /// Every end of the packet's way through the rules of a namespace. A rule that turns it to another
    /// destination, or marks it for a routing rule, also turns it to another way: the rules behind are asked for
    /// each anew.
    fn ends(
        &mut self,
        at: &Carried<'r>,
        here: &Namespace,
    ) -> Vec<(Option<Routed>, End<'r>, Outcome<'r>)> {
        let routed = self.route(at, at.dst, 0);
        let outcome = self.ask(at, here, routed);
        self.found.asks_transport |= outcome.asks_transport;
        for doubt in &outcome.doubts {
            self.doubt(doubt.clone());
        }
        let straight = Turn::none(at.dst);
        let mut turns: Vec<Turn> = Vec::new();
        for end in &outcome.ends {
            let turn = self.turn(at, end);
            if !turns.contains(&turn) {
                turns.push(turn);
            }
        }
        let mut found = Vec::new();
        for turn in turns {
            let (routed, outcome) = match turn.dst {
                Some(dst) if turn != straight => {
                    let routed = self.route(at, dst, turn.mark);
                    let outcome = self.ask(at, here, routed);
                    self.found.asks_transport |= outcome.asks_transport;
                    (routed, outcome)
                }
                Some(_) => (routed, outcome.clone()),
                None => (None, outcome.clone()),
            };
            let before = found.len();
            for end in &outcome.ends {
                if self.turn(at, end) == turn {
                    found.push((routed, end.clone(), outcome.clone()));
                }
            }
            if found.len() == before {
                self.doubt("rules that ask for the very device to which they turn it".to_owned());
            }
        }
        found
    }

    fn ask(&self, at: &Carried<'r>, here: &Namespace, routed: Option<Routed>) -> Outcome<'r> {
        let name = |index: u32| here.links.get(&index).map(|link| link.name.clone());
        let iif = match at.came {
            Some(index) => name(index),
            None => Some(String::new()),
        };
        let (way, oif) = match (at.came, routed.map(|r| r.answer)) {
            (Some(_), Some(RouteAnswer::Local)) => (Way::Delivered, Some(String::new())),
            (Some(_), Some(RouteAnswer::Out { ifindex, .. })) => (Way::Forwarded, name(ifindex)),
            (Some(_), _) => (Way::Forwarded, None),
            (None, Some(RouteAnswer::Out { ifindex, .. })) => (Way::Sent, name(ifindex)),
            (None, Some(RouteAnswer::Local)) => (Way::Sent, self.loopback(at.netns).and_then(name)),
            (None, _) => (Way::Sent, None),
        };
        let packet = Packet {
            ports: self.seen_from_below(at),
            ..packet(at, self.proto, iif.as_deref(), oif.as_deref())
        };
        self.asked(at, here, &packet, way)
    }

    /// What the rules of the namespace make of a packet.
    pub(super) fn asked(
        &self,
        at: &Carried<'r>,
        here: &Namespace,
        packet: &Packet,
        way: Way,
    ) -> Outcome<'r> {
        match self.ground.rules.get(&at.netns) {
            Some(rules) => evaluate(rules, packet, way, here),
            None => Outcome {
                ends: Vec::new(),
                doubts: Vec::new(),
                near_misses: Vec::new(),
                shadowed: Vec::new(),
                asks_transport: false,
            },
        }
    }

    /// The packet behind the rules of a namespace.
    fn after(
        &mut self,
        mut at: Carried<'r>,
        routed: Option<Routed>,
        end: End<'r>,
        outcome: &Outcome<'r>,
    ) -> Option<Carried<'r>> {
        let answer = routed.map(|r| r.answer);
        let (dst, before, fate) = (end.dst, at.src, end.fate.clone());
        let (src, sport) = end.src;
        at.assumed.extend(end.assumed.iter().cloned());
        let (oif, via) = match answer {
            Some(RouteAnswer::Out { ifindex, via }) => (Some(ifindex), via),
            Some(RouteAnswer::Local) if at.came.is_none() => (self.loopback(at.netns), None),
            _ => (None, None),
        };
        at.legs.push(Leg {
            netns: at.netns,
            way: match (at.came, answer) {
                (None, _) => Way::Sent,
                (Some(_), Some(RouteAnswer::Local)) => Way::Delivered,
                (Some(_), _) => Way::Forwarded,
            },
            iif: at.came,
            oif,
            via,
            before,
            end,
            near_misses: outcome.near_misses.clone(),
            shadowed: outcome.shadowed.clone(),
        });
        let ended = match (fate, answer) {
            (_, Some(RouteAnswer::Refused(refusal))) => Ended::Refused(at.netns, refusal),
            (Fate::Passes, Some(RouteAnswer::Local)) => Ended::Delivered(at.netns),
            (Fate::Passes, Some(RouteAnswer::Out { ifindex, .. })) => {
                let next = self.next(at.netns, ifindex, dst.0);
                match (next, dst.0) {
                    (Some((pod, _)), Some(addr)) if via.is_none() && self.nobody(pod, addr) => {
                        Ended::Nobody {
                            netns: at.netns,
                            ifindex,
                        }
                    }
                    (Some(next), Some(addr)) if at.has_legs_left() => {
                        return Some(self.carried_on(at, next, via, (src, sport), (addr, dst.1)));
                    }
                    (Some(_), _) => Ended::Unknown,
                    (None, _) => Ended::Left {
                        netns: at.netns,
                        ifindex,
                    },
                }
            }
            (Fate::Passes, None) => Ended::Unknown,
            _ => Ended::Stopped,
        };
        at.src = src;
        self.ended(at, ended, dst.0);
        None
    }

    fn loopback(&self, netns: NetnsId) -> Option<u32> {
        let links = &self.ground.inventory.namespaces.get(&netns)?.links;
        let mut found = links.iter().filter(|(_, link)| link.loopback);
        found.next().map(|(index, _)| *index)
    }
}

impl Carried<'_> {
    /// Whether it may go on into another namespace.
    pub(super) fn has_legs_left(&self) -> bool {
        self.legs.len() < LEGS
    }
}

/// A router behind the device by which clients come in.
fn neighbour(ground: &Ground<'_, '_>, sender: &Sender, dst: IpAddr) -> Option<IpAddr> {
    let here = ground.inventory.namespaces.get(&sender.netns)?;
    let by = here
        .routes
        .iter()
        .filter(|route| Some(route.ifindex) == sender.iif);
    let mut via = by.filter_map(|route| route.via);
    via.find(|via| via.is_ipv4() == dst.is_ipv4())
}

pub(super) fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The first packet of a new flow: it carries no mark (a socket of its sender set none, and a mark does
/// not pass from one namespace to another, net/core/skbuff.c `skb_scrub_packet`).
pub(super) fn packet(
    at: &Carried<'_>,
    proto: Proto,
    iif: Option<&str>,
    oif: Option<&str>,
) -> Packet {
    let tuple = Tuple {
        src: at.src.unwrap_or(unspecified(at.dst)),
        sport: at.sport.unwrap_or(0),
        dst: at.dst,
        dport: at.dport.unwrap_or(0),
        proto,
    };
    let echo = if proto == Proto::ICMP { 8 } else { 128 };
    Packet {
        known: Known {
            src: at.src.is_some(),
            sport: at.sport.is_some(),
            dport: at.dport.is_some() || proto.is_icmp(),
        },
        mark: Bits::all(0),
        tcp_flags: (proto == Proto::TCP).then_some(TCP_SYN),
        icmp: proto.is_icmp().then_some((echo, 0)),
        ..Packet::first(tuple, iif, oif)
    }
}

const TCP_SYN: u8 = 0x02;
