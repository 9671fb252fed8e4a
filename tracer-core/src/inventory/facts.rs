//! What a namespace's settings and tables said when a drop there was looked into: asked then and
//! there, because a pod's namespace may be gone a moment later.

use super::Tunnel;
use crate::event::{Dir, NetnsId};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The answers of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Settings below `net.` by their names as sysctl(8) prints them: `ipv4.ip_forward`,
    /// `ipv4.conf.eth0.rp_filter`.
    pub settings: BTreeMap<String, i64>,
    /// What the kernel said when it was asked for routes.
    pub routes: BTreeMap<RouteQuestion, RouteAnswer>,
    /// State of neighbours, by device and address: `FAILED`, `INCOMPLETE`, `REACHABLE`, …
    pub neighbours: BTreeMap<(u32, IpAddr), String>,
    /// Conntrack's own counts, where it is loaded.
    pub conntrack: Option<ConntrackCounts>,
    /// Programs and other filters that can drop on a device's side, in their order.
    pub programs: BTreeMap<(u32, Dir), Vec<Attached>>,
    /// Programs that can drop packets from (egress) and to (ingress) the sockets of a cgroup, by its id:
    /// its own and its parents', in their order.
    pub cgroups: BTreeMap<(u64, Dir), Vec<Attached>>,
    /// Tunnels that processes speak, by their devices.
    #[serde(default)]
    pub tunnels: BTreeMap<u32, Tunnel>,
    /// Rules of policy routing that are about sources, in their order.
    #[serde(default)]
    pub policies: Vec<PolicyRule>,
}

/// A rule of policy routing (`ip rule`) that is about a source, and asks for nothing but addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRule {
    /// Its place in the order.
    pub priority: u32,
    /// Sources that it is for.
    pub from: IpNet,
    /// Destinations, where it names some.
    pub to: Option<IpNet>,
    /// The routing table that it leads to.
    pub table: u32,
}

impl PolicyRule {
    /// As `ip rule` prints it: `111: from 10.77.1.10 to 10.50.0.0/16 lookup 42`.
    #[must_use]
    pub fn words(&self) -> String {
        let to = self.to.map_or_else(String::new, |to| format!(" to {to}"));
        let Self {
            priority,
            from,
            table,
            ..
        } = self;
        format!("{priority}: from {from}{to} lookup {table}")
    }
}

/// A question to the kernel: which way would it send this?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RouteQuestion {
    /// To where.
    pub dst: IpAddr,
    /// For a packet that came in: its source and device. `None`: for the namespace's own.
    pub came: Option<(IpAddr, u32)>,
}

/// What the kernel would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteAnswer {
    /// Send it.
    Out {
        /// Next hop, if not on the link.
        via: Option<IpAddr>,
        /// By this device.
        ifindex: u32,
    },
    /// Deliver it here.
    Local,
    /// Refuse it.
    Refused(Refusal),
}

/// How a route, or its absence, refuses a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// No route.
    NoRoute,
    /// A route (or rule) of type unreachable; or forwarding is off.
    Unreachable,
    /// A route (or rule) of type prohibit.
    Prohibited,
    /// A route (or rule) of type blackhole.
    Blackhole,
    /// The source may not come in there (reverse-path check).
    ReversePath,
}

/// Conntrack's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConntrackCounts {
    /// Entries in this namespace.
    pub count: u64,
    /// Most entries.
    pub max: u64,
    /// Entries that could not be confirmed because their tuple was taken.
    pub insert_failed: u64,
    /// Packets dropped because no entry could be made.
    pub drop: u64,
}

/// Something that is attached to a device or a cgroup and can drop or rewrite packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// `tcx`, `bpf` (a cls_bpf filter), `xdp` (in the driver), `xdpgeneric`, `netkit`, `u32`, `matchall`, `cgroup`, …
    pub kind: String,
    /// A program's id.
    pub id: Option<u32>,
    /// A program's name.
    pub name: Option<String>,
    /// Whether packets meet it before our own program on that side; `None` where that cannot be
    /// told, or there is none of ours.
    pub before_ours: Option<bool>,
}

impl Attached {
    /// An XDP program.
    #[must_use]
    pub fn is_xdp(&self) -> bool {
        self.kind.starts_with("xdp")
    }

    /// An XDP program that runs in the driver, before there is a packet buffer.
    #[must_use]
    pub fn is_driver_xdp(&self) -> bool {
        self.kind == "xdp"
    }

    /// A BPF program, not one of traffic control's own filters.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.is_xdp() || matches!(self.kind.as_str(), "tcx" | "bpf" | "netkit")
    }

    /// In words: `tcx program web (id 7)`, `a flower filter`.
    #[must_use]
    pub fn words(&self) -> String {
        match (&self.name, self.id) {
            (Some(name), Some(id)) => format!("{} program {name} (id {id})", self.kind),
            (None, Some(id)) => format!("{} program (id {id})", self.kind),
            _ => format!("a {} filter", self.kind),
        }
    }
}

impl Facts {
    /// A setting, by its name below `net.`.
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<i64> {
        self.settings.get(name).copied()
    }

    /// The larger of a setting for all devices and for one: how the kernel joins `rp_filter`,
    /// `accept_local` and `route_localnet`. `family`: `ipv4` or `ipv6`.
    #[must_use]
    pub fn effective(&self, family: &str, device: &str, setting: &str) -> Option<i64> {
        let of = |who: &str| self.setting(&format!("{family}.conf.{who}.{setting}"));
        of("all").into_iter().chain(of(device)).max()
    }

    /// What a route question was answered with.
    #[must_use]
    pub fn route(&self, dst: IpAddr, came: Option<(IpAddr, u32)>) -> Option<RouteAnswer> {
        self.routes.get(&RouteQuestion { dst, came }).copied()
    }

    /// Takes in later answers.
    pub fn absorb(&mut self, later: Self) {
        self.settings.extend(later.settings);
        self.routes.extend(later.routes);
        self.neighbours.extend(later.neighbours);
        self.conntrack = later.conntrack.or(self.conntrack);
        self.programs.extend(later.programs);
        self.cgroups.extend(later.cgroups);
        self.tunnels.extend(later.tunnels);
        if !later.policies.is_empty() {
            self.policies = later.policies;
        }
    }
}

/// The question which way an answer from `dst`, which lies beyond a namespace with these `routes`, to
/// `src` would take: as a packet that comes in by the device that leads to `dst`.
#[must_use]
pub fn answers_way(
    routes: &BTreeMap<RouteQuestion, RouteAnswer>,
    dst: IpAddr,
    src: IpAddr,
) -> Option<RouteQuestion> {
    let came = |answer: &RouteAnswer| match answer {
        RouteAnswer::Out { ifindex, .. } => Some((dst, *ifindex)),
        _ => None,
    };
    let came = came(routes.get(&RouteQuestion { dst, came: None })?)?;
    Some(RouteQuestion {
        dst: src,
        came: Some(came),
    })
}

/// What is asked of a namespace because a packet died in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inquiry {
    /// Where.
    pub netns: NetnsId,
    /// The device that the packet's buffer named.
    pub ifindex: Option<u32>,
    /// Its source.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// The cgroup of the socket that sent it, or that it was for.
    pub cgroup: Option<u64>,
}
