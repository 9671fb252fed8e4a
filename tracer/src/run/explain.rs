//! `srctrace explain`: what the rules would do for a destination, for each kind of sender.

use super::config::{self, Part};
use super::doctor;
use super::failure::Failure;
use super::plan;
use super::tell::look;
use super::terrain::{ROUNDS, Terrain};
use crate::cli::{ExplainOptions, OutputFormat, OutputOptions};
use crate::render::{self, text};
use crate::sink::{self, Sink};
use std::net::IpAddr;
use tracer_core::expect::ExitStatus;
use tracer_core::foresee::{self, Needs, Request, Sender};
use tracer_core::report::{ConfigReport, Explain, Line, OriginKind, Summary};

pub(super) fn explain(options: &ExplainOptions) -> Result<ExitStatus, Failure> {
    let (addrs, notes) = options.addresses(plan::lookup)?;
    for note in &notes {
        sink::note(&format!("srctrace: {}\n", render::escape(note)));
    }
    let mut terrain = Terrain::new(&options.senders)?;
    let mut lines = Vec::new();
    let asked = addrs.clone();
    for addr in addrs {
        lines.extend(lines_for(&mut terrain, options, addr)?);
    }
    if lines.is_empty() && options.dest.is_some() {
        return Err(Failure::Usage(
            "nobody here could send that: no namespace that was asked about has an address of its family".to_owned(),
        ));
    }
    let part = config::part(options, &mut terrain, &asked)?;
    let state = part.report.as_ref().and_then(|report| report.config_state);
    lines.iter_mut().for_each(|line| line.config_state = state);
    let refused = part.refused.clone();
    let drift = part.report.as_ref().is_some_and(ConfigReport::is_drift);
    print(&terrain, lines, part, &options.output)?;
    // It was told whole; that it is no good is the answer to what was given.
    if let Some(line) = refused {
        return Err(Failure::Usage(line));
    }
    Ok(match options.config.strict && drift {
        true => ExitStatus::Violated,
        false => ExitStatus::Done,
    })
}

/// What would become of a request to one address, for each sender.
fn lines_for(
    terrain: &mut Terrain,
    options: &ExplainOptions,
    addr: IpAddr,
) -> Result<Vec<Explain>, Failure> {
    terrain.read_forwarders(&options.senders)?;
    let mut senders = terrain.senders(&options.senders, addr.is_ipv4())?;
    for sender in &mut senders {
        sender.src = options.src.or(sender.src);
    }
    let requests: Vec<Request> = options
        .protos(addr.is_ipv4())
        .into_iter()
        .map(|proto| Request {
            dst: addr,
            proto,
            sport: None,
            dport: options.port,
        })
        .collect();
    Ok(foretold(terrain, &senders, &requests))
}

/// The lines for these senders, grouped; the machine is asked for what they need.
pub(super) fn foretold(
    terrain: &mut Terrain,
    senders: &[Sender],
    requests: &[Request],
) -> Vec<Explain> {
    for round in 1.. {
        let mut needs = Needs::default();
        let rules = terrain.indexed();
        let ground = terrain.ground(&rules);
        let mut lines = Vec::new();
        for sender in senders {
            let forecasts: Vec<_> = requests
                .iter()
                .map(|request| (*request, foresee::foresee(&ground, sender, request)))
                .collect();
            for (_, forecast) in &forecasts {
                needs.absorb(forecast.needs.clone());
            }
            lines.extend(foresee::tell(&ground, sender, &forecasts).filter(is_of_use));
        }
        drop(rules);
        if round == ROUNDS || !terrain.supply(&needs) {
            return foresee::grouped(lines);
        }
    }
    Vec::new()
}

/// A client from outside that would be sent back where it came from is none of this node's.
pub(super) fn is_of_use(line: &Explain) -> bool {
    let back = line.path.iter().any(|leg| leg.iif == leg.oif);
    line.origin.kind != OriginKind::External || !back
}

/// Prints the lines, what is told of the configuration, and a summary.
fn print(
    terrain: &Terrain,
    lines: Vec<Explain>,
    part: Part,
    output: &OutputOptions,
) -> Result<(), Failure> {
    let mut sink = Sink::stdout();
    if output.format == OutputFormat::Text {
        let look = look(output);
        let blocks = [
            text::explain(&lines, look),
            part.report
                .map_or(String::new(), |report| text::config(&report, look)),
            part.edit
                .map_or(String::new(), |edit| text::edit(&edit, look)),
            text::plans(&part.plans, look),
        ];
        let blocks = blocks.into_iter().filter(|block| !block.is_empty());
        return Ok(sink.write(&blocks.collect::<Vec<_>>().join("\n"))?);
    }
    let summary = Summary {
        host: terrain.inventory.host.clone(),
        ..doctor::summary()
    };
    let lines = lines.into_iter().map(|line| Line::Explain(Box::new(line)));
    let config = part.report.map(|report| Line::Config(Box::new(report)));
    let edit = part.edit.map(|edit| Line::Edit(Box::new(edit)));
    let plans = part
        .plans
        .into_iter()
        .map(|plan| Line::Plan(Box::new(plan)));
    let lines = lines.chain(config).chain(edit).chain(plans);
    for line in lines.chain([Line::Summary(Box::new(summary))]) {
        let json = render::json_line(&line).map_err(|e| Failure::Output(e.to_string()))?;
        sink.write(&json)?;
    }
    Ok(())
}
