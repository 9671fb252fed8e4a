//! Whole comparisons of made-up flows.

use super::{Comparison, Seen};
use crate::report::Flow;
use serde_json::{Value, json};
use std::slice::from_ref;

fn flow(pod: Option<&str>, src: &str, wire: Option<&str>, more: &Value) -> Flow {
    let rewritten = wire.is_some_and(|wire| wire != src);
    let source = match wire {
        None => "source-unknown",
        Some(_) if rewritten => "source-rewritten",
        Some(_) => "source-preserved",
    };
    let mut value = json!({
        "schema": 1, "id": "1", "first_seen": "", "end": "closed", "count": 1,
        "flow": {"proto": "tcp", "src": src, "sport": 1, "dst": "10.20.30.40", "dport": 443},
        "origin": {"kind": "pod", "netns": null, "netns_name": null, "pod": pod, "ifname": null, "process": null},
        "hops": [], "rewrites": [],
        "packets": {"request": 1, "reply": 1, "request_bytes": 1, "reply_bytes": 1},
        "delivery": {"code": "completed", "last_seen": null, "reply_last_seen": null, "refused_by": null},
        "drops": [], "proxy": null, "findings": [],
        "verdict": {"source": source, "source_on_wire": wire, "complete": true, "text": ""},
    });
    for (key, set) in more.as_object().into_iter().flatten() {
        if let Some(slot) = value.pointer_mut(key) {
            *slot = set.clone();
        }
    }
    serde_json::from_value(value).expect("a flow")
}

fn seen(flows: &[Flow]) -> Seen {
    let mut seen = Seen::default();
    flows.iter().for_each(|flow| seen.add(flow));
    seen
}

fn compare(before: &[Flow], after: &[Flow]) -> Value {
    let Comparison { changes, compared } = Comparison::of(seen(before), seen(after));
    json!({"changes": changes, "compared": compared})
}

const NODE: Option<&str> = Some("10.100.0.5");

#[test]
fn another_port_is_the_same_path() {
    let a = flow(Some("shop/web-0"), "10.12.3.4", NODE, &Value::Null);
    let b = flow(
        Some("shop/web-0"),
        "10.12.3.4",
        NODE,
        &json!({"/flow/sport": 9}),
    );
    let same = compare(from_ref(&a), &[b, a.clone()]);
    assert_eq!(same["changes"], json!([]));
    assert_eq!(same["compared"]["unchanged"], 1);
    assert_eq!(same["compared"]["only"], json!([0, 0]));
}

#[test]
fn a_changed_source_is_told_with_both_sides() {
    let before = flow(Some("shop/web-0"), "10.12.3.4", NODE, &Value::Null);
    let after = flow(
        Some("shop/web-0"),
        "10.12.3.4",
        Some("10.12.3.4"),
        &json!({"/delivery/code": "no-reply"}),
    );
    let other = flow(None, "10.99.0.1", NODE, &Value::Null);
    let is = compare(&[before, other], &[after]);
    let should = json!({
        "changes": [{
            "flow": {"kind": "pod", "who": "shop/web-0", "proto": "tcp", "dst": "10.20.30.40", "dport": 443},
            "from": [{"source": "source-rewritten", "addr": "10.100.0.5", "flows": 1}],
            "to": [{"source": "source-preserved", "addr": "10.12.3.4", "flows": 1}],
            "rule_before": null, "rule_after": null,
            "delivery_before": ["completed"], "delivery_after": ["no-reply"], "complete": true,
        }],
        "compared": {
            "paths": 1, "changed": 1, "unchanged": 0, "untold": 0,
            "only_before": [{"kind": "pod", "who": "10.99.0.1", "proto": "tcp", "dst": "10.20.30.40", "dport": 443}],
            "only_after": [], "only": [1, 0], "older": [0, 0], "overflow": [0, 0],
        },
    });
    assert_eq!(is, should);
}

/// After a roll-out the pods have other names and addresses; kept sources stay kept ones.
#[test]
fn pods_of_a_set_are_matched_where_their_names_are_not() {
    let pod = |name: &str, src: &str, wire| flow(Some(name), src, wire, &Value::Null);
    let before = [
        pod("shop/web-7d9f8bdc4-x2x9k", "10.12.3.4", Some("10.12.3.4")),
        pod("shop/web-7d9f8bdc4-z2x9k", "10.12.3.5", Some("10.12.3.5")),
    ];
    let kept = [pod(
        "shop/web-5bcf8bdc4-b2b9k",
        "10.12.9.1",
        Some("10.12.9.1"),
    )];
    assert_eq!(compare(&before, &kept)["compared"]["unchanged"], 1);
    let rewritten = [pod("shop/web-5bcf8bdc4-b2b9k", "10.12.9.1", NODE)];
    let is = compare(&before, &rewritten);
    assert_eq!(is["changes"][0]["flow"]["who"], "shop/web-*");
    let from = json!([{"source": "source-preserved", "addr": "10.12.3.4", "flows": 2}]);
    assert_eq!(is["changes"][0]["from"], from);
}

#[test]
fn what_does_not_tell_its_source_is_not_compared() {
    let told = flow(Some("a/b"), "10.12.3.4", NODE, &Value::Null);
    let died = flow(Some("a/b"), "10.12.3.4", None, &Value::Null);
    let is = compare(from_ref(&told), from_ref(&died));
    assert_eq!(
        (&is["changes"], &is["compared"]["untold"]),
        (&json!([]), &json!(1))
    );
    // Beside others that do, it is passed over.
    let is = compare(from_ref(&told), &[died, told.clone()]);
    assert_eq!(is["compared"]["unchanged"], 1);
    let old = json!([{"code": "mapping-predates-trace", "severity": "info", "text": "", "fix": null,
        "rule": null, "hop": null, "data": null}]);
    let old = flow(
        Some("a/b"),
        "10.12.3.4",
        Some("10.12.3.4"),
        &json!({"/findings": old}),
    );
    let is = compare(&[told], &[old]);
    assert_eq!(is["compared"]["older"], json!([0, 1]));
    assert_eq!(is["compared"]["only"], json!([1, 0]));
}
