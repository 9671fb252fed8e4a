//! Rules of policy routing that a source has, and that leave out where it was going.

use super::findings::finding;
use crate::attribute::number_at;
use crate::event::Dir;
use crate::inventory::{Inventory, PolicyRule, Role};
use crate::journey::Journey;
use crate::report::{Code, Delivery, DeliveryCode, Finding, Severity};
use serde_json::json;
use std::net::IpAddr;

/// Nothing came back, and the source has rules (`ip rule`) in the namespace that it left by, none of which covers the
/// destination.
pub(super) fn uncovered(
    journey: &Journey,
    delivery: &Delivery,
    inventory: &Inventory,
) -> Option<Finding> {
    if delivery.code != DeliveryCode::NoReply {
        return None;
    }
    let known_end = |netns| inventory.role(netns) != Role::External;
    let mut hops = journey.request.hops().iter();
    let left = hops.rfind(|hop| hop.place.dir == Dir::Egress && known_end(hop.place.netns))?;
    let (netns, tuple) = (left.place.netns, left.tuple()?);
    let rules = &inventory.facts.get(&netns)?.policies;
    let rule = narrower(rules, tuple.src, tuple.dst)?;
    let device = &inventory.link(netns, left.place.ifindex)?.name;
    let space = inventory.name(netns).unwrap_or("its namespace");
    let (words, dst) = (rule.words(), tuple.dst);
    Some(Finding {
        text: format!(
            "{} has a rule of its own in {space} (`ip rule`: {words}) that does not cover {dst}: so it left by \
             {device}, as if there were none",
            tuple.src
        ),
        fix: Some(format!(
            "`ip route get {dst} from {}` there: let the rule cover what keeps its source, or have what it does not \
             cover masqueraded",
            tuple.src
        )),
        hop: number_at(journey, left.place),
        data: json!({"netns": space, "rule": words, "destination": dst, "device": device}),
        ..finding(Code::PolicyRouteMissed, Severity::Warning)
    })
}

/// The first rule that is about the source and leaves out the destination, where none about it takes that in.
fn narrower(rules: &[PolicyRule], src: IpAddr, dst: IpAddr) -> Option<&PolicyRule> {
    let mut about = rules.iter().filter(|rule| rule.from.contains(&src));
    let covers = |rule: &PolicyRule| rule.to.is_none_or(|to| to.contains(&dst));
    match about.clone().any(covers) {
        true => None,
        false => about.next(),
    }
}
