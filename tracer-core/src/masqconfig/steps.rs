//! What is said where the mounted file or the wire is out of step.

use super::scene::{Held, Wire};
use super::{Agent, Flags, Span};
use crate::report::{Code, Finding, Severity, Stage};
use crate::verdict::finding;
use serde_json::json;

/// The file in the agent's pod is not the ConfigMap.
pub(super) fn behind(stage: &Stage, given: &Held, mounted: &Held, flags: &Flags) -> Finding {
    let resync = mounted
        .reading
        .config
        .as_ref()
        .ok()
        .and_then(|config| config.resync);
    let within = match mounted.reading.agent {
        Agent::Cilium => "takes it at once".to_owned(),
        _ => format!(
            "reads it within {}",
            resync.unwrap_or(flags.resync).max(Span(0))
        ),
    };
    let changed = stage
        .changed
        .as_ref()
        .map_or(String::new(), |at| format!(" (of {at})"));
    Finding {
        text: format!(
            "{}{changed} is not what {} says: the kubelet copies a ConfigMap within two minutes, then the agent \
             {within}; the agent need not be restarted for it",
            stage.from, given.from
        ),
        fix: Some(
            "after two minutes: does the DaemonSet mount this ConfigMap and key? A subPath mount is never updated".to_owned(),
        ),
        ..finding(Code::ConfigDrift, Severity::Warning)
    }
}

/// Flows left otherwise than the rules say.
pub(super) fn on_the_wire(wire: &Wire) -> Option<Finding> {
    const SHOWN: usize = 3;
    let all = &wire.other;
    (!all.is_empty()).then(|| Finding {
        text: format!(
            "flows left otherwise than the rules of now say: {}{}",
            all.iter()
                .take(SHOWN)
                .cloned()
                .collect::<Vec<_>>()
                .join("; "),
            if all.len() > SHOWN { "; …" } else { "" }
        ),
        fix: Some(
            "flows that were open before the rules changed keep their source; look at new ones"
                .to_owned(),
        ),
        data: json!({ "flows": wire.flows, "paths": all.len() }),
        ..finding(Code::ConfigDrift, Severity::Warning)
    })
}
