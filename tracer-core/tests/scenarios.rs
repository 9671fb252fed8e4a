//! Every scenario file: a host, its sightings, and the whole report that must come of them.

mod notation;

use notation::Scenario;
use serde_json::Value;
use std::fmt::Write as _;

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
                Value::Array(items) => {
                    let _ = writeln!(out, "{key}: {}", items.len());
                    for item in items {
                        let _ = writeln!(out, "  {}", brief(item));
                    }
                }
                value => {
                    let _ = writeln!(out, "{key}: {}", brief(value));
                }
            }
        }
        out.push('\n');
    }
    let _ = writeln!(out, "flows: {}", json(trace.flows()));
    for group in trace.groups().summary() {
        let _ = writeln!(out, "group: {}", brief(json(group)));
    }
    let _ = writeln!(out, "stray sightings: {}", trace.stats().stray);
    out
}

fn json(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("a value that can be serialised")
}

/// Tuples in one word, and without what is null: for people to read.
fn brief(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let text = |key: &str| {
                let value = fields.get(key)?;
                Some(
                    value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned),
                )
            };
            let tuple = || {
                let (src, sport) = (text("src")?, text("sport")?);
                let (dst, dport) = (text("dst")?, text("dport")?);
                let proto = text("proto").map_or(String::new(), |p| p + " ");
                Some(format!("{proto}{src}:{sport}>{dst}:{dport}"))
            };
            let end = || Some(format!("{}:{}", text("addr")?, text("port")?));
            if let Some(word) = tuple().or_else(end) {
                return word.into();
            }
            let fields = fields.into_iter().filter(|(_, v)| !v.is_null());
            Value::Object(fields.map(|(k, v)| (k, brief(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(brief).collect()),
        value => value,
    }
}

#[test]
fn scenarios_give_their_reports() {
    let mut files: Vec<_> = std::fs::read_dir(notation::folder())
        .expect("the scenario folder")
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 50, "only {} scenario files", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a readable scenario");
        let name = path.file_stem().and_then(|s| s.to_str()).expect("a name");
        eprintln!("scenario {name}");
        insta::assert_snapshot!(name, render(&Scenario::parse(&text)));
    }
}
