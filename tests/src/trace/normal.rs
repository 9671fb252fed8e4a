//! A report without what differs from run to run, so that whole reports compare.
//!
//! What is replaced: times, durations, ids, process ids (in sentences too) and names, namespace inodes (by the lab's names), interface indexes,
//! the machine's name and kernel, counts of packets and events (how TCP acknowledges is the kernel's affair; zero stays
//! zero), and the means of observation, which depend on the kernel, as does whether a rule was observed or replayed.
//! Everything else stays; what the kernel calls a drop is compared on the machine's own kernel only.

use serde_json::{Map, Value, json};

use super::Report;
use crate::lab::Lab;
use anyhow::Result;

/// Keys whose value is replaced by `<key>` unless it is null.
const REPLACED: &[&str] = &[
    "id",
    "first_seen",
    "started",
    "duration_s",
    "kernel",
    "version",
    "host",
    "ifindex",
    "t_us",
    "pid",
    "comm",
    "cgroup",
    "new_flow",
    "observed_by",
    "received",
    "offset_us",
    "error_us",
    "changed",
    "next_resync",
];

/// Keys that count packets or bytes: zero stays, anything else becomes `<n>`.
const COUNTED: &[&str] = &["request", "reply", "request_bytes", "reply_bytes"];

/// Names and inodes of the labs' namespaces, and what to write in their place.
#[derive(Debug)]
pub struct Names {
    replacements: Vec<(String, String)>,
}

impl Names {
    /// Of these labs, each with the word that shall stand before its namespaces' names.
    #[must_use]
    pub fn of(labs: &[(&Lab, &str)]) -> Self {
        let mut replacements = Vec::new();
        for (lab, word) in labs {
            for ns in lab.spaces() {
                replacements.push((lab.netns(ns), format!("{word}{ns}")));
                if let Some(inode) = lab.inode(ns) {
                    replacements.push((inode.to_string(), format!("<netns of {word}{ns}>")));
                }
            }
        }
        for (lab, word) in labs {
            for (ns, inode) in lab.former() {
                replacements.push((inode.to_string(), format!("<netns of {word}{ns}>")));
            }
        }
        replacements.extend(
            labs.iter()
                .map(|(lab, _)| (lab.prefix().to_owned(), "<lab>".to_owned())),
        );
        // Longer names first: `…-pod2` before `…-pod`.
        replacements.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        Self { replacements }
    }

    fn apply(&self, text: &str) -> String {
        self.replacements
            .iter()
            .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }
}

/// The whole run as one comparable value: exit status, flows in order of their tuples, summary.
///
/// # Errors
/// When the output is not what the contract says (NDJSON that ends with one summary).
pub fn whole(report: &Report, names: &Names) -> Result<Value> {
    let flows: Vec<Value> = report
        .flows()?
        .into_iter()
        .map(|flow| normal("", without_age(flow), names))
        .collect();
    let summary = normal("", report.summary()?, names);
    let mut whole = json!({"exit": report.status, "flows": flows, "summary": summary});
    let told = report.objects()?.into_iter();
    let told = told.filter(|line| line["type"] != "flow" && line["type"] != "summary");
    let told: Vec<Value> = told.map(|line| normal("", line, names)).collect();
    if !told.is_empty() {
        whole["lines"] = Value::Array(told);
    }
    Ok(whole)
}

/// Conntrack calls a UDP flow assured that has lasted for two seconds.
fn without_age(mut flow: Value) -> Value {
    if flow["flow"]["proto"] == "udp" {
        let hops = flow["hops"].as_array_mut().into_iter().flatten();
        for words in hops.filter_map(|hop| hop.pointer_mut("/ct/status")?.as_array_mut()) {
            words.retain(|word| word != "assured");
        }
    }
    flow
}

/// One value of a report, normalised.
#[must_use]
pub fn normal(key: &str, value: Value, names: &Names) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if REPLACED.contains(&key) => Value::String(format!("<{key}>")),
        Value::Number(number) if COUNTED.contains(&key) && number.as_u64() != Some(0) => {
            json!("<n>")
        }
        Value::String(text) if key == "evidence" && (text == "observed" || text == "replayed") => {
            json!("<observed or replayed>")
        }
        // A rung names its flows by their ids.
        Value::String(_) if key == "flows" => json!("<id>"),
        Value::Number(number) if key == "netns" => Value::String(names.apply(&number.to_string())),
        Value::String(text) => {
            let text = without_hashed_port_in(&names.apply(&text));
            Value::String(without_moments(&without_ids(&text)))
        }
        Value::Array(items) => items
            .into_iter()
            .map(|item| normal(key, item, names))
            .collect(),
        Value::Object(mut fields) => {
            // Where no points were named there is nothing to compare.
            fields.retain(|key, value| key != "points" || *value != json!([]));
            // Of a drop: how often a sender tries again is the kernel's affair.
            if fields.contains_key("explain") {
                fields.insert("count".to_owned(), json!("<count>"));
            }
            without_hashed_port(&mut fields);
            without_time_of_check(&mut fields);
            Value::Object(sorted(fields, names))
        }
        other => other,
    }
}

