//! Whether the namespace that is taken for the node can be it: srctrace may have been started in a
//! pod that has a network namespace of its own.

use super::{Inventory, Namespace};
use crate::event::NetnsId;

/// Why a namespace is hardly the node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTheNode {
    /// It is a pod of this one, which has other pods too or is that of process 1.
    PodOf(NetnsId),
    /// No pod hangs on it, and pods do on this one, which is that of process 1.
    Beside(NetnsId),
    /// No pod hangs on it, and itself it hangs on a namespace that cannot be seen from here.
    PodOfUnseen,
}

impl Inventory {
    /// Looks at who hangs on whom: a pod's default route leaves by a pair whose other end is in the
    /// node. `first` is the namespace of process 1, where that is known.
    #[must_use]
    pub fn not_the_node(&self, first: Option<NetnsId>) -> Option<NotTheNode> {
        let node = self.node?;
        let own = self.namespaces.get(&node)?;
        if first == Some(node) || self.hangs_any(node, None) {
            return None;
        }
        let is_node = |of: NetnsId| first == Some(of) || self.hangs_any(of, Some(node));
        if let Some(above) = self.hangs_on(own).find(|ns| *ns != node && is_node(*ns)) {
            return Some(NotTheNode::PodOf(above));
        }
        let beside = first.filter(|first| self.hangs_any(*first, None));
        if let Some(first) = beside {
            return Some(NotTheNode::Beside(first));
        }
        let mut ways_out = default_links(own);
        let unseen = ways_out.any(|link| link.kind == "veth" && link.peer.is_none());
        unseen.then_some(NotTheNode::PodOfUnseen)
    }

    /// The namespaces into which a namespace's default routes leave by a pair.
    pub(super) fn hangs_on(&self, ns: &Namespace) -> impl Iterator<Item = NetnsId> {
        default_links(ns).filter_map(|link| link.peer.map(|(netns, _)| netns))
    }

    /// Whether a namespace hangs on this one, another than `but`.
    fn hangs_any(&self, on: NetnsId, but: Option<NetnsId>) -> bool {
        self.namespaces
            .iter()
            .filter(|(id, _)| **id != on && Some(**id) != but)
            .any(|(_, ns)| self.hangs_on(ns).any(|above| above == on))
    }
}

fn default_links(ns: &Namespace) -> impl Iterator<Item = &super::Link> {
    ns.routes
        .iter()
        .filter(|route| route.to.prefix_len() == 0)
        .filter_map(|route| ns.links.get(&route.ifindex))
}
