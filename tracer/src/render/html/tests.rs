//! Whole pages, and pages of strangers' words.

use super::super::look::Look;
use super::super::samples::{self, AGREEMENT, flow, summary};
use super::super::text::Way;
use super::{flow as page_flow, head, tail};
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};
use tracer_core::report::{Agreement, Flow, Line, Summary};

const LOOK: Look = Look {
    colour: true,
    names: true,
    verbose: 0,
    width: Some(40),
};

fn agreement() -> Agreement {
    match serde_json::from_str(AGREEMENT) {
        Ok(Line::Agreement(agreement)) => *agreement,
        other => panic!("{other:?}"),
    }
}

fn page(flow: &Flow, summary: &Summary, agreement: &Agreement) -> String {
    let way = Way {
        exemplar: flow,
        origins: 1,
        source_on_wire: flow.verdict.source_on_wire,
    };
    [
        head("0.1.0", &summary.host),
        page_flow(flow, LOOK),
        super::way(&way, LOOK),
        tail(summary, Some(&[way]), std::slice::from_ref(agreement), LOOK),
    ]
    .concat()
}

#[test]
fn a_whole_page() {
    let mut flow = flow();
    flow.findings = vec![samples::finding(
        "peer-route-suspected",
        "warning",
        "nothing came back",
        Some("look there"),
    )];
    let page = page(&flow, &summary(), &agreement());
    let without_style = page.replace(super::STYLE, "");
    assert_snapshot!("page", without_style);
}

/// It is one file: nothing is fetched, nothing runs.
#[test]
fn it_needs_nothing_else() {
    let page = page(&flow(), &summary(), &agreement());
    for outside in [
        "http:", "https:", "<script", "src=", "href=", "url(", "@import", " on",
    ] {
        let tags = page
            .split('<')
            .skip(1)
            .filter_map(|rest| rest.split_once('>'));
        let mut tags = tags.map(|(tag, _)| format!("<{tag}>"));
        assert!(!tags.any(|tag| tag.contains(outside)), "{outside}");
    }
    assert!(!super::STYLE.contains("url(") && !super::STYLE.contains("@import"));
}

/// The tags of a page, in their order, attributes and all.
fn tags(page: &str) -> Vec<&str> {
    let rest = page.split('<').skip(1);
    rest.map(|rest| rest.split('>').next().unwrap_or_default())
        .collect()
}

#[test]
fn markup_in_names_is_text() {
    let evil = "</style><script>alert(1)</script><img src=x onerror='x'>\"&amp;\u{1b}[31m";
    let (mut hostile, mut sums, mut agreed) = (flow(), summary(), agreement());
    hostile.origin.pod = Some(evil.to_owned());
    hostile.hops[0].ifname = Some(evil.to_owned());
    hostile.findings = vec![samples::finding("events-lost", "error", evil, Some(evil))];
    sums.host = evil.to_owned();
    agreed.line = evil.to_owned();
    let page = page(&hostile, &sums, &agreed);
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{1b}'));
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{page}"
    );
    // What is an entity already is shown as it was written.
    assert!(page.contains("&amp;amp;"), "{page}");
}

/// Every string of a report line, wherever it is.
fn strings<'a>(value: &'a mut Value, out: &mut Vec<&'a mut Value>) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|v| strings(v, out)),
        Value::Array(all) => all.iter_mut().for_each(|v| strings(v, out)),
        Value::String(_) => out.push(value),
        _ => {}
    }
}

/// A line with its string number `n` replaced, if that may be anything.
fn with(line: &str, n: usize, text: &str) -> Option<Line> {
    let mut value: Value = serde_json::from_str(line).unwrap();
    if value["type"] == "flow" {
        value["drops"] = json!([{"direction":"reply","after":1,"netns":1,"netns_name":"n","reason":"r","location":"l",
            "explain":"e","rule":null,"program":{"id":7,"name":"p"},"count":1}]);
    }
    let mut all = Vec::new();
    strings(&mut value, &mut all);
    let len = all.len();
    *all[n % len] = json!(text);
    serde_json::from_value(value).ok()
}

fn page_of(line: Line) -> String {
    match line {
        Line::Flow(one) => page(&one, &summary(), &agreement()),
        Line::Summary(one) => page(&flow(), &one, &agreement()),
        Line::Agreement(one) => page(&flow(), &summary(), &one),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn no_string_of_a_report_becomes_markup(n in 0..80usize, text in "(\\PC|[<>&\"'\u{0}-\u{1f}\u{202e}]){0,60}") {
        for line in [samples::FLOW, samples::SUMMARY, AGREEMENT] {
            let (Some(hostile), Some(harmless)) = (with(line, n, &text), with(line, n, "harmless")) else {
                continue;
            };
            let (hostile, harmless) = (page_of(hostile), page_of(harmless));
            prop_assert_eq!(tags(&hostile), tags(&harmless));
            prop_assert!(!hostile.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
