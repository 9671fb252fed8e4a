//! From options to what is really looked at: names become namespaces and addresses. Nothing is
//! attached before all of it is known to be right.

use super::failure::Failure;
use crate::cli::{Dest, FromRef, NetnsRef, PodRef, PointSpec, PortRange, Resolved, TraceOptions};
use crate::kernel::Filter;
use crate::system::netns::{Discovery, Netns, discover, resolve};
use crate::system::{Roots, Scope, Survey, SystemError, pods};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use tracer_core::event::NetnsId;
use tracer_core::point::Point;
use tracer_core::trace::Wanted;

/// Everything that the arguments name, found.
pub(super) struct Plan {
    /// Where /proc and the host's files are.
    pub(super) roots: Roots,
    /// The namespace that is the node.
    pub(super) node: Netns,
    /// Namespaces that are looked at.
    pub(super) scope: Scope,
    /// Destinations with addresses, and the probe's.
    pub(super) resolved: Resolved,
    /// What the kernel half looks for.
    pub(super) filter: Filter,
}

impl Plan {
    /// The destinations that are one address each.
    pub(super) fn hosts(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let nets = self.filter.dests.iter().map(|(net, _)| net);
        nets.filter(|net| net.prefix_len() == net.max_prefix_len())
            .map(IpNet::addr)
    }

    pub(super) fn new(options: &TraceOptions) -> Result<Self, Failure> {
        let resolved = options.resolve(lookup)?;
        families_meet(options, &resolved)?;
        let roots = Roots::default();
        let known = discover(&roots);
        let node = match &options.node_netns {
            Some(given) => by_ref(&roots, &known, given)?,
            None => Netns::own(&roots)?,
        };
        let scope = scope(&roots, &known, &options.scope)?;
        let filter = filter(options, &resolved, &scope, &node);
        Ok(Self {
            roots,
            node,
            scope,
            resolved,
            filter,
        })
    }
}

/// No packet goes from an address of one family to one of the other.
fn families_meet(options: &TraceOptions, resolved: &Resolved) -> Result<(), Failure> {
    let (sources, dests) = (&options.filter.sources, &resolved.dests);
    let meet = |src: &IpNet| {
        dests
            .iter()
            .any(|d| d.net.addr().is_ipv4() == src.addr().is_ipv4())
    };
    if sources.is_empty() || dests.is_empty() || sources.iter().any(meet) {
        return Ok(());
    }
    Err(Failure::Usage(
        "--src and DEST are of different address families: no packet can match; give both as IPv4 or both as IPv6"
            .to_owned(),
    ))
}

/// Asks the system's resolver.
pub(super) fn lookup(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|addr| addr.ip()).collect())
}

pub(super) fn by_ref(
    roots: &Roots,
    known: &Discovery,
    given: &NetnsRef,
) -> Result<Netns, SystemError> {
    let text = match given {
        NetnsRef::Name(name) => name.clone(),
        NetnsRef::Pid(pid) => pid.to_string(),
        NetnsRef::Path(path) => return Netns::at(path),
    };
    resolve(roots, known, &text)
}

pub(super) fn scope(
    roots: &Roots,
    known: &Discovery,
    given: &[NetnsRef],
) -> Result<Scope, SystemError> {
    if given.is_empty() {
        return Ok(Scope::All);
    }
    let ids = given
        .iter()
        .map(|one| by_ref(roots, known, one).map(|netns| netns.id));
    Ok(Scope::Only(ids.collect::<Result<_, _>>()?))
}

fn filter(options: &TraceOptions, resolved: &Resolved, scope: &Scope, node: &Netns) -> Filter {
    let ranges = |ports: &[PortRange]| ports.iter().map(|p| (p.first, p.last)).collect();
    let scope = match scope {
        Scope::All => None,
        Scope::Only(ids) => Some(ids.iter().chain([&node.id]).map(|id| id.0).collect()),
    };
    let dest = |dest: &Dest| (dest.net, ranges(&dest.ports));
    Filter {
        dests: resolved.dests.iter().map(dest).collect(),
        sources: options.filter.sources.clone(),
        ports: ranges(&options.filter.ports),
        protos: options.filter.protos.iter().map(|p| p.0).collect(),
        scope,
        each_packet: options.output.each_packet,
    }
}

