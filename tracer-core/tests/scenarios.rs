//! Every scenario file: a host, its sightings, and the whole report that must come of them.

mod notation;

use notation::Scenario;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// The whole report, one hop, rewrite and finding a line.
fn render(scenario: &Scenario) -> String {
    let (flows, trace) = scenario.run_in_order();
    let mut out = String::new();
    for flow in &flows {
        let Ok(Value::Object(fields)) = serde_json::to_value(flow) else {
            unreachable!("a flow is an object");
        };
        for (key, value) in fields {
            match value {
                Value::Array(items) if !items.is_empty() => {
                    let _ = writeln!(out, "{key}:");
                    for item in items {
                        let _ = writeln!(out, "  {item}");
                    }
                }
                value => {
                    let _ = writeln!(out, "{key}: {value}");
                }
            }
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "flows: {}",
        serde_json::to_string(&trace.flows()).unwrap()
    );
    for group in trace.groups().summary() {
        let _ = writeln!(out, "group: {}", serde_json::to_string(&group).unwrap());
    }
    let _ = writeln!(out, "stray sightings: {}", trace.stats().stray);
    out
}

#[test]
fn scenarios_give_their_reports() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the scenario folder")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario files");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable scenario");
        let name = path.file_stem().and_then(|s| s.to_str()).expect("a name");
        eprintln!("scenario {name}");
        insta::assert_snapshot!(name, render(&Scenario::parse(&text)));
    }
}
