//! `srctrace ladder`: one rung after the other, each with a trace of its own, until one is not answered.

mod ground;
mod look;
mod sent;
mod told;
mod watched;

use super::failure::Failure;
use super::signals::Signals;
use super::trace;
use crate::cli::{LadderOptions, RungSpec, RungTarget};
use ground::Ground;
use look::Looks;
use std::net::IpAddr;
use told::Printer;
use tracer_core::expect::ExitStatus;
use tracer_core::ladder::{self, Told};
use tracer_core::report::{Flow, Layer, Rung, RungBy, RungCode, SCHEMA};

/// Climbs until a rung is not answered.
pub(super) fn ladder(options: &LadderOptions) -> Result<ExitStatus, Failure> {
    let runtime = trace::runtime()?;
    let ground = Ground::new(options)?;
    runtime.block_on(climb(options, &ground))
}

/// A rung that was tried, with the flows that prove what is said of it.
struct Step {
    rung: Rung,
    flows: Vec<Flow>,
}

async fn climb(options: &LadderOptions, ground: &Ground) -> Result<ExitStatus, Failure> {
    let mut looks = Looks::new(options, Signals::listen()?);
    let mut printer = Printer::new(&options.output, ground.host());
    let mut rungs: Vec<Rung> = Vec::new();
    for (at, spec) in options.rungs.iter().enumerate() {
        if !goes_on(&rungs, spec) {
            continue;
        }
        let Some(mut step) = one(options, ground, &mut looks, (at, spec)).await? else {
            break;
        };
        rungs.push(step.rung.clone());
        // Told once, as soon as it is known.
        if let Some(together) = ladder::conclusion(&rungs) {
            step.rung.text.push_str(&format!("; {together}"));
        }
        printer.step(&step)?;
    }
    let done = rungs.len();
    let silent = rungs.iter().any(|rung| rung.code != RungCode::Answered);
    printer.end(&rungs, options.rungs.len(), &looks)?;
    Ok(match silent {
        true => ExitStatus::Violated,
        false if done < options.rungs.len() => ExitStatus::Uncertain,
        false => ExitStatus::Done,
    })
}

/// Whether a rung is tried. Behind a name that failed addresses still are until one shows that forwarding works: that tells
/// forwarding and DNS apart. The first that fails ends it.
fn goes_on(before: &[Rung], spec: &RungSpec) -> bool {
    let mut failed = before.iter().filter(|rung| rung.code != RungCode::Answered);
    match (failed.next(), failed.next()) {
        (None, _) => true,
        (Some(_), Some(_)) => false,
        (Some(ended), None) => {
            ended.layer == Some(Layer::Dns)
                && spec.target.by() != RungBy::Dns
                && !before.iter().any(ladder::shows_forwarding)
        }
    }
}

/// Tries one rung; `None`: a signal ended it.
async fn one(
    options: &LadderOptions,
    ground: &Ground,
    looks: &mut Looks<'_>,
    (at, spec): (usize, &RungSpec),
) -> Result<Option<Step>, Failure> {
    let n = u32::try_from(at + 1).unwrap_or(u32::MAX);
    match options.client {
        None => sent::rung(ground, looks, n, spec).await,
        Some(client) => watched::rung(ground, looks, (n, spec), client).await,
    }
}

/// A rung of which this is told.
fn rung(n: u32, spec: &RungSpec, told: Told, flows: &[Flow]) -> Rung {
    Rung {
        schema: SCHEMA,
        n,
        target: spec.text.clone(),
        by: spec.target.by(),
        service: told.service,
        forwarded: told.forwarded,
        code: told.code,
        layer: told.layer,
        text: told.text,
        fix: told.fix,
        resolver: None,
        addresses: Vec::new(),
        flows: flows.iter().map(|flow| flow.id.clone()).collect(),
    }
}

/// A rung told by its flow.
fn step(n: u32, spec: &RungSpec, flow: Option<Flow>, tried: &ladder::Tried) -> Step {
    let told = ladder::tell(flow.as_ref(), tried);
    let flows: Vec<Flow> = flow.into_iter().collect();
    Step {
        rung: rung(n, spec, told, &flows),
        flows,
    }
}

/// The address and port of a request, and how it is asked.
type Request = (RungBy, IpAddr, Option<u16>);

/// What a rung asks of an address; `None`: it is a name.
fn request(target: &RungTarget) -> Option<Request> {
    Some(match target {
        RungTarget::Echo(addr) => (RungBy::Icmp, *addr, None),
        RungTarget::Tcp(addr, port) => (RungBy::Tcp, *addr, Some(*port)),
        RungTarget::Resolver(addr) => (RungBy::Dns, *addr, Some(crate::cli::DNS)),
        RungTarget::Name(..) => return None,
    })
}
