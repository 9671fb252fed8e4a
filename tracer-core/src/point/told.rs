//! Between which points the source changed, in words; and how many flows each point saw.

use crate::report::{
    Code, Finding, Flow, PointSeen, PointSum, PointView, Rewrite, RewriteDirection, RewriteField,
    Severity, SourceCode, Where,
};
use crate::verdict::finding;
use serde_json::json;

/// Adds to a flow's findings and to its verdict between which of its points the source changed.
pub fn tell(flow: &mut Flow) {
    let (text, found) = said(flow);
    flow.verdict.text.push_str(&text);
    flow.findings.extend(found);
}

/// A flow's verdict in words, as it was before [`tell`] added to it.
pub(crate) fn untold(flow: &Flow) -> &str {
    let text = flow.verdict.text.as_str();
    text.strip_suffix(said(flow).0.as_str()).unwrap_or(text)
}

/// What its points say of a flow: words for its verdict, and findings.
fn said(flow: &Flow) -> (String, Vec<Finding>) {
    if flow.points.is_empty() {
        return (String::new(), Vec::new());
    }
    let changes = flow.rewrites.iter().filter(|r| is_of_source(r));
    let found: Vec<Finding> = changes.map(|r| changed(flow, r)).collect();
    let text = match found.is_empty() {
        true => same(flow),
        false => found.iter().map(|one| format!("; {}", one.text)).collect(),
    };
    (text, found)
}

fn is_of_source(rewrite: &Rewrite) -> bool {
    rewrite.direction == RewriteDirection::Request && rewrite.field == RewriteField::Src
}

/// Nothing changed the source, or nobody can say: at which points it was one and the same.
fn same(flow: &Flow) -> String {
    let saw = flow.points.iter().filter(|point| point.source.is_some());
    let mut saw: Vec<&PointView> = saw.collect();
    saw.sort_by_key(|point| point.hop);
    let kept = flow.verdict.source == SourceCode::SourcePreserved;
    match saw.as_slice() {
        [first, .., last] if kept && saw.iter().all(|p| p.source == first.source) => {
            let front = saw[..saw.len() - 1].iter().map(|point| called(flow, point));
            let front = front.collect::<Vec<_>>().join(", ");
            format!(
                "; the same at the points {front} and {}",
                called(flow, last)
            )
        }
        _ => String::new(),
    }
}

/// A point in a sentence: with its host where there are several.
fn called(flow: &Flow, point: &PointView) -> String {
    match flow.points.iter().all(|other| other.host == point.host) {
        true => point.name.clone(),
        false => format!("{} of {}", point.name, point.host),
    }
}

/// One change, between the points before and after it.
fn changed(flow: &Flow, rewrite: &Rewrite) -> Finding {
    let (before, after) = around(flow, rewrite);
    let name = |point: Option<&PointView>| point.map(|p| p.name.clone());
    let called = |point: &PointView| called(flow, point);
    let between = match (before, after) {
        (Some(a), Some(b)) => format!("between the points {} and {}", called(a), called(b)),
        (None, Some(b)) => format!("before the point {}, the first that saw it", called(b)),
        (Some(a), None) => format!("after the point {}, the last that saw it", called(a)),
        (None, None) => "where no point saw it".to_owned(),
    };
    let beyond = rewrite.place == Where::Downstream;
    let own = !beyond && before.is_some_and(|point| is_within(flow, point, rewrite));
    let (downstream, who) = (before.filter(|_| !own), who(flow, rewrite));
    let downstream = downstream.map_or_else(String::new, |point| {
        format!("downstream of {}, ", space(flow, point))
    });
    Finding {
        text: format!(
            "the source changed from {} to {} {between}: {downstream}{who}",
            rewrite.from.addr, rewrite.to.addr
        ),
        hop: rewrite.between[1],
        data: json!({
            "between": [name(before), name(after)],
            "from": rewrite.from.addr,
            "to": rewrite.to.addr,
            "where": rewrite.place,
        }),
        ..finding(Code::ChangedBetweenPoints, Severity::Info)
    }
}

/// The last point that saw the packet before a change, and the first after it.
fn around<'a>(flow: &'a Flow, rewrite: &Rewrite) -> (Option<&'a PointView>, Option<&'a PointView>) {
    let [from, to] = rewrite.between;
    let met = |point: &&PointView| point.hop.is_some();
    // A change without a hop before it was made before the first; without one after it, behind the last.
    let early = |point: &&PointView| from.is_some() && point.hop <= from;
    let late = |point: &&PointView| to.is_some() && point.hop >= to;
    let points = || flow.points.iter().filter(met);
    (
        points().filter(early).max_by_key(|point| point.hop),
        points().filter(late).min_by_key(|point| point.hop),
    )
}

/// Whether a change was made in the namespace of a point.
fn is_within(flow: &Flow, point: &PointView, rewrite: &Rewrite) -> bool {
    let hop = flow.hops.iter().find(|hop| Some(hop.n) == point.hop);
    hop.is_some_and(|hop| hop.netns.is_some() && hop.netns == rewrite.netns)
}

/// Who translates, in words.
fn who(flow: &Flow, rewrite: &Rewrite) -> String {
    let name = flow.hops.iter().find_map(|hop| {
        let here = hop.netns.is_some() && hop.netns == rewrite.netns;
        hop.netns_name.as_deref().filter(|_| here)
    });
    let name = name.map_or_else(String::new, |name| format!(" {name}"));
    match rewrite.place {
        Where::Pod => format!("the pod{name} itself translates"),
        Where::Gateway => format!("the gateway{name} itself translates"),
        Where::Node => "the node translates".to_owned(),
        Where::Service => "the node translates, for a Service".to_owned(),
        Where::Proxy => "a proxy answers for it".to_owned(),
        Where::Downstream if rewrite.netns.is_some() => format!("{} translates", name.trim()),
        Where::Downstream => "by whom was not seen".to_owned(),
    }
}

fn space(flow: &Flow, point: &PointView) -> String {
    let hop = flow.hops.iter().find(|hop| Some(hop.n) == point.hop);
    let name = hop.and_then(|hop| hop.netns_name.clone());
    name.unwrap_or_else(|| point.name.clone())
}

/// Adds what the points saw of a flow to the counts, which begin empty.
pub fn sums(counts: &mut Vec<PointSum>, flow: &Flow) {
    for point in &flow.points {
        let at = counts
            .iter()
            .position(|sum| (&sum.name, &sum.host) == (&point.name, &point.host));
        let at = at.unwrap_or_else(|| {
            counts.push(PointSum::of(point));
            counts.len() - 1
        });
        let sum = &mut counts[at];
        match point.seen {
            PointSeen::Never => sum.never += flow.count,
            _ => sum.saw += flow.count,
        }
    }
}
