//! Which flows are told, and what they are compared with.

use crate::contract::Checker;
use crate::expect::{ExitStatus, Expectations, Nodes};
use crate::inventory::Inventory;
use crate::report::{Agreement, ExpectLine, Flow};
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
    /// What was agreed.
    pub contract: Option<Checker>,
    /// The source that the far side says it saw.
    pub peer_saw: Option<IpAddr>,
}

impl Checks {
    /// Adds what does not hold, and what the far side saw, to the flow's findings: what was asked for
    /// comes first.
    pub(super) fn mark(&mut self, flow: &mut Flow, inventory: &Inventory) {
        let violated = self.expectations.judge(flow, inventory);
        flow.findings.splice(0..0, violated);
        if let Some(contract) = &mut self.contract {
            contract.mark(flow, Nodes::Of(inventory));
        }
        if let Some(saw) = self.peer_saw {
            verdict::compare_with_peer(flow, saw);
        }
    }

    /// The summary's lines about them.
    #[must_use]
    pub fn lines(&self) -> Vec<ExpectLine> {
        let agreed = self.contract.iter().flat_map(Checker::lines);
        self.expectations
            .lines()
            .into_iter()
            .chain(agreed)
            .collect()
    }

    /// What became of each entry of the contract.
    #[must_use]
    pub fn agreements(&self) -> Vec<Agreement> {
        self.contract
            .as_ref()
            .map_or_else(Vec::new, Checker::agreements)
    }

    /// The exit status of a run that told so many flows.
    #[must_use]
    pub fn status(&self, flows_reported: u64) -> ExitStatus {
        let all = ExitStatus::of_trace(flows_reported, &self.expectations);
        self.contract
            .iter()
            .map(Checker::status)
            .fold(all, ExitStatus::worse)
    }
}