/// Takes out of a normalised value what another kernel than the one that the expected reports were written on calls otherwise:
/// the reasons of drops, if it has names for reasons at all, and the functions that freed the packets. (The claims hold the reason.) An emulated
/// machine may also take longer than a silent flow is waited for: then it was told before the trace ended.
pub fn without_kernels_words(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_kernels_words),
        Value::Object(fields) => {
            if fields.contains_key("explain") {
                for key in ["reason", "location"] {
                    fields.insert(key.to_owned(), json!(format!("<{key}>")));
                }
            }
            if let Some(end) = fields.get_mut("end")
                && (*end == "timeout" || *end == "trace-ended")
            {
                *end = json!("<not closed>");
            }
            fields.values_mut().for_each(without_kernels_words);
        }
        _ => {}
    }
}

/// Of an entry of a contract: when it was checked, in its sentence too.
fn without_time_of_check(fields: &mut Map<String, Value>) {
    let Some(Value::String(checked)) = fields.get("checked").cloned() else {
        return;
    };
    fields.insert("checked".to_owned(), json!("<checked>"));
    if let Some(Value::String(line)) = fields.get_mut("line") {
        *line = line.replace(&checked, "<checked>");
    }
}

/// Geneve's source port is a hash with a secret of the machine's.
const GENEVE: u16 = 6081;

fn without_hashed_port(fields: &mut Map<String, Value>) {
    for (known, hashed) in [("dport", "sport"), ("sport", "dport")] {
        if fields.get(known) == Some(&json!(GENEVE)) {
            fields.insert(hashed.to_owned(), json!("<port>"));
        }
    }
}

/// The same in sentences: `geneve 192.168.50.11:4711 → …`.
fn without_hashed_port_in(text: &str) -> String {
    let Some((before, way)) = text.split_once("geneve ") else {
        return text.to_owned();
    };
    match (way.split_once(':'), way.find(' ')) {
        (Some((addr, _)), Some(end)) if addr.len() < end => {
            format!("{before}geneve {addr}:<port>{}", &way[end..])
        }
        _ => text.to_owned(),
    }
}

/// Ids of programs and processes in sentences: `(id 4711)`, `(pid 4711)`.
fn without_ids(text: &str) -> String {
    without_numbers(&without_numbers(text, "(id ", "<id>"), "(pid ", "<pid>")
}

/// Numbers between these words and a closing parenthesis.
fn without_numbers(text: &str, before: &str, instead: &str) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_id = rest.len() < part.len() && rest.starts_with(')');
        out.push_str(before);
        out.push_str(if is_id { instead } else { "" });
        out.push_str(if is_id { rest } else { part });
    }
    out
}

/// Processes and times in sentences: `process 4711`, `2026-12-01T11:39:00Z`.
#[must_use]
pub fn without_moments(text: &str) -> String {
    const TIME: &str = "dddd-dd-ddTdd:dd:ddZ";
    let fits = |bytes: &[u8]| {
        let like = |(byte, shape): (&u8, u8)| match shape {
            b'd' => byte.is_ascii_digit(),
            other => *byte == other,
        };
        bytes.len() >= TIME.len() && bytes.iter().zip(TIME.bytes()).all(like)
    };
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        if fits(rest.as_bytes()) {
            out.push_str("<time>");
            rest = &rest[TIME.len()..];
            continue;
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if out.ends_with("process ") && digits > 0 {
            out.push_str("<pid>");
            rest = &rest[digits..];
        }
    }
    out
}

fn sorted(fields: Map<String, Value>, names: &Names) -> Map<String, Value> {
    let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    fields
        .into_iter()
        .map(|(key, value)| (key.clone(), normal(&key, value, names)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_a_hash_is_replaced() {
        let names = Names {
            replacements: Vec::new(),
        };
        let outer = json!({"text": "inside geneve 10.0.0.1:77 → 10.0.0.2:6081; more", "src": "a", "sport": 77, "dport": 6081});
        let should = json!({"text": "inside geneve 10.0.0.1:<port> → 10.0.0.2:6081; more", "src": "a", "sport": "<port>", "dport": 6081});
        assert_eq!(normal("", outer, &names), should);
        let plain = json!({"text": "vxlan 10.0.0.1:77 → b", "sport": 77, "dport": 8472});
        assert_eq!(normal("", plain.clone(), &names), plain);
    }

    #[test]
    fn only_what_moves_is_replaced() {
        let names = Names {
            replacements: vec![
                ("x-pod2".into(), "pod2".into()),
                ("77".into(), "<netns of pod>".into()),
            ],
        };
        let flow = json!({
            "id": "abc", "t_us": 4, "netns": 77, "netns_name": "x-pod2", "sport": 77, "process": null, "pid": 3,
            "explain": "by web (id 5)", "count": 3, "reason": null, "location": "f", "packets": {"request": 5, "reply": 0}, "direction": "request", "verdict": {"text": "from x-pod2, process 7 at 2026-12-01T11:39:00Z"},
        });
        let should = json!({
            "id": "<id>", "t_us": "<t_us>", "netns": "<netns of pod>", "netns_name": "pod2", "sport": 77,
            "explain": "by web (id <id>)", "count": "<count>", "reason": null, "location": "f", "process": null, "pid": "<pid>", "packets": {"request": "<n>", "reply": 0}, "direction": "request",
            "verdict": {"text": "from pod2, process <pid> at <time>"},
        });
        let mut flow = normal("", flow, &names);
        assert_eq!(flow, should);
        without_kernels_words(&mut flow);
        assert_eq!(flow["reason"], "<reason>");
    }
}
