//! Many flows in a few lines.

use super::super::escape;
use super::super::look::{Look, Role, name};
use super::flow::flow;
use super::rewrite::is_answer;
use super::words;
use std::net::IpAddr;
use tracer_core::report::{DeliveryCode, Flow, Group, Origin, OriginKind, Rule, SourceCode};

/// Flows that took the same way, with one of them as the example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way<'a> {
    /// The example; its `count` says how many flows took this way.
    pub exemplar: &'a Flow,
    /// From how many pods (or other places) they came.
    pub origins: usize,
    /// The source on the wire, if it is the same for all.
    pub source_on_wire: Option<IpAddr>,
}

/// One line for each way: `308 flows from 14 pods: rewritten to …`. Otherwise as [`groups`].
#[must_use]
pub fn ways(ways: &[Way<'_>], look: Look) -> String {
    let all: Vec<Group> = ways.iter().map(|way| group(way, look)).collect();
    groups(&all, look)
}

/// The block of one way: how many flows took it, and one of them whole.
#[must_use]
pub fn way(way: &Way<'_>, look: Look) -> String {
    let block = flow(way.exemplar, look);
    match many(way, look) {
        None => block,
        Some(many) => format!("{}\n{block}", look.paint(Role::Title, &many)),
    }
}

/// How many flows took a way, where it is more than one: `308 flows from 14 pods, one of them:`.
#[must_use]
pub fn many(way: &Way<'_>, look: Look) -> Option<String> {
    let count = way.exemplar.count;
    (count > 1).then(|| format!("{count} flows from {}, one of them:", origins(way, look)))
}

/// From where the flows of a way came: `14 pods`, or the one by name.
fn origins(way: &Way<'_>, look: Look) -> String {
    let places = match way.exemplar.origin.kind {
        OriginKind::Pod => "pods",
        OriginKind::Gateway => "gateways",
        OriginKind::Node => "places on the node",
        OriginKind::External => "places outside",
    };
    let origin = &way.exemplar.origin;
    match (way.origins, way.exemplar.count) {
        (0 | 1, 0 | 1) => words::begun_at(origin, look),
        // Other processes of the node may have begun the other flows.
        (0 | 1, _) => words::begun_at(
            &Origin {
                process: None,
                ..origin.clone()
            },
            look,
        ),
        (n, _) => format!("{n} {places}"),
    }
}

fn group(way: &Way<'_>, look: Look) -> Group {
    let flow = way.exemplar;
    let change = flow.rewrites.iter().rev().find(|r| is_answer(r));
    Group {
        count: flow.count,
        origin: origins(way, look),
        source: flow.verdict.source,
        source_on_wire: way.source_on_wire,
        place: change.map(|r| r.place),
        rule: change.and_then(|r| r.rule.as_ref()).map(Rule::name),
        delivery: flow.delivery.code,
        violates: flow.violated(),
    }
}

/// One line for each group, the largest first, ending with an empty line; nothing for no group.
#[must_use]
pub fn groups(groups: &[Group], look: Look) -> String {
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|g| std::cmp::Reverse(g.count));
    let width = sorted.first().map_or(0, |g| g.count.to_string().len());
    let mut text = String::new();
    for group in sorted {
        text.push_str(&line(group, width, look));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn line(group: &Group, width: usize, look: Look) -> String {
    let flows = if group.count == 1 { "flow " } else { "flows" };
    let origin = match group.origin.as_str() {
        "node" => "the node".to_owned(),
        "external" => "outside".to_owned(),
        other => name(other),
    };
    let (word, role) = words::delivery(group.delivery);
    let delivery = match group.delivery {
        DeliveryCode::Completed => String::new(),
        _ => format!(", {}", look.paint(role, word)),
    };
    let violates: Vec<String> = group.violates.iter().map(|e| escape(e).into()).collect();
    let violates = match violates.is_empty() {
        true => String::new(),
        false => {
            let what = format!("VIOLATES {}", violates.join(" and "));
            format!(", {}", look.paint(Role::Bad, &what))
        }
    };
    format!(
        "{:>width$} {flows} from {origin}: {}{delivery}{violates}\n",
        group.count,
        look.paint(Role::Answer, &source(group))
    )
}

fn source(group: &Group) -> String {
    let wire = group.source_on_wire.map(|a| a.to_string());
    let to = |word: &str| {
        wire.as_ref()
            .map(|a| format!("{word}{a}"))
            .unwrap_or_default()
    };
    match group.source {
        SourceCode::SourcePreserved => match &wire {
            Some(addr) => format!("kept {addr}"),
            None => "kept the source".to_owned(),
        },
        SourceCode::SourceRewritten => {
            let place = group
                .place
                .map(|p| format!(" {}", words::place(p, "this machine")));
            let rule = group.rule.as_deref().map(|r| format!(" by {}", escape(r)));
            format!(
                "rewritten{}{}",
                to(" to "),
                rule.or(place).unwrap_or_default()
            )
        }
        SourceCode::SourceTerminated => "ended by a proxy".to_owned(),
        SourceCode::SourceUnknown => format!("source not known{}", to(", seen as ")),
    }
}
