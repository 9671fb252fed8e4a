//! Namespaces that the trace is about and that went away while it ran, as a gateway pod does that is
//! rescheduled. What takes its place on this machine is followed like everything else; where nothing
//! does, the rest of the story is told on another node, and that must be said.

use crate::render::escape;
use crate::sink;
use crate::system::Delta;
use std::collections::{BTreeMap, BTreeSet};
use tracer_core::event::{Dir, NetnsId};
use tracer_core::inventory::{Inventory, Namespace};
use tracer_core::point::Point;
use tracer_core::report::{Flow, Unavailable};

/// Most namespaces that are remembered.
const MOST: usize = 4096;

/// What is needed, and what of all went.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Namespaces of points, and gateways that flows went through.
    needed: BTreeSet<NetnsId>,
    went: BTreeMap<NetnsId, Namespace>,
}

impl Gone {
    /// Nothing went yet; these are needed.
    pub(super) fn new(points: &[Point]) -> Self {
        Self {
            needed: points.iter().map(|point| point.netns).collect(),
            went: BTreeMap::new(),
        }
    }

    /// A flow is told: what it was forwarded by, beside the node, is needed.
    pub(super) fn told(&mut self, flow: &Flow, node: Option<NetnsId>) {
        for into in flow.hops.iter().filter(|hop| hop.dir == Dir::Ingress) {
            let mut out = flow.hops.iter().filter(|hop| hop.dir == Dir::Egress);
            let Some(netns) = into
                .netns
                .filter(|_| out.any(|hop| hop.netns == into.netns))
            else {
                continue;
            };
            if node != Some(NetnsId(netns)) && self.needed.len() < MOST {
                self.needed.insert(NetnsId(netns));
            }
        }
    }

    /// Namespaces came and went: what is needed of them is said.
    pub(super) fn changed(&mut self, delta: &Delta, inventory: &Inventory) {
        for id in &delta.removed {
            let Some(namespace) = inventory.namespaces.get(id) else {
                continue;
            };
            if self.went.len() < MOST {
                self.went.insert(*id, namespace.clone());
            }
            if self.needed.contains(id) {
                let name = name(*id, namespace);
                note(&format!(
                    "{name} went away; what takes its place here is followed"
                ));
            }
        }
        for id in &delta.added {
            let former = self
                .went
                .iter()
                .filter(|(old, _)| self.needed.contains(old));
            let mut former = former.filter(|(_, was)| succeeds(*id, was, inventory));
            if let (Some((old, was)), Some(new)) = (former.next(), inventory.namespaces.get(id)) {
                let (old, new) = (name(*old, was), name(*id, new));
                let said = match old == new {
                    true => format!("{new} is there again, in a new network namespace"),
                    false => format!("{new} has taken the place of {old}"),
                };
                note(&said);
            }
        }
    }

    /// What is needed, went, and has no successor here: told by its absence from now on.
    pub(super) fn missing(
        &self,
        here: impl Fn(NetnsId) -> bool,
        inventory: &Inventory,
    ) -> Vec<Unavailable> {
        let former = inventory.replaced.iter();
        let former = former.map(|(id, former)| (id, &former.namespace));
        let went: BTreeMap<&NetnsId, &Namespace> = former.chain(&self.went).collect();
        let needed = went.into_iter().filter(|(id, _)| self.needed.contains(id));
        let missing = needed.filter(|(_, was)| {
            let mut others = inventory.namespaces.keys().filter(|id| here(**id));
            !others.any(|id| succeeds(*id, was, inventory))
        });
        let looked_at = match inventory.scoped {
            true => "that is looked at (--scope)",
            false => "here",
        };
        missing
            .map(|(id, was)| Unavailable {
                what: name(*id, was),
                why: format!(
                    "its network namespace went away while the trace ran, and nothing {looked_at} took its place: it \
                     was deleted, or rescheduled to another node"
                ),
                effect: "what goes through it from then on is not seen here; trace on the node that it is on now"
                    .to_owned(),
            })
            .collect()
    }
}

/// Whether a namespace has taken the place of one that went.
fn succeeds(id: NetnsId, was: &Namespace, inventory: &Inventory) -> bool {
    inventory.namespaces.get(&id).is_some_and(|now| {
        let same_name = was.name.is_some() && was.name == now.name;
        same_name || was.is_predecessor_of(now)
    })
}

fn name(id: NetnsId, namespace: &Namespace) -> String {
    let name = namespace.pod.clone().or_else(|| namespace.name.clone());
    name.unwrap_or_else(|| format!("netns {}", id.0))
}

fn note(line: &str) {
    sink::note(&format!("srctrace: {}\n", escape(line)));
}