/// The namespaces and devices by which flows are picked out.
pub(super) fn wanted(
    roots: &Roots,
    survey: &Survey,
    options: &TraceOptions,
) -> Result<Wanted, Failure> {
    let mut origins = BTreeSet::new();
    for given in &options.filter.netns {
        origins.insert(by_ref(roots, survey.discovery(), given)?.id.0);
    }
    for pod in &options.filter.pods {
        origins.insert(pods::resolve_pod(roots, survey, &pod_name(pod))?.id.0);
    }
    let mut devices = BTreeSet::new();
    for name in &options.filter.interfaces {
        devices.insert(device(survey, name)?);
    }
    Ok(Wanted { origins, devices })
}

fn device(survey: &Survey, name: &str) -> Result<(u32, u32), Failure> {
    let node = survey.inventory().node.unwrap_or(NetnsId(0));
    match index_of(survey, node, name) {
        Ok(index) => Ok((node.0, index)),
        Err(near) => Err(Failure::Usage(format!(
            "-i {}: the node has no such interface{near}",
            crate::render::escape(name)
        ))),
    }
}

/// A device's index in a namespace; else what is near to its name there.
fn index_of(survey: &Survey, netns: NetnsId, name: &str) -> Result<u32, String> {
    let links = survey.inventory().namespaces.get(&netns);
    let links = || links.into_iter().flat_map(|ns| &ns.links);
    match links().find(|(_, link)| link.name == name) {
        Some((index, _)) => Ok(*index),
        None => {
            let names = links().map(|(_, link)| link.name.as_str());
            Err(crate::system::netns::near(name, names))
        }
    }
}

/// The points that were given names. Each must be there, or a slip of the pen would be told as a point
/// that saw nothing.
pub(super) fn points(
    plan: &Plan,
    survey: &Survey,
    given: &[PointSpec],
) -> Result<Vec<Point>, Failure> {
    let mut points: Vec<Point> = Vec::new();
    for spec in given {
        let wrong = |why: &str| {
            let given = crate::render::escape(&spec.text);
            Failure::Usage(format!("--point '{given}': {why}"))
        };
        let netns = match &spec.netns {
            None => plan.node.id,
            Some(from) => {
                origin(&plan.roots, survey, from)
                    .map_err(|error| wrong(&crate::render::escape(&error.to_string())))?
                    .id
            }
        };
        let inventory = survey.inventory();
        if !inventory.namespaces.contains_key(&netns) {
            return Err(wrong(
                "that namespace is not among those that are looked at; add it to --scope",
            ));
        }
        if let Err(near) = index_of(survey, netns, &spec.ifname) {
            return Err(wrong(&format!("there is no such interface{near}")));
        }
        let point = Point {
            name: spec.name.clone(),
            ifname: spec.ifname.clone(),
            netns,
            netns_name: inventory.name(netns).map(str::to_owned),
            pod: inventory
                .namespaces
                .get(&netns)
                .and_then(|ns| ns.pod.clone()),
            dir: spec.dir,
        };
        if let Some(other) = points.iter().find(|other| other.overlaps(&point)) {
            let other = crate::render::escape(&other.name);
            return Err(wrong(&format!(
                "the point {other} is there already; a device has one name, or one for each direction"
            )));
        }
        points.push(point);
    }
    Ok(points)
}

/// Where a probe starts.
pub(super) fn probe_origin(
    roots: &Roots,
    survey: &Survey,
    from: Option<&FromRef>,
) -> Result<Netns, Failure> {
    Ok(match from {
        None => Netns::own(roots)?,
        Some(from) => origin(roots, survey, from)?,
    })
}

fn origin(roots: &Roots, survey: &Survey, from: &FromRef) -> Result<Netns, SystemError> {
    match from {
        FromRef::Netns(given) => by_ref(roots, survey.discovery(), given),
        FromRef::Pod(pod) => pods::resolve_pod(roots, survey, &pod_name(pod)),
        FromRef::Name(name) => pods::resolve_origin(roots, survey, name),
    }
}

pub(super) fn pod_name(pod: &PodRef) -> String {
    match &pod.namespace {
        Some(namespace) => format!("{namespace}/{}", pod.name),
        None => pod.name.clone(),
    }
}
