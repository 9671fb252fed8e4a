//! What became of the source on the whole way.

use super::Scene;
use super::findings::source_changes;
use crate::report::{Code, Finding, Hop, Rewrite, SourceCode, Verdict, Where};
use crate::verdict::{agent_words, is_doubt};

pub(super) fn verdict(
    scene: &Scene<'_>,
    hops: &[Hop],
    rewrites: &[Rewrite],
    findings: &[Finding],
) -> Verdict {
    let members = scene.members;
    let last = &members[members.len() - 1].flow.verdict;
    let terminated = members
        .iter()
        .any(|m| m.flow.verdict.source == SourceCode::SourceTerminated);
    let source = if terminated {
        SourceCode::SourceTerminated
    } else if source_changes(rewrites).next().is_some() {
        SourceCode::SourceRewritten
    } else {
        SourceCode::SourcePreserved
    };
    let on_wire = last
        .source_on_wire
        .or_else(|| hops.last().map(|hop| hop.tuple.src));
    let sure = |code: Code| !is_doubt(code);
    Verdict {
        source,
        source_on_wire: on_wire,
        complete: findings.iter().all(|f| sure(f.code))
            && members.iter().all(|m| m.flow.verdict.complete),
        text: text(scene, hops, rewrites),
    }
}

fn text(scene: &Scene<'_>, hops: &[Hop], rewrites: &[Rewrite]) -> String {
    let source = scene.members[0].flow.flow.tuple.src;
    let far = scene.host(scene.members.len() - 1);
    let mut text = String::new();
    for change in source_changes(rewrites) {
        text.push_str(&match text.is_empty() {
            true => format!("source {} became {}", change.from.addr, change.to.addr),
            false => format!("; then {}", change.to.addr),
        });
        text.push_str(&place(change, hops));
    }
    if text.is_empty() {
        text = format!("source {source} was kept as far as {far}");
    }
    text
}

fn place(change: &Rewrite, hops: &[Hop]) -> String {
    let host = |n: Option<u32>| {
        let at = usize::try_from(n?.checked_sub(1)?).ok()?;
        Some(hops.get(at)?.host.as_str())
    };
    let [before, after] = change.between.map(host);
    match (before, after) {
        (Some(a), Some(b)) if a != b => format!(" between {a} and {b}"),
        (Some(host), _) | (None, Some(host)) => {
            let within = match change.place {
                Where::Pod => " in the pod's own namespace",
                Where::Gateway => " in a gateway",
                Where::Service => " for a Service",
                Where::Proxy => " by a proxy",
                Where::Node | Where::Downstream => "",
            };
            format!(" on {host}{within}{}", agent_words(change))
        }
        (None, None) => String::new(),
    }
}
