//! One short visit to a namespace in which a packet died: what its settings and tables say now.

use super::netlink::Netlink;
use super::netns::{Netns, visit};
use super::tc::Tc;
use super::{SystemError, route};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage, LinkXdp};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::ops::ControlFlow;
use tracer_core::event::Dir;
use tracer_core::inventory::{
    Attached, ConntrackCounts, Facts, Inquiry, RouteQuestion, answers_way,
};

/// Most neighbours that are remembered of one namespace.
const NEIGHBOURS: usize = 1024;
/// Settings of the whole namespace, below `/proc/sys/net`.
const WHOLE: [&str; 7] = [
    "ipv4/ip_forward",
    "ipv6/conf/all/forwarding",
    "bridge/bridge-nf-call-iptables",
    "bridge/bridge-nf-call-ip6tables",
    "netfilter/nf_conntrack_tcp_be_liberal",
    "netfilter/nf_conntrack_tcp_loose",
    "ipv4/fib_multipath_hash_policy",
];
/// Settings of a device, and of `all`.
const DEVICE: [&str; 5] = [
    "forwarding",
    "rp_filter",
    "accept_local",
    "route_localnet",
    "log_martians",
];

/// Asks a namespace about packets that died in it, all of them its own. `devices`: names of the
/// devices that they met, by index.
///
/// # Errors
/// When the namespace is gone or may not be entered. What it does not tell is left out.
pub fn facts(
    netns: &Netns,
    inquiries: &[Inquiry],
    devices: &BTreeMap<u32, String>,
) -> Result<Facts, SystemError> {
    visit(netns, || {
        let mut socket = Netlink::open()?;
        Ok(Facts {
            settings: settings(devices),
            routes: routes(&mut socket, inquiries),
            neighbours: neighbours(&mut socket),
            conntrack: conntrack(),
            programs: list_programs(&mut socket, devices.keys().copied()),
            cgroups: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            policies: Vec::new(),
        })
    })
}

/// Filters of traffic control and XDP programs on devices of a namespace. (tcx links are the kernel
/// room's to list.)
///
/// # Errors
/// When the namespace is gone or may not be entered.
pub fn programs(
    netns: &Netns,
    devices: impl IntoIterator<Item = u32> + Send,
) -> Result<BTreeMap<(u32, Dir), Vec<Attached>>, SystemError> {
    visit(netns, || {
        let mut socket = Netlink::open()?;
        Ok(list_programs(&mut socket, devices))
    })
}

fn settings(devices: &BTreeMap<u32, String>) -> BTreeMap<String, i64> {
    let whole = WHOLE.iter().map(|path| (*path).to_owned());
    // A device's name cannot hold a slash, but may be a path step up.
    let names = devices.values().map(String::as_str);
    let names = names
        .filter(|name| !matches!(*name, "." | ".."))
        .chain(["all"]);
    let own = names.flat_map(|name| {
        DEVICE.iter().flat_map(move |setting| {
            ["ipv4", "ipv6"].map(|family| format!("{family}/conf/{name}/{setting}"))
        })
    });
    whole.chain(own).filter_map(setting).collect()
}

/// A setting by its path, under its name. (sysctl(8) writes a dot in a device's name as a slash;
/// so it can be read back.)
fn setting(path: String) -> Option<(String, i64)> {
    let text = fs::read_to_string(format!("/proc/sys/net/{path}")).ok()?;
    Some((path.replace('/', "."), text.trim().parse().ok()?))
}

fn routes(
    socket: &mut Netlink,
    inquiries: &[Inquiry],
) -> BTreeMap<RouteQuestion, tracer_core::inventory::RouteAnswer> {
    let questions = inquiries.iter().flat_map(|one| {
        let came = one.ifindex.map(|dev| (one.src, dev));
        [(one.dst, None), (one.src, None), (one.dst, came)]
            .map(|(dst, came)| RouteQuestion { dst, came })
    });
    let mut found: BTreeMap<_, _> = questions
        .filter_map(|question| Some((question, route::answer(socket, question)?)))
        .collect();
    for one in inquiries {
        if let Some(question) = answers_way(&found, one.dst, one.src)
            && let Some(answer) = route::answer(socket, question)
        {
            found.insert(question, answer);
        }
    }
    found
}

fn neighbours(socket: &mut Netlink) -> BTreeMap<(u32, IpAddr), String> {
    let mut found = BTreeMap::new();
    let question = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    let asked = socket.dump(question, |answer| {
        if let RouteNetlinkMessage::NewNeighbour(message) = answer {
            found.extend(neighbour(&message));
        }
        match found.len() {
            NEIGHBOURS.. => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    drop(asked); // what came before a refusal counts
    found
}

fn neighbour(message: &NeighbourMessage) -> Option<((u32, IpAddr), String)> {
    let addr = message.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(addr)) => Some((*addr).into()),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(addr)) => Some((*addr).into()),
        _ => None,
    })?;
    let state = match message.header.state {
        NeighbourState::Incomplete => "INCOMPLETE",
        NeighbourState::Reachable => "REACHABLE",
        NeighbourState::Stale => "STALE",
        NeighbourState::Delay => "DELAY",
        NeighbourState::Probe => "PROBE",
        NeighbourState::Failed => "FAILED",
        NeighbourState::Noarp => "NOARP",
        NeighbourState::Permanent => "PERMANENT",
        _ => return None,
    };
    Some(((message.header.ifindex, addr), state.to_owned()))
}

