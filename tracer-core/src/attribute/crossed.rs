//! A packet that a bridge sent from one port to another, as the rules see it.

use super::passage::Passage;
use crate::evaluate::{Packet, Way};
use crate::inventory::{HandsOver, Inventory, Link};
use crate::packet::Tuple;

/// The way over a bridge.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossed<'a> {
    bridge: &'a Link,
    from: &'a Link,
    to: &'a Link,
    /// Whether it was shown to the rules of IP.
    shown: bool,
}

impl<'a> Crossed<'a> {
    /// `None` where both ends of the passage are not ports of one bridge. What the rules changed was shown to them, whatever
    /// the switches say now.
    pub(super) fn of(
        passage: &Passage<'_>,
        after: Option<Tuple>,
        inventory: &'a Inventory,
    ) -> Option<Self> {
        let (entry, exit) = (passage.entry?, passage.exit?);
        let netns = passage.netns;
        let [from, to] = [entry, exit].map(|hop| hop.place.ifindex);
        let (index, bridge) = inventory.bridge_of(netns, [from, to])?;
        let switch = inventory.hands_over(netns, index, passage.before.src.is_ipv4());
        let changed = after.is_some_and(|after| after != passage.before);
        Some(Self {
            bridge,
            from: inventory.link(netns, from)?,
            to: inventory.link(netns, to)?,
            shown: changed || switch.is_some_and(HandsOver::any),
        })
    }

    /// Makes the packet what the rules see.
    pub(super) fn shown_as(&self, packet: &mut Packet) -> Way {
        packet.cross(Some(&self.bridge.name), [&self.from.name, &self.to.name]);
        Way::Bridged { shown: self.shown }
    }
}
