//! What is to be known about a joined flow.

use super::Scene;
use super::hops::Numbers;
use crate::join::links::Certainty;
use crate::recording::Captured;
use crate::report::{Code, Finding, Rewrite, RewriteDirection, RewriteField, Severity};
use crate::verdict::{double_rewrite, finding};
use serde_json::{Value, json};

/// The hosts' own findings, each with its host's name, and how sure the join is.
pub(super) fn findings(scene: &Scene<'_>, numbers: &Numbers, rewrites: &[Rewrite]) -> Vec<Finding> {
    let mut all = vec![join(scene)];
    for (at, member) in scene.members.iter().enumerate() {
        for one in &member.flow.findings {
            if outdated(scene, at, one.code) {
                continue;
            }
            all.push(with_host(scene.host(at), numbers, at, one));
        }
    }
    all.extend(double_rewrite(rewrites));
    all
}

/// What only one host says, and all together know better.
fn outdated(scene: &Scene<'_>, at: usize, code: Code) -> bool {
    let last = at + 1 == scene.members.len();
    match code {
        Code::PeerRouteSuspected => !last,
        Code::DoubleRewrite | Code::ExpectationViolated | Code::ChangedBetweenPoints => true,
        _ => false,
    }
}

fn with_host(host: &str, numbers: &Numbers, at: usize, one: &Finding) -> Finding {
    let mut data = one.data.clone();
    if data.is_null() {
        data = json!({});
    }
    if let Value::Object(fields) = &mut data {
        fields.insert("host".to_owned(), json!(host));
    }
    Finding {
        text: format!("{host}: {}", one.text),
        hop: numbers.of(at, one.hop),
        data,
        ..one.clone()
    }
}

/// By what the parts are known to be of one flow, and by what their clocks were compared.
fn join(scene: &Scene<'_>) -> Finding {
    let names: Vec<&str> = (0..scene.members.len()).map(|at| scene.host(at)).collect();
    let link = scene.link();
    let tcp = scene.members[0].flow.flow.proto.0 == crate::packet::Proto::TCP;
    let key = match tcp {
        true => "the initial sequence number",
        false => "the first packet's numbers and length",
    };
    let by = [
        (link.key, key),
        (link.answer, "that of the answer"),
        (link.tuple, "an unbroken tuple"),
    ];
    let by: Vec<&str> = by
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| *word)
        .collect();
    let captures: Vec<Option<&Captured>> = scene.captures().collect();
    let blind = captures.iter().flatten().any(|kind| !kind.interfaces);
    let certainty = match blind {
        // It may be another packet of the flow that is taken for the first one.
        true => link.certainty().min(Certainty::Likely),
        false => link.certainty(),
    };
    let certainty = certainty.word();
    let by_text = match by.is_empty() {
        true => "what each two neighbours have in common".to_owned(),
        false => by.join(" and "),
    };
    Finding {
        text: format!(
            "seen at {}: joined by {by_text} ({certainty}){}",
            names.join(", then at "),
            shortcomings(&names, &captures)
        ),
        data: json!({
            "hosts": names,
            "certainty": certainty,
            "by": by,
            "clocks": clocks(scene),
            "captures": captures,
        }),
        ..finding(Code::JoinedAcrossHosts, Severity::Info)
    }
}

/// What the hosts' clocks are off by.
fn clocks(scene: &Scene<'_>) -> Vec<Value> {
    let clocks = scene.members.iter().map(|member| {
        let aligned = scene.clocks.0.get(member.source);
        let aligned = aligned.copied().unwrap_or_default();
        // The first source's clock is the one that all are compared with.
        let error = aligned.error_ns.or((member.source == 0).then_some(0));
        json!({
            "offset_us": aligned.offset_ns / 1000,
            "error_us": error.map(|ns| ns / 1000),
            "flows": aligned.flows,
        })
    });
    clocks.collect()
}

/// What the captures among the hosts do not tell.
fn shortcomings(names: &[&str], captures: &[Option<&Captured>]) -> String {
    let mut text = String::new();
    for (name, kind) in names.iter().zip(captures) {
        let Some(kind) = kind else { continue };
        if !kind.interfaces {
            text.push_str(&format!(
                "; {name} names no interfaces, so that is less sure"
            ));
        }
        if !kind.sides {
            text.push_str(&format!(
                "; {name} does not tell what came in and what went out: requests are taken as coming in"
            ));
        }
    }
    text
}

/// Changes of the request's source address.
pub(super) fn source_changes(rewrites: &[Rewrite]) -> impl Iterator<Item = &Rewrite> {
    rewrites
        .iter()
        .filter(|r| r.direction == RewriteDirection::Request && r.field == RewriteField::Src)
}
