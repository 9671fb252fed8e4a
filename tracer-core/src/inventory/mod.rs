//! What this host looks like: namespaces, devices, addresses, routes, pods. Pure values; the
//! system room fills them in.

mod bridge;
mod facts;
mod gateway;
mod node;
mod range;
mod roles;
mod routes;
mod tunnel;

pub use bridge::{BrNetfilter, Handing, HandsOver};
pub use facts::{
    Attached, ConntrackCounts, Facts, Inquiry, PolicyRule, Refusal, RouteAnswer, RouteQuestion,
    answers_way,
};
pub use gateway::{Gateway, Sign};
pub use node::NotTheNode;
pub use range::{PodRange, RangeKnown};
pub use roles::Role;
pub use tunnel::{Carrier, Holder, Proof, Tunnel};

use crate::event::NetnsId;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The host's name in reports.
    pub host: String,
    /// The namespace that is "the node".
    pub node: Option<NetnsId>,
    /// Whether only some namespaces are looked at: then one that is not found here lies beyond.
    pub scoped: bool,
    /// Every namespace that was found. Those that vanished stay for a while, so that flows which
    /// end after their pod can still be named.
    pub namespaces: BTreeMap<NetnsId, Namespace>,
    /// Those that vanished and whose number another has now, for as long.
    pub replaced: BTreeMap<NetnsId, Former>,
    /// cgroups (v2) by id, as far as sighted processes live in them.
    pub cgroups: BTreeMap<u64, Cgroup>,
    /// What was asked of namespaces in which packets died.
    pub facts: BTreeMap<NetnsId, Facts>,
}

/// A namespace whose number another has now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// What it was.
    pub namespace: Namespace,
    /// When it was gone already and the other not yet there, CLOCK_MONOTONIC nanoseconds; `None` where
    /// both happened between two looks.
    pub gone_ns: Option<u64>,
}

/// A control group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// Its path below the cgroup file system's root.
    pub path: String,
    /// `namespace/name` of the pod it belongs to.
    pub pod: Option<String>,
    /// The id of the container whose processes it holds, as its runtime names it: 64 hexadecimal digits.
    #[serde(default)]
    pub container: Option<String>,
}

/// One network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name: from /run/netns, a CNI, or a process in it.
    pub name: Option<String>,
    /// `namespace/name` of the pod it belongs to.
    pub pod: Option<String>,
    /// Its devices by index.
    pub links: BTreeMap<u32, Link>,
    /// Its routes (main table), as far as roles and hints need them.
    pub routes: Vec<Route>,
    /// `net.ipv4.ip_forward` there.
    pub forwards: Option<bool>,
    /// `net.ipv6.conf.all.forwarding` there; `None` also where some devices forward all the same (`force_forwarding`, 6.17).
    #[serde(default)]
    pub forwards_v6: Option<bool>,
    /// Whether br_netfilter is at work there.
    #[serde(default)]
    pub br_netfilter: BrNetfilter,
}

impl Namespace {
    /// Whether it forwards packets of that family; `None`: not known.
    #[must_use]
    pub fn forwards(&self, v4: bool) -> Option<bool> {
        if v4 { self.forwards } else { self.forwards_v6 }
    }

    /// Whether it is known to forward packets of either family.
    #[must_use]
    pub fn is_forwarding(&self) -> bool {
        [true, false]
            .map(|v4| self.forwards(v4))
            .contains(&Some(true))
    }
}

/// The device on which kube-proxy's IPVS mode puts the addresses of Services.
pub const IPVS_DEVICE: &str = "kube-ipvs0";

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Name.
    pub name: String,
    /// Kind as `ip -d link` prints it: veth, bridge, vlan, bond, tun, vxlan, …; empty for hardware.
    pub kind: String,
    /// The other end of a veth or netkit pair.
    pub peer: Option<(NetnsId, u32)>,
    /// The device below: of a VLAN, macvlan or tunnel, in the same namespace.
    pub lower: Option<u32>,
    /// The bridge or bond it belongs to.
    pub master: Option<u32>,
    /// Of a bridge: which packets it asks br_netfilter to hand over by itself (`nf_call_…` of `ip -d link`).
    #[serde(default)]
    pub handing: Option<Handing>,
    /// Addresses.
    pub addrs: Vec<IpNet>,
    /// Maximum transmission unit, bytes.
    pub mtu: u32,
    /// Whether it is loopback.
    pub loopback: bool,
    /// Whether it is up.
    pub up: bool,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Where to; `0.0.0.0/0` or `::/0` for the default route.
    pub to: IpNet,
    /// Next hop, if not on the link.
    pub via: Option<IpAddr>,
    /// Out device.
    pub ifindex: u32,
}