fn conntrack() -> Option<ConntrackCounts> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/netfilter/{name}")).ok()?;
        text.trim().parse().ok()
    };
    let table = fs::read_to_string("/proc/thread-self/net/stat/nf_conntrack").unwrap_or_default();
    Some(ConntrackCounts {
        count: number("nf_conntrack_count")?,
        max: number("nf_conntrack_max")?,
        insert_failed: column(&table, "insert_failed"),
        drop: column(&table, "drop"),
    })
}

/// The sum of a column of a table with a line of names and a line of hexadecimal numbers for each
/// processor.
fn column(table: &str, name: &str) -> u64 {
    let mut lines = table.lines();
    let names = lines.next().unwrap_or_default();
    let Some(at) = names.split_whitespace().position(|n| n == name) else {
        return 0;
    };
    lines
        .filter_map(|line| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok())
        .sum()
}

/// Filters of traffic control and XDP programs. (tcx links and cgroups' programs are the kernel room's to list.)
fn list_programs(
    socket: &mut Netlink,
    devices: impl IntoIterator<Item = u32>,
) -> BTreeMap<(u32, Dir), Vec<Attached>> {
    let mut found: BTreeMap<(u32, Dir), Vec<Attached>> = BTreeMap::new();
    for index in devices {
        for dir in [Dir::Ingress, Dir::Egress] {
            let filters = Tc::open().and_then(|mut tc| {
                tc.filters(index, dir).map_err(|e| {
                    SystemError::os("list the filters of", format!("device {index}"), e)
                })
            });
            let filters = filters.unwrap_or_default();
            let attached = filters
                .into_iter()
                .filter(|f| f.handle != 0)
                .map(|f| Attached {
                    kind: f.kind,
                    id: f.program,
                    name: f.name,
                    before_ours: None,
                });
            found.entry((index, dir)).or_default().extend(attached);
        }
        let came_in = found.entry((index, Dir::Ingress)).or_default();
        came_in.extend(xdp(socket, index));
    }
    found
}

/// A device may have one program in its driver and one behind it.
fn xdp(socket: &mut Netlink, index: u32) -> Vec<Attached> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    let answer = socket.get(RouteNetlinkMessage::GetLink(question));
    let Ok(Some(RouteNetlinkMessage::NewLink(message))) = answer else {
        return Vec::new();
    };
    let all = message.attributes.iter().filter_map(|a| match a {
        LinkAttribute::Xdp(xdp) => Some(xdp),
        _ => None,
    });
    all.flatten()
        .filter_map(|xdp| match xdp {
            LinkXdp::DrvProgId(id) | LinkXdp::HwProgId(id) => Some(("xdp", *id)),
            LinkXdp::SkbProgId(id) => Some(("xdpgeneric", *id)),
            _ => None,
        })
        .map(|(kind, id)| Attached {
            kind: kind.to_owned(),
            id: Some(id),
            ..Attached::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::TestNetns;
    use tracer_core::inventory::{Refusal, RouteAnswer};

    #[test]
    fn conntracks_counters_are_summed_over_processors() {
        let table = "entries  searched found insert_failed drop\n\
                     00000003  00000000 00000000 0000000a 00000001\n\
                     00000003  00000000 00000000 00000002 00000000\n";
        assert_eq!(
            (column(table, "insert_failed"), column(table, "drop")),
            (12, 1)
        );
        assert_eq!(column(table, "early_drop"), 0);
    }

    #[test]
    fn a_namespace_tells_its_settings_routes_and_neighbours() {
        let here = TestNetns::new("facts");
        let there = TestNetns::new("facts-peer");
        here.tie("eth0", &there, "eth0");
        here.ip("link set lo up");
        here.ip("addr add 10.66.0.2/24 dev eth0");
        here.ip("route add blackhole 10.1.0.0/16");
        here.ip("neigh add 10.66.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent");
        let path = format!("/run/netns/{}", here.0);
        let netns = Netns::at(std::path::Path::new(&path)).unwrap();
        let addr = |text: &str| text.parse::<IpAddr>().unwrap();
        let inquiry = |dst: &str| Inquiry {
            netns: netns.id,
            ifindex: None,
            src: addr("10.66.0.9"),
            dst: addr(dst),
            cgroup: None,
        };
        let devices = BTreeMap::from([(1, "lo".to_owned())]);
        let asked = [inquiry("10.1.2.3"), inquiry("10.99.0.1")];
        let facts = facts(&netns, &asked, &devices).unwrap();
        let refused = |refusal| Some(RouteAnswer::Refused(refusal));
        assert_eq!(
            facts.route(addr("10.1.2.3"), None),
            refused(Refusal::Blackhole)
        );
        assert_eq!(
            facts.route(addr("10.99.0.1"), None),
            refused(Refusal::NoRoute)
        );
        assert!(matches!(
            facts.route(addr("10.66.0.9"), None),
            Some(RouteAnswer::Out { via: None, .. })
        ));
        assert!(facts.setting("ipv4.conf.lo.rp_filter").is_some());
        assert!(facts.effective("ipv4", "lo", "rp_filter").is_some());
        let mut states = facts.neighbours.iter();
        let known = states.find(|((_, a), _)| *a == addr("10.66.0.9"));
        assert_eq!(known.map(|(_, state)| state.as_str()), Some("PERMANENT"));
    }
}
