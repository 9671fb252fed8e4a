//! `explain`'s part about an agent's configuration: what was meant, what the agent's pod has, what is
//! installed, and what an edit would change. Nothing is ever applied.

mod around;
mod changed;
mod flows;
mod given;
mod known;
mod lists;
mod plan;
mod wanted;

use super::failure::Failure;
use super::terrain::Terrain;
use crate::cli::ExplainOptions;
use crate::render::escape;
use given::Given;
use known::Known;
use std::net::IpAddr;
use tracer_core::foresee::Needs;
use tracer_core::masqconfig::Config;
use tracer_core::report::{ConfigReport, EditReport, PlanReport};

/// What there is to tell.
#[derive(Default)]
pub(super) struct Part {
    /// The stages compared; `None`: there is no agent, no chain of one and no configuration.
    pub(super) report: Option<ConfigReport>,
    /// What the configuration that was given, or the edit, would change.
    pub(super) plans: Vec<PlanReport>,
    /// The edit that was asked for.
    pub(super) edit: Option<EditReport>,
    /// Why the agent would take nothing of the configuration that was given.
    pub(super) refused: Option<String>,
}

/// Reads and compares everything.
pub(super) fn part(
    options: &ExplainOptions,
    terrain: &mut Terrain,
    addrs: &[IpAddr],
) -> Result<Part, Failure> {
    let config = &options.config;
    // What is wrong with the files is told before anything is asked.
    let given = config.file.as_deref().map(Given::read).transpose()?;
    let seen = config.flows.as_deref().map(flows::read).transpose()?;
    let Some(node) = terrain.inventory.node else {
        return Ok(Part::default());
    };
    terrain.supply(&Needs {
        rules: [node]
            .into_iter()
            .filter(|id| !terrain.rules.contains_key(id))
            .collect(),
        ..Needs::default()
    });
    let rules = terrain.rules.get(&node).cloned().unwrap_or_default();
    let known = Known::look(config, given.as_ref(), terrain.is_live(), node, &rules);
    let ranges = around::ranges(&terrain.inventory, config);
    let report = known.report(&rules, &terrain.inventory, &ranges, seen.as_ref());
    let mut part = Part {
        report,
        ..Part::default()
    };
    let ask = plan::Ask {
        node,
        rules: &rules,
        flags: &known.flags,
        addrs,
        options,
        seen: seen.as_ref(),
    };
    if let Some((want, dest)) = config.want {
        let (edit, after) = wanted::edit(&known, &rules, want, dest, terrain, options)?;
        part.edit = Some(edit);
        if let Some(after) = after {
            part.plans = plans(terrain, &ask, &known, &after);
        }
    } else if let Some(Ok(after)) = known.given.as_ref().map(|held| &held.reading.config) {
        part.plans = plans(terrain, &ask, &known, after);
    }
    part.refused = refused(&known, options);
    Ok(part)
}

/// By the rules; Cilium's data path asks none of them, but its maps.
fn plans(
    terrain: &mut Terrain,
    ask: &plan::Ask<'_>,
    known: &Known,
    after: &Config,
) -> Vec<PlanReport> {
    match known.is_cilium() {
        true => lists::plans(terrain, ask, known.in_maps(), after),
        false => plan::plans(terrain, ask, after),
    }
}

/// Where the configuration that was given is one that the agent refuses: file, line and key.
fn refused(known: &Known, options: &ExplainOptions) -> Option<String> {
    let held = known.given.as_ref()?;
    let invalid = held.reading.config.as_ref().err()?;
    let file = options.config.file.as_deref()?;
    let line = format!("--config {}: {invalid}", file.display());
    Some(escape(&line).into_owned())
}
