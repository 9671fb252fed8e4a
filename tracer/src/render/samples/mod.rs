//! Report values for tests: the examples of the contract, and variations of them.

use tracer_core::report::{Finding, Flow, Line, Rung, Summary};

/// The contract's example of a flow.
pub(super) const FLOW: &str = include_str!("flow.json");
/// The contract's example of a summary.
pub(super) const SUMMARY: &str = include_str!("summary.json");
/// An answer of `explain`.
pub(super) const EXPLAIN: &str = include_str!("explain.json");
/// An entry of a contract that is violated.
pub(super) const AGREEMENT: &str = include_str!("agreement.json");
/// A line of `map`.
pub(super) const MAP: &str = include_str!("map.json");
/// A line of `map --diff`.
pub(super) const MAP_CHANGE: &str = include_str!("map-change.json");
/// A configuration against the rules.
pub(super) const CONFIG: &str = include_str!("config.json");
/// What an edit would change for one path.
pub(super) const PLAN: &str = include_str!("plan.json");
/// The smallest edit.
pub(super) const EDIT: &str = include_str!("edit.json");
/// A rung that was not answered.
pub(super) const RUNG: &str = include_str!("rung.json");

pub(super) fn rung() -> Rung {
    match serde_json::from_str(RUNG) {
        Ok(Line::Rung(rung)) => *rung,
        other => panic!("{other:?}"),
    }
}

pub(super) fn flow() -> Flow {
    match serde_json::from_str(FLOW) {
        Ok(Line::Flow(flow)) => *flow,
        other => panic!("{other:?}"),
    }
}

pub(super) fn summary() -> Summary {
    match serde_json::from_str(SUMMARY) {
        Ok(Line::Summary(summary)) => *summary,
        other => panic!("{other:?}"),
    }
}

/// The example with parts of its JSON replaced: `(pointer, value)`.
pub(super) fn flow_with(parts: &[(&str, serde_json::Value)]) -> Flow {
    let mut json: serde_json::Value = serde_json::from_str(FLOW).unwrap();
    for (pointer, value) in parts {
        *json.pointer_mut(pointer).expect(pointer) = value.clone();
    }
    match serde_json::from_value(json) {
        Ok(Line::Flow(flow)) => *flow,
        other => panic!("{other:?}"),
    }
}

pub(super) fn finding(code: &str, severity: &str, text: &str, fix: Option<&str>) -> Finding {
    serde_json::from_value(serde_json::json!({
        "code": code, "severity": severity, "text": text, "fix": fix,
        "rule": null, "hop": null, "data": null
    }))
    .unwrap()
}
