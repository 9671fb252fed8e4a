//! `--want`: the smallest edit. It is printed, never applied.

use super::Known;
use crate::cli::ExplainOptions;
use crate::run::failure::Failure;
use crate::run::terrain::Terrain;
use ipnet::IpNet;
use std::collections::BTreeMap;
use tracer_core::foresee;
use tracer_core::inventory::Inventory;
use tracer_core::masqconfig::{self, Config, Want, prefixes};
use tracer_core::report::{EditReport, OriginKind, SCHEMA};
use tracer_core::ruleset::Ruleset;

/// The edit, and the configuration after it where there is something to edit.
pub(super) fn edit(
    known: &Known,
    rules: &Ruleset,
    want: Want,
    dest: IpNet,
    terrain: &Terrain,
    options: &ExplainOptions,
) -> Result<(EditReport, Option<Config>), Failure> {
    let word = match want {
        Want::Pod => "pod",
        Want::Node => "node",
    };
    let verify = verify(&terrain.inventory, dest, word, options);
    let blank = EditReport {
        schema: SCHEMA,
        want: word.to_owned(),
        dest: dest.to_string(),
        changes: Vec::new(),
        config: None,
        rollback: None,
        verify: None,
        text: String::new(),
    };
    let base = match known.base(rules) {
        Ok(base) => base,
        Err(text) => return Ok((EditReport { text, ..blank }, None)),
    };
    let edit = match masqconfig::edit(&base, &known.flags, dest, want) {
        Ok(edit) => edit,
        Err(text) => return Ok((EditReport { text, ..blank }, None)),
    };
    if edit.changes.is_empty() {
        let text = format!(
            "nothing to edit: the configuration gives {dest} the {word}'s address already; where the wire shows another, look at the comparison above"
        );
        let blank = EditReport {
            verify: Some(verify),
            text,
            ..blank
        };
        return Ok((blank, None));
    }
    let count = edit.changes.len();
    let s = if count == 1 { "" } else { "s" };
    let report = EditReport {
        changes: edit.changes.iter().map(ToString::to_string).collect(),
        config: Some(masqconfig::yaml(&edit.after)),
        rollback: Some(masqconfig::yaml(&base)),
        verify: Some(verify),
        text: format!(
            "{count} change{s} of the configuration would give {dest} the {word}'s address; nothing was applied"
        ),
        ..blank
    };
    Ok((report, Some(edit.after)))
}

/// The command that shows it on the wire, once the agent has read the edit.
fn verify(inventory: &Inventory, dest: IpNet, word: &str, options: &ExplainOptions) -> String {
    let dst = prefixes::host(dest);
    let senders = foresee::senders(inventory, &BTreeMap::new(), dst.is_ipv4());
    let pod = senders.iter().find(|sender| sender.kind == OriginKind::Pod);
    let name = pod.and_then(|pod| inventory.called(pod.netns));
    let from = name.unwrap_or("POD");
    let target = match options.port {
        Some(port) => std::net::SocketAddr::new(dst, port).to_string(),
        None => std::net::SocketAddr::new(dst, 443).to_string(),
    };
    format!("srctrace {target} --probe --from {from} --expect-source {word}")
}