impl Namespace {
    /// Whether this one looks like what another has taken the place of: the same pod, or a pod of
    /// the same set, or an address that both have.
    #[must_use]
    pub fn is_predecessor_of(&self, other: &Self) -> bool {
        let set = |pod: &str| pod.rsplit_once('-').map_or(pod, |(set, _)| set).to_owned();
        let same_set = match (&self.pod, &other.pod) {
            (Some(a), Some(b)) => set(a) == set(b),
            _ => false,
        };
        let addresses = |ns: &Self| -> Vec<IpNet> {
            let links = ns.links.values().filter(|l| !l.loopback);
            let all = links.flat_map(|l| l.addrs.iter().copied());
            all.filter(|n| !is_link_local(n.addr())).collect()
        };
        let own = addresses(self);
        same_set || addresses(other).iter().any(|net| own.contains(net))
    }
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

impl Inventory {
    /// The host as a flow that began at this moment (CLOCK_MONOTONIC) found it: the numbers of namespaces
    /// are given again, and then mean what had them at that time.
    #[must_use]
    pub fn as_of(&self, time_ns: u64) -> Cow<'_, Self> {
        let was_there = |former: &Former| former.gone_ns.is_some_and(|gone| time_ns < gone);
        let mut then = Cow::Borrowed(self);
        for (id, former) in self.replaced.iter().filter(|(_, f)| was_there(f)) {
            let then = then.to_mut();
            then.replaced.remove(id);
            then.namespaces.insert(*id, former.namespace.clone());
        }
        then
    }

    /// What people call a namespace: by its pod, else by its own name.
    #[must_use]
    pub fn called(&self, netns: NetnsId) -> Option<&str> {
        let ns = self.namespaces.get(&netns)?;
        ns.pod.as_deref().or(ns.name.as_deref())
    }

    /// A device by namespace and index.
    #[must_use]
    pub fn link(&self, netns: NetnsId, ifindex: u32) -> Option<&Link> {
        self.namespaces.get(&netns)?.links.get(&ifindex)
    }

    /// The device at the other end of a pair.
    #[must_use]
    pub fn peer(&self, netns: NetnsId, ifindex: u32) -> Option<(NetnsId, u32)> {
        self.link(netns, ifindex)?.peer
    }

    /// The pod with this address that is connected to a namespace by a pair, if it is exactly one.
    #[must_use]
    pub fn pod_behind(&self, netns: NetnsId, addr: IpAddr) -> Option<NetnsId> {
        let mut pods = self.namespaces.iter().filter(|(pod, namespace)| {
            let mut peers = namespace.links.values().filter_map(|l| l.peer);
            peers.any(|(peer, _)| peer == netns)
                && self.owns(**pod, addr)
                && self.role(**pod) == Role::Pod
        });
        let (pod, _) = pods.next()?;
        pods.next().is_none().then_some(*pod)
    }

    /// A namespace's name, `None` where nothing is known of it.
    #[must_use]
    pub fn name(&self, netns: NetnsId) -> Option<&str> {
        self.namespaces.get(&netns)?.name.as_deref()
    }

    /// Whether an address is one of the namespace's own.
    #[must_use]
    pub fn owns(&self, netns: NetnsId, addr: IpAddr) -> bool {
        self.namespaces.get(&netns).is_some_and(|ns| {
            ns.links
                .values()
                .flat_map(|l| &l.addrs)
                .any(|n| n.addr() == addr)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pods that had one number, one after the other.
    #[test]
    fn a_number_means_what_had_it_when_the_flow_began() {
        let id = NetnsId(7);
        let called = |name: &str| Namespace {
            name: Some(name.to_owned()),
            ..Namespace::default()
        };
        let former = |gone_ns| Former {
            namespace: called("old"),
            gone_ns,
        };
        let mut inventory = Inventory {
            namespaces: BTreeMap::from([(id, called("new"))]),
            replaced: BTreeMap::from([(id, former(Some(50)))]),
            ..Inventory::default()
        };
        let name = |inventory: &Inventory, at| inventory.as_of(at).name(id).map(str::to_owned);
        assert_eq!(name(&inventory, 49).as_deref(), Some("old"));
        assert_eq!(name(&inventory, 50).as_deref(), Some("new"));
        assert!(matches!(inventory.as_of(50), Cow::Borrowed(_)));
        inventory.replaced.insert(id, former(None));
        assert_eq!(name(&inventory, 49).as_deref(), Some("new"));
    }
}
