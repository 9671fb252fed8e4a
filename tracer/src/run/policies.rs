//! Policy routing, where a request went out and nothing came back: before that flow is judged, the namespace that it left
//! by is asked for the rules that are about sources.

use super::lately::Lately;
use crate::system::{self, Survey};
use tracer_core::event::{Dir, NetnsId};
use tracer_core::inventory::{Facts, Inventory, Role};
use tracer_core::journey::Closed;

/// What was asked lately.
#[derive(Debug, Default)]
pub(super) struct Policies {
    asked: Lately<(NetnsId, bool)>,
}

impl Policies {
    /// Asks about flows that are over and unanswered, and gives the answers to the inventory.
    pub(super) fn settle(&mut self, closed: &[Closed], survey: &mut Survey) {
        let inventory = survey.inventory();
        let left = closed.iter().filter_map(|flow| left_by(flow, inventory));
        for (id, v4) in self.asked.due(left) {
            let asked = survey.netns(id).map(|n| system::policies(n, v4));
            let Some(Ok(policies)) = asked else {
                continue; // the namespace is gone
            };
            let facts = Facts {
                policies,
                ..Facts::default()
            };
            survey.note_facts(id, facts);
        }
    }
}

/// Where a request without an answer went out last, and whether it is IPv4.
fn left_by(flow: &Closed, inventory: &Inventory) -> Option<(NetnsId, bool)> {
    let journey = &flow.journey;
    if journey.exchange.reply_ns.is_some() {
        return None;
    }
    let known_end = |netns| inventory.role(netns) != Role::External;
    let mut hops = journey.request.hops().iter();
    let left = hops.rfind(|hop| hop.place.dir == Dir::Egress && known_end(hop.place.netns))?;
    Some((left.place.netns, left.tuple()?.dst.is_ipv4()))
}
