//! `--expect-denied`: what stops a request. Silence proves nothing: only a death that the kernel told,
//! or a refusal that came back, does.

use crate::report::{Code, DeliveryCode, Flow, RewriteDirection, Where};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// By what a request is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Denied {
    /// A netfilter rule or policy (dropped, or refused by REJECT), or somebody beyond who said that it is
    /// prohibited.
    Policy,
    /// No route, or one that refuses.
    Route,
    /// Whatever stopped it.
    Any,
}

/// An argument of `--expect-denied` that is none of the accepted words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not say what is to deny it: give policy, route or any")]
pub struct BadDenied(String);

impl FromStr for Denied {
    type Err = BadDenied;

    fn from_str(text: &str) -> Result<Self, BadDenied> {
        match text {
            "policy" => Ok(Self::Policy),
            "route" => Ok(Self::Route),
            "any" => Ok(Self::Any),
            _ => Err(BadDenied(text.to_owned())),
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policy => "policy",
            Self::Route => "route",
            Self::Any => "any",
        })
    }
}

/// What is known to have stopped a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Policy,
    Route,
    /// Known, and neither of the two: forwarding is off, the reverse-path check, …
    Other,
    /// Known to be no route's doing; a policy of a program or of the far side perhaps.
    NoRoutes,
    /// Stopped, and by what cannot be told.
    Unknown,
}

/// Whether the flow was stopped by that; `None` where it cannot be told.
pub(super) fn held(by: Denied, flow: &Flow) -> Option<bool> {
    let code = flow.delivery.code;
    if Denied::got_through(code) {
        return Some(false);
    }
    if !matches!(code, DeliveryCode::Dropped | DeliveryCode::Refused) {
        return None;
    }
    match (by, cause(flow)) {
        (Denied::Any, _) | (Denied::Policy, Cause::Policy) | (Denied::Route, Cause::Route) => {
            Some(true)
        }
        (_, Cause::Unknown) | (Denied::Policy, Cause::NoRoutes) => None,
        (Denied::Policy | Denied::Route, _) => Some(false),
    }
}

fn cause(flow: &Flow) -> Cause {
    let of_request = |f: &&crate::report::Finding| f.data["direction"] == "request";
    let found: Vec<Code> = flow
        .findings
        .iter()
        .filter(of_request)
        .map(|f| f.code)
        .collect();
    let first = match found.as_slice() {
        [] => None,
        all if all.contains(&Code::PolicyDrop) => Some(Cause::Policy),
        all if all.contains(&Code::NoRoute) => Some(Cause::Route),
        all if all.contains(&Code::DroppedByProgram) => Some(Cause::NoRoutes),
        _ => Some(Cause::Other),
    };
    let died = flow
        .drops
        .iter()
        .any(|drop| drop.direction == RewriteDirection::Request);
    first.unwrap_or(match &flow.delivery.refused_by {
        // The node's own refusal comes with a death here, which is told above if its cause is known.
        Some(by) if by.place != Some(Where::Node) && !died => beyond(&by.kind),
        _ => Cause::Unknown,
    })
}

/// What a refusal from beyond tells of its cause, by its kind.
fn beyond(kind: &str) -> Cause {
    match kind {
        "net-prohibited" | "host-prohibited" | "admin-prohibited" | "source-policy" => {
            Cause::Policy
        }
        // Nobody listens, or a rule there says so.
        "rst" | "port-unreachable" | "protocol-unreachable" => Cause::NoRoutes,
        // A router's own word, or that of a rule which uses it.
        _ => Cause::Unknown,
    }
}

/// What happened instead.
pub(super) fn instead(by: Denied, flow: &Flow) -> String {
    if Denied::got_through(flow.delivery.code) {
        return "an answer came".to_owned();
    }
    let of_request = flow
        .drops
        .iter()
        .find(|drop| drop.direction == RewriteDirection::Request)
        .and_then(|drop| drop.explain.clone());
    match (of_request, &flow.delivery.refused_by, by) {
        (Some(_), _, _) if flow.stopped_by().is_some() => "a rule did it".to_owned(),
        (Some(explain), _, _) => explain,
        (None, Some(refusal), _) => format!("{} refused it ({})", refusal.addr, refusal.kind),
        (None, None, _) => "something else stopped it".to_owned(),
    }
}
