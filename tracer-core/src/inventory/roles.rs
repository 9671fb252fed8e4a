//! What a namespace is to a flow: the node, a pod of this node, or something outside.
//!
//! On a real node only pods have namespaces. In labs, and on machines that simulate several
//! nodes, the far side has one too; there the routes tell who is whose gateway.

use super::{Inventory, Namespace};
use crate::event::NetnsId;
use std::net::IpAddr;

/// What a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The node itself.
    Node,
    /// A pod (or container) of this node.
    Pod,
    /// Beyond this node, though it lives on the same machine.
    External,
}

impl Inventory {
    /// The role of a namespace. One that nothing is known of is a pod's when it is not the node's:
    /// on a real node there is nothing else. With a scope it lies beyond.
    #[must_use]
    pub fn role(&self, netns: NetnsId) -> Role {
        if self.node == Some(netns) {
            return Role::Node;
        }
        let Some(ns) = self.namespaces.get(&netns) else {
            return if self.scoped {
                Role::External
            } else {
                Role::Pod
            };
        };
        if ns.pod.is_some() {
            return Role::Pod;
        }
        if self.is_gateway_of_node(netns) || !self.node_is_gateway_of(ns) {
            return Role::External;
        }
        Role::Pod
    }

    /// The node sends by way of this namespace whatever it knows no other way for. (Single networks lie
    /// behind pods too: a VPN pod's clients.)
    fn is_gateway_of_node(&self, netns: NetnsId) -> bool {
        self.node
            .and_then(|node| self.namespaces.get(&node))
            .is_some_and(|node| {
                node.routes
                    .iter()
                    .filter(|r| r.to.prefix_len() == 0)
                    .filter_map(|r| r.via)
                    .any(|via| self.owns(netns, via))
            })
    }

    /// The namespace's default route leaves by a pair whose other end is in the node.
    fn node_is_gateway_of(&self, ns: &Namespace) -> bool {
        self.hangs_on(ns).any(|above| self.node == Some(above))
    }

    /// The namespace at the other end of a pair.
    #[must_use]
    pub fn behind(&self, netns: NetnsId, ifindex: u32) -> Option<NetnsId> {
        self.link(netns, ifindex)?.peer.map(|(peer, _)| peer)
    }

    /// Whether the node owns an address.
    #[must_use]
    pub fn node_owns(&self, addr: IpAddr) -> bool {
        self.node.is_some_and(|node| self.owns(node, addr))
    }
}
