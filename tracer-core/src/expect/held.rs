//! Whether one flow is as expected.

use super::{Denied, Expectation, Source, denied};
use crate::inventory::Inventory;
use crate::report::{
    Code, DeliveryCode, Finding, Flow, OriginKind, Rule, Severity, SourceCode, Where,
};
use crate::verdict::{finding, rule_name, stopper_name};
use serde_json::json;
use std::net::IpAddr;

/// How one flow did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As expected.
    Held,
    /// Not as expected.
    Violated,
    /// Older than the trace: it says nothing of today's rules.
    Skipped,
    /// It cannot be told from what was sighted.
    Uncertain,
}

/// Which addresses are the node's.
#[derive(Clone, Copy, Debug)]
pub enum Nodes<'a> {
    /// Those that the host was seen to have.
    Of(&'a Inventory),
    /// Only what a report itself tells: the node's own flows, and what was rewritten on the node.
    AsReported,
}

impl Nodes<'_> {
    /// Whether the flow left with an address of the node; `None` where that cannot be told.
    fn owns(self, wire: IpAddr, flow: &Flow) -> Option<bool> {
        match self {
            Self::Of(inventory) => Some(inventory.node_owns(wire)),
            Self::AsReported if flow.origin.kind == OriginKind::Node => {
                (wire == flow.flow.tuple.src).then_some(true)
            }
            Self::AsReported if wire == flow.flow.tuple.src => Some(false),
            // A masquerade takes the address of a device there; a source that a rule spells out may be any.
            Self::AsReported => {
                let rewrite = flow.source_rewrite()?;
                let masquerades = |rule: &Rule| rule.text.to_lowercase().contains("masquerade");
                let on_node = matches!(rewrite.place, Where::Node | Where::Service);
                (on_node && rewrite.rule.as_ref().is_some_and(masquerades)).then_some(true)
            }
        }
    }
}

/// Compares a flow.
pub(super) fn outcome(expectation: Expectation, flow: &Flow, inventory: &Inventory) -> Outcome {
    let held = match expectation {
        Expectation::Source(source) => return source_outcome(source, flow, Nodes::Of(inventory)),
        Expectation::Reply => reply_held(flow.delivery.code),
        Expectation::Denied(by) => denied::held(by, flow),
    };
    // What was lost cannot undo an answer that was sighted.
    let answered = reply_held(flow.delivery.code) == Some(true);
    judged(held, answered || flow.verdict.complete, flow)
}

/// Whether a flow left with this source.
#[must_use]
pub fn source_outcome(source: Source, flow: &Flow, nodes: Nodes<'_>) -> Outcome {
    judged(
        source_held(source, flow, nodes),
        flow.verdict.complete,
        flow,
    )
}

fn judged(held: Option<bool>, sure: bool, flow: &Flow) -> Outcome {
    if flow.has(Code::MappingPredatesTrace) {
        return Outcome::Skipped;
    }
    match held {
        Some(true) if sure => Outcome::Held,
        Some(false) if sure => Outcome::Violated,
        _ => Outcome::Uncertain,
    }
}

fn source_held(source: Source, flow: &Flow, nodes: Nodes<'_>) -> Option<bool> {
    if flow.verdict.source == SourceCode::SourceUnknown {
        return None;
    }
    let wire = flow.verdict.source_on_wire?;
    let kept = wire == flow.flow.tuple.src;
    match source {
        Source::Preserved => Some(kept),
        Source::Pod => Some(kept && flow.origin.kind == OriginKind::Pod),
        Source::Node => nodes.owns(wire, flow),
        Source::Within(net) => Some(net.contains(&wire)),
    }
}

fn reply_held(code: DeliveryCode) -> Option<bool> {
    match code {
        DeliveryCode::Completed | DeliveryCode::HandshakeOnly => Some(true),
        DeliveryCode::NoReply
        | DeliveryCode::ReplyLost
        | DeliveryCode::Refused
        | DeliveryCode::Dropped => Some(false),
        DeliveryCode::InProgress => None,
    }
}

/// The rule that made a flow what it is, as far as this expectation is concerned.
pub(super) fn decider(expectation: Expectation, flow: &Flow) -> Option<&Rule> {
    match expectation {
        Expectation::Source(_) => flow.source_rule(),
        Expectation::Reply | Expectation::Denied(_) => flow.stopped_by(),
    }
}

/// What a flow says of an expectation that it violates, with the rule that broke it.
pub(super) fn violation(expectation: Expectation, flow: &Flow) -> Finding {
    let is = match expectation {
        Expectation::Source(_) => source_is(flow),
        Expectation::Reply => no_answer(flow.delivery.code).to_owned(),
        Expectation::Denied(by) => denied::instead(by, flow),
    };
    let rule = decider(expectation, flow);
    let by = match (expectation, rule) {
        (Expectation::Source(_), Some(rule)) => source_by(flow, rule),
        (_, Some(rule)) => format!(": stopped by {}", stopper_name(rule)),
        (Expectation::Source(_), None) if flow.has(Code::NoRuleMatches) => {
            ": no rule of any store rewrites it".to_owned()
        }
        (_, None) => String::new(),
    };
    Finding {
        text: format!("{expectation} was expected, and {is}{by}"),
        rule: rule.cloned(),
        data: json!({ "expect": expectation.to_string() }),
        ..finding(Code::ExpectationViolated, Severity::Error)
    }
}

fn source_is(flow: &Flow) -> String {
    match flow.verdict.source_on_wire {
        Some(wire) => format!("{wire} left"),
        None => "no source was sighted leaving".to_owned(),
    }
}

/// What a rule did to the source.
fn source_by(flow: &Flow, rule: &Rule) -> String {
    let did = match flow.source_rewrite() {
        Some(_) => "rewrote",
        None => "exempts",
    };
    format!(": {} {did} it", rule_name(rule))
}

/// What happened instead of an answer.
fn no_answer(code: DeliveryCode) -> &'static str {
    match code {
        DeliveryCode::Refused => "the request was refused",
        DeliveryCode::Dropped => "the request was dropped here",
        DeliveryCode::ReplyLost => "it did not serve the sender",
        _ => "none came",
    }
}

impl Denied {
    /// Whether an answer to the request speaks against it: it always does.
    pub(super) fn got_through(code: DeliveryCode) -> bool {
        matches!(
            code,
            DeliveryCode::Completed | DeliveryCode::HandshakeOnly | DeliveryCode::ReplyLost
        )
    }
}
