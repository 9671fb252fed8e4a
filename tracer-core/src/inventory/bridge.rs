//! Bridges, and whether what they send from port to port is shown to the rules of IP.

use super::{Inventory, Link};
use crate::event::NetnsId;
use serde::{Deserialize, Serialize};

/// What br_netfilter does in a namespace, which hands packets from one port of a bridge to another to the rules of IP
/// (net/bridge/br_netfilter_hooks.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BrNetfilter {
    /// Not told.
    #[default]
    Unknown,
    /// It is not loaded: no packet is handed over, whatever a bridge asks for.
    Absent,
    /// It is loaded; of all bridges of the namespace (`net.bridge.bridge-nf-call-…`) so.
    Loaded(Handing),
}

/// Which packets are handed to the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handing {
    /// IPv4: `nf_call_iptables`.
    pub ipv4: bool,
    /// IPv6: `nf_call_ip6tables`.
    pub ipv6: bool,
}

impl Handing {
    /// Whether a family's packets are.
    #[must_use]
    pub fn of(self, ipv4: bool) -> bool {
        if ipv4 { self.ipv4 } else { self.ipv6 }
    }
}

/// Who asks for a bridge's packets to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandsOver {
    /// Nobody.
    No,
    /// The namespace, for all its bridges.
    ByNamespace,
    /// The bridge.
    ByBridge,
}

impl HandsOver {
    /// Whether they are shown.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::No
    }
}

impl Inventory {
    /// The bridge of which both devices are ports.
    #[must_use]
    pub fn bridge_of(&self, netns: NetnsId, ports: [u32; 2]) -> Option<(u32, &Link)> {
        let [one, other] = ports.map(|port| self.link(netns, port)?.master);
        let bridge = one.filter(|bridge| other == Some(*bridge))?;
        let link = self.link(netns, bridge)?;
        (link.kind == "bridge").then_some((bridge, link))
    }

    /// Whether a bridge's packets from port to port are shown to the rules of IP: where the namespace or the bridge asks for
    /// it (net/bridge/br_netfilter_hooks.c, `br_nf_pre_routing`). `None`: not known.
    #[must_use]
    pub fn hands_over(&self, netns: NetnsId, bridge: u32, ipv4: bool) -> Option<HandsOver> {
        match self.namespaces.get(&netns)?.br_netfilter {
            BrNetfilter::Unknown => None,
            BrNetfilter::Absent => Some(HandsOver::No),
            BrNetfilter::Loaded(all) if all.of(ipv4) => Some(HandsOver::ByNamespace),
            BrNetfilter::Loaded(_) => match self.link(netns, bridge)?.handing {
                Some(own) if own.of(ipv4) => Some(HandsOver::ByBridge),
                _ => Some(HandsOver::No),
            },
        }
    }
}
