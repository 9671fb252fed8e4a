//! From options to what is really looked at: names become namespaces and addresses. Nothing is
//! attached before all of it is known to be right.

use super::failure::Failure;
use crate::cli::{Dest, FromRef, NetnsRef, PodRef, PortRange, Resolved, TraceOptions};
use crate::kernel::Filter;
use crate::system::netns::{Discovery, Netns, discover, resolve};
use crate::system::{Roots, Scope, Survey, SystemError, pods};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use tracer_core::event::NetnsId;
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

/// Commands that later versions will have: as host names they would only be waited for.
const LATER: [&str; 3] = ["map", "ladder", "handover"];

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
    if LATER.contains(&name) {
        return Err(io::Error::other("that command is not part of this version"));
    }
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
    let inventory = survey.inventory();
    let node = inventory.node.unwrap_or(NetnsId(0));
    let links = inventory.namespaces.get(&node).map(|ns| &ns.links);
    let found = links
        .into_iter()
        .flatten()
        .find(|(_, link)| link.name == name);
    match found {
        Some((index, _)) => Ok((node.0, *index)),
        None => {
            let names = links
                .into_iter()
                .flatten()
                .map(|(_, link)| link.name.as_str());
            let near = crate::system::netns::near(name, names);
            Err(Failure::Usage(format!(
                "-i {}: the node has no such interface{near}",
                crate::render::escape(name)
            )))
        }
    }
}

/// Where a probe starts.
pub(super) fn probe_origin(
    roots: &Roots,
    survey: &Survey,
    from: Option<&FromRef>,
) -> Result<Netns, Failure> {
    Ok(match from {
        None => Netns::own(roots)?,
        Some(FromRef::Netns(given)) => by_ref(roots, survey.discovery(), given)?,
        Some(FromRef::Pod(pod)) => pods::resolve_pod(roots, survey, &pod_name(pod))?,
        Some(FromRef::Name(name)) => pods::resolve_origin(roots, survey, name)?,
    })
}

pub(super) fn pod_name(pod: &PodRef) -> String {
    match &pod.namespace {
        Some(namespace) => format!("{namespace}/{}", pod.name),
        None => pod.name.clone(),
    }
}
