//! Frames that a bridge sends on from one port to another: no way is asked for them, and the rules see them only where
//! br_netfilter shows them (net/bridge/br_netfilter_hooks.c).

use super::fare::{Ended, Leg};
use super::walk::{Carried, Walk, packet};
use crate::evaluate::{Assumption, End, Fate, Outcome, Ports, Way};
use crate::event::NetnsId;
use crate::inventory::{HandsOver, Link, Namespace, Role};
use crate::ruleset::Family;

/// A way over a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Across {
    bridge: u32,
    /// The port in.
    from: u32,
    /// The port out.
    to: u32,
    /// What hangs on it, where the packet can be followed there.
    peer: Option<(NetnsId, u32)>,
}

impl<'r> Walk<'_, 'r> {
    /// The way of a frame that a bridge's port took in and that is not for the namespace itself: to the port behind which
    /// somebody has the address that it is sent to, else to the one port that leads off this node.
    pub(super) fn across(&self, at: &Carried<'r>) -> Option<Across> {
        let inventory = self.ground.inventory;
        let (from, hop) = (at.port?, at.hop?);
        let links = &inventory.namespaces.get(&at.netns)?.links;
        let bridge = links.get(&from)?.master?;
        let is_bridge = links.get(&bridge).is_some_and(|l| l.kind == "bridge");
        if !is_bridge || inventory.owns(at.netns, hop) {
            return None;
        }
        let other = |(index, link): &(&u32, &Link)| link.master == Some(bridge) && **index != from;
        let others = || links.iter().filter(other);
        let peer = |link: &Link| {
            link.peer
                .filter(|(ns, _)| inventory.namespaces.contains_key(ns))
        };
        let has_it = |link: &Link| peer(link).is_some_and(|(ns, _)| inventory.owns(ns, hop));
        let mut away = others().filter(|(_, link)| peer(link).is_none());
        let holder = others().find(|(_, link)| has_it(link));
        let (to, link) = holder.or_else(|| away.next().filter(|_| away.next().is_none()))?;
        Some(Across {
            bridge,
            from,
            to: *to,
            peer: peer(link).filter(|(ns, _)| inventory.role(*ns) != Role::External),
        })
    }

    /// Sends a packet over a bridge. `None` where rules turn it to another destination meanwhile: then it is routed, as if it
    /// had come to the bridge itself (`br_nf_pre_routing_finish`).
    pub(super) fn bridge(
        &mut self,
        at: &Carried<'r>,
        here: &Namespace,
        across: &Across,
    ) -> Option<Vec<Carried<'r>>> {
        let ipv4 = at.dst.is_ipv4();
        let inventory = self.ground.inventory;
        let shown = inventory.hands_over(at.netns, across.bridge, ipv4);
        let shown = shown.map(HandsOver::any);
        let ways = shown.map_or(vec![true, false], |shown| vec![shown]);
        let outcomes: Vec<(bool, Outcome<'r>)> = ways
            .into_iter()
            .map(|shown| (shown, self.ask_bridged(at, here, across, shown)))
            .collect();
        let mut ends = outcomes.iter().flat_map(|(_, outcome)| &outcome.ends);
        if ends.any(|end| end.dst.0 != Some(at.dst)) {
            return None;
        }
        self.doubt_bridges(at.netns);
        let mut open = Vec::new();
        for (is_shown, outcome) in outcomes {
            self.found.asks_transport |= outcome.asks_transport;
            outcome
                .doubts
                .iter()
                .for_each(|doubt| self.doubt(doubt.clone()));
            let mut at = at.clone();
            if shown.is_none() {
                at.assumed.push(Assumption {
                    text: "br_netfilter shows the bridge's packets to the rules".to_owned(),
                    holds: is_shown,
                });
            }
            let way = Way::Bridged { shown: is_shown };
            for end in &outcome.ends {
                open.extend(self.bridged(at.clone(), across, way, end, &outcome));
            }
        }
        Some(open)
    }

    fn ask_bridged(
        &self,
        at: &Carried<'r>,
        here: &Namespace,
        across: &Across,
        shown: bool,
    ) -> Outcome<'r> {
        let name = |index: u32| here.links.get(&index).map(|link| link.name.as_str());
        let port = |index| name(index).unwrap_or_default();
        let bridge = name(across.bridge);
        let mut packet = packet(at, self.proto, bridge, bridge);
        packet.cross(bridge, [across.from, across.to].map(port));
        self.asked(at, here, &packet, Way::Bridged { shown })
    }

    /// Behind the bridge.
    fn bridged(
        &mut self,
        mut at: Carried<'r>,
        across: &Across,
        way: Way,
        end: &End<'r>,
        outcome: &Outcome<'r>,
    ) -> Option<Carried<'r>> {
        at.assumed.extend(end.assumed.iter().cloned());
        at.legs.push(Leg {
            netns: at.netns,
            way,
            iif: Some(across.from),
            oif: Some(across.to),
            via: None,
            before: at.src,
            end: end.clone(),
            near_misses: outcome.near_misses.clone(),
            shadowed: outcome.shadowed.clone(),
        });
        let dst = (at.dst, end.dst.1);
        let ended = match (end.fate == Fate::Passes, across.peer) {
            (true, Some(peer)) if at.has_legs_left() => {
                let hop = at.hop;
                return Some(self.carried_on(at, peer, hop, end.src, dst));
            }
            (true, Some(_)) => Ended::Unknown,
            (true, None) => Ended::Left {
                netns: at.netns,
                ifindex: across.to,
            },
            (false, _) => Ended::Stopped,
        };
        at.src = end.src.0;
        self.ended(at, ended, Some(dst.0));
        None
    }

    /// A bridge's own rules are not walked.
    fn doubt_bridges(&mut self, netns: NetnsId) {
        let rules = self.ground.rules.get(&netns);
        let mut tables = rules.into_iter().flat_map(|rules| &rules.ruleset.tables);
        let own = tables.find(|table| {
            table.id.family == Family::Bridge
                && table.chains.iter().any(|chain| chain.base.is_some())
        });
        if let Some(table) = own {
            let name = &table.id.name;
            self.doubt(format!("the bridge's own rules (table bridge {name})"));
        }
    }

    /// Through which ports a packet came that goes up from a bridge: the one in is shown to the rules of PREROUTING.
    pub(super) fn seen_from_below(&self, at: &Carried<'r>) -> Ports {
        let inventory = self.ground.inventory;
        let shown = at.port.zip(at.came).is_some_and(|(_, bridge)| {
            inventory.hands_over(at.netns, bridge, at.dst.is_ipv4()) != Some(HandsOver::No)
        });
        if shown { Ports::Unknown } else { Ports::None }
    }
}
