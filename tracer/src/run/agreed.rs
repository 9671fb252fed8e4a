//! `--contract`: the file read, its entries probed, and a recording or report held against it.

use super::failure::Failure;
use super::plan::{self, Plan};
use super::probe::Probe;
use super::tell::Teller;
use super::{doctor, given};
use crate::cli::{AgreedOptions, ProbeKind, ReviewOptions, TraceOptions};
use crate::render::escape;
use crate::sink;
use crate::system::Survey;
use crate::system::netns::Netns;
use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use tracer_core::contract::{Checker, Contract, MAX_BYTES, Sender, Terms};
use tracer_core::event::NetnsId;
use tracer_core::expect::{ExitStatus, Nodes};
use tracer_core::group::Groups;
use tracer_core::packet::Proto;
use tracer_core::report::{Flows, Summary};

/// Reads a contract.
fn read(path: &Path) -> Result<Contract, Failure> {
    let wrong = |why: &str| {
        let line = format!("{}: {why}", path.display());
        Failure::Usage(escape(&line).into_owned())
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no text (UTF-8)"))?;
    text.parse().map_err(|bad| wrong(&format!("{bad}")))
}

/// The options with what their contract asks for, where they have one.
pub(super) fn of(options: &TraceOptions) -> Result<Option<TraceOptions>, Failure> {
    let Some(agreed) = &options.agreed else {
        return Ok(None);
    };
    let contract = read(&agreed.file)?;
    Ok(Some(options.with_contract(contract)))
}

/// One request for each entry that can be probed from here; of the others is said why not.
pub(super) fn probes(
    options: &TraceOptions,
    plan: &Plan,
    survey: &Survey,
) -> Result<Vec<Probe>, Failure> {
    let (Some(agreed), Some(contract)) = (&options.agreed, &options.check.contract) else {
        return Ok(Vec::new());
    };
    let from = given_origin(agreed, plan, survey)?;
    let mut probes = Vec::new();
    for terms in &contract.terms {
        let request = target(terms);
        let origin = request.and_then(|to| Ok((to, origin(terms, from.as_ref(), survey)?)));
        match origin {
            Ok(((kind, to), origin)) => probes.push(Probe::new(origin, kind, to, survey)),
            Err(why) => sink::note(&format!(
                "srctrace: {}: line {}: to {} nothing is sent: {why}\n",
                escape(&agreed.file.display().to_string()),
                terms.line,
                terms.dest
            )),
        }
    }
    Ok(probes)
}

fn given_origin(
    agreed: &AgreedOptions,
    plan: &Plan,
    survey: &Survey,
) -> Result<Option<Netns>, Failure> {
    let Some(from) = &agreed.from else {
        return Ok(None);
    };
    plan::probe_origin(&plan.roots, survey, Some(from)).map(Some)
}

/// What is sent, and where to.
type Target = (ProbeKind, (IpAddr, Option<u16>));

fn target(terms: &Terms) -> Result<Target, &'static str> {
    let Some((addr, port)) = terms.probed() else {
        return Err(
            "a probe goes to one address: name one of the prefix (probe = \"10.30.0.10:443\")",
        );
    };
    let kind = match (terms.proto, port) {
        (None, None) => ProbeKind::Icmp,
        (Some(proto), _) if proto.is_icmp() => ProbeKind::Icmp,
        (Some(_), None) => return Err("the entry has no port"),
        (None | Some(Proto::TCP), Some(_)) => ProbeKind::Tcp,
        (Some(Proto::UDP), Some(_)) => ProbeKind::Udp,
        (Some(_), Some(_)) => return Err("only TCP, UDP and ICMP can be probed"),
    };
    Ok((kind, (addr, port)))
}

/// Where an entry's request starts: as given, else where the first of its senders lives here.
fn origin(terms: &Terms, given: Option<&Netns>, survey: &Survey) -> Result<Netns, &'static str> {
    let from = &terms.from;
    let is_named = |id: NetnsId| {
        let inventory = survey.inventory();
        let Some(namespace) = inventory.namespaces.get(&id) else {
            return false;
        };
        let addrs = namespace.links.values().flat_map(|link| &link.addrs);
        let addrs: Vec<IpAddr> = addrs.map(|net| net.addr()).collect();
        from.name(&Sender {
            pod: namespace.pod.as_deref(),
            netns: inventory.name(id),
            addrs: &addrs,
        })
    };
    match given {
        Some(netns) if from.is_anyone() || is_named(netns.id) => return Ok(netns.clone()),
        Some(_) => return Err("--from is none of its senders"),
        None if from.is_anyone() => return Err("it is for anyone; --from says where to send from"),
        None => {}
    }
    let namespaces = &survey.inventory().namespaces;
    let mut here: Vec<_> = namespaces.iter().filter(|(id, _)| is_named(**id)).collect();
    // Pods first, by name.
    here.sort_by_key(|(_, ns)| (ns.pod.is_none(), &ns.pod, &ns.name));
    let netns = here.into_iter().find_map(|(id, _)| survey.netns(*id));
    netns
        .cloned()
        .ok_or("none of its senders is on this machine")
}

/// Holds a recording or report against a contract: flows that break it, and a line for each entry. Needs no root.
pub(super) fn review(options: &ReviewOptions) -> Result<ExitStatus, Failure> {
    let mut checker = Checker::new(read(&options.contract)?);
    let mut teller = Teller::new(&options.output, "");
    let mut groups = Groups::default();
    let mut seen = 0;
    let summary = given::each_flow(&options.seen, &mut |flow, inventory| {
        seen += flow.count;
        let mut flow = flow.clone();
        if checker.mark(&mut flow, inventory.map_or(Nodes::AsReported, Nodes::Of)) {
            groups.add(&flow);
            teller.flow(&flow)?;
        }
        Ok(())
    })?;
    let summary = summary.unwrap_or_else(doctor::summary);
    let summary = Summary {
        flows: Flows {
            seen,
            reported: teller.told(),
            groups: groups.summary().len() as u64,
            ..summary.flows
        },
        groups: groups.summary(),
        expect: checker.lines(),
        ..summary
    };
    teller.end(&summary, &groups, &checker.agreements())?;
    Ok(checker.status())
}
