//! Which flows are told, and what they are compared with.

use crate::expect::Expectations;
use crate::inventory::Inventory;
use crate::report::Flow;
use crate::verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Which flows are told, beyond what the kernel half can decide. Every part that is not empty must
/// hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Namespaces in which a flow begins, by inode number.
    pub origins: BTreeSet<u32>,
    /// Devices that it crosses: namespace inode number and index.
    pub devices: BTreeSet<(u32, u32)>,
}

impl Wanted {
    /// Whether a flow is to be told.
    #[must_use]
    pub fn wants(&self, flow: &Flow) -> bool {
        let begins = || {
            flow.origin
                .netns
                .is_some_and(|id| self.origins.contains(&id))
        };
        let crosses = || {
            flow.hops.iter().any(|hop| {
                hop.netns
                    .is_some_and(|id| self.devices.contains(&(id, hop.ifindex)))
            })
        };
        (self.origins.is_empty() || begins()) && (self.devices.is_empty() || crosses())
    }
}

/// What flows are compared with before they are told.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// What must hold.
    pub expectations: Expectations,
    /// The source that the far side says it saw.
    pub peer_saw: Option<IpAddr>,
}

impl Checks {
    /// Adds what does not hold, and what the far side saw, to the flow's findings: what was asked for
    /// comes first.
    pub(super) fn mark(&mut self, flow: &mut Flow, inventory: &Inventory) {
        let violated = self.expectations.judge(flow, inventory);
        flow.findings.splice(0..0, violated);
        if let Some(saw) = self.peer_saw {
            verdict::compare_with_peer(flow, saw);
        }
    }
}
