//! Which rule translated the packet around one.

use super::{Consulted, view};
use crate::evaluate::{Bits, Packet, Seen, Way, evaluate};
use crate::event::Dir;
use crate::inventory::Inventory;
use crate::journey::{Hop, Journey};
use crate::report::{Rule, RuleEvidence};

/// The rule that gives the source which the packet around this hop's has, if just one does. The rules see that
/// packet as made by their own namespace, with the mark of the one inside.
#[must_use]
pub fn outer_rule(
    journey: &Journey,
    hop: &Hop,
    inventory: &Inventory,
    rules: &Consulted<'_>,
) -> Option<Rule> {
    let outer = hop.outer.as_deref()?;
    let netns = hop.place.netns;
    let (rules, _) = rules.at(netns, journey.first_ns)?;
    let here = inventory.namespaces.get(&netns)?;
    let oif = inventory.link(netns, hop.place.ifindex);
    let oif = oif.map(|link| link.name.as_str());
    let mut packet = Packet::first(outer.before()?, Some(""), oif);
    packet.mark = mark_inside(journey, hop).map_or(Bits::UNKNOWN, Bits::all);
    let seen = Seen {
        source: Some(outer.tuple.source()),
        destination: Some(outer.tuple.destination()),
    };
    let given = evaluate(&rules, &packet, Way::Sent, here).given(&seen);
    let answer = given.source();
    match answer.candidates.as_slice() {
        [Some(one)] => Some(view(one.by, &one.path, RuleEvidence::Replayed)),
        _ => None,
    }
}

/// The mark with which the packet left the tunnel's own device.
fn mark_inside(journey: &Journey, around: &Hop) -> Option<u32> {
    let hops = journey.request.hops().iter();
    let inside = hops
        .take_while(|hop| hop.place != around.place)
        .filter(|hop| hop.place.netns == around.place.netns && hop.place.dir == Dir::Egress)
        .filter(|hop| hop.outer.is_none())
        .last();
    inside.and_then(|hop| hop.mark)
}
