//! Contracts read and checked.

use super::{Checker, Contract};
use crate::expect::{ExitStatus, Nodes};
use crate::report::{Finding, Flow};
use proptest::prelude::*;
use serde_json::{Value, json};

const GOOD: &str = r#"version = 1

[[to]]
dest = "10.20.30.40:443"
proto = "tcp"
from = { pods = ["shop/web-*"], namespaces = ["billing"], cidrs = ["10.12.0.0/16"] }
source = "node"
replies_to = "10.100.0.0/16"
identity = "proxy-protocol"
agreed = { by = "A. Example, network", on = 2026-11-20 }

[[to]]
dest = "fd50::/16"
source = "preserved"
replies_to = "fd12::/16"
identity = "source"
agreed = { by = "B. Example", on = 2026-11-21 }
note = "until the move"
"#;

fn contract(text: &str) -> Contract {
    match text.parse() {
        Ok(contract) => contract,
        Err(error) => panic!("{error}"),
    }
}

fn error(text: &str) -> String {
    let error = text.parse::<Contract>().expect_err(text).to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn a_contract_is_read_with_its_lines() {
    let both = contract(GOOD).terms;
    let names: Vec<_> = both
        .iter()
        .map(|terms| (terms.line, terms.dest.to_string(), terms.from.to_string()))
        .collect();
    let should = [
        (3, "10.20.30.40:443", "shop/web-*, billing/*, 10.12.0.0/16"),
        (12, "fd50::/16", "anyone"),
    ];
    assert_eq!(
        names,
        should.map(|(line, to, from)| (line, to.to_owned(), from.to_owned()))
    );
    assert_eq!(both[1].agreed.on, "2026-11-21");
    // As recordings keep it.
    let mut bytes = Vec::new();
    ciborium::into_writer(&contract(GOOD), &mut bytes).expect("CBOR");
    let back: Contract = ciborium::from_reader(bytes.as_slice()).expect("a contract");
    assert_eq!(back, contract(GOOD));
}

#[test]
fn errors_say_line_key_and_what_is_accepted() {
    let with = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        error(&GOOD.replacen(from, to, 1))
    };
    let mut all = String::new();
    for (from, to) in [
        ("source = \"node\"", "sorce = \"node\""),
        ("source = \"node\"", "source = \"nodes\""),
        ("source = \"node\"", "source = 5"),
        ("source = \"node\"", "source = \"10.100.0.5/16\""),
        ("source = \"node\"", "source = \"10.101.0.5\""),
        ("source = \"node\"", "source = \"fd00::1\""),
        ("source = \"node\"\n", ""),
        ("10.20.30.40:443", "10.20.30.40:0"),
        ("10.20.30.40:443", "10.20.30.40/16"),
        ("10.20.30.40:443", "db.example"),
        ("\"tcp\"", "\"gre\""),
        ("\"tcp\"", "\"icmp\""),
        ("shop/web-*", "web"),
        ("shop/web-*", "shop/*-web"),
        ("namespaces", "namespace"),
        ("10.12.0.0/16", "10.12.3.4/16"),
        ("10.12.0.0/16", "fd00::/8"),
        ("10.100.0.0/16", "fd00::/8"),
        ("proxy-protocol", "proxy"),
        ("2026-11-20", "\"2026-11-20\""),
        ("2026-11-20", "2026-11-20T10:00:00Z"),
        ("2026-11-20", "2026-13-20"),
        ("version = 1", "version = 2"),
        ("version = 1", ""),
        ("[[to]]", "[[too]]"),
        ("dest = \"fd50::/16\"", "dest = \"fd50::/16"),
        ("note =", "note"),
        ("fd50::/16\"\n", "fd50::/16\"\nprobe = \"fd50::/64\"\n"),
        ("fd50::/16\"\n", "fd50::/16\"\nprobe = \"fd51::1\"\n"),
        (
            "fd50::/16\"\n",
            "fd50::/16\"\nprobe = \"[fd50::1]:443\"\nproto = \"icmp\"\n",
        ),
        ("40:443\"\n", "40:443\"\nprobe = \"10.20.30.40:80\"\n"),
    ] {
        all.push_str(&format!(
            "{} -> {}\n  {}\n",
            from.escape_debug(),
            to.escape_debug(),
            with(from, to)
        ));
    }
    let twice = GOOD
        .replace("fd50::/16", "10.9.0.0/16")
        .replace("fd12::/16", "10.12.0.0/16");
    let twice = format!(
        "{twice}[[to]]{}",
        twice.rsplit("[[to]]").next().unwrap_or_default()
    );
    all.push_str(&format!(
        "twice\n  {}\nnothing\n  {}\n",
        error(&twice),
        error("version = 1\nto = []")
    ));
    insta::assert_snapshot!("contract-errors", all);
}

fn flow(parts: &[(&str, Value)]) -> Flow {
    let mut value = json!({
        "schema": 1, "id": "1", "first_seen": "2026-12-01T11:39:02.114Z", "end": "closed", "count": 1,
        "flow": {"proto": "tcp", "src": "10.12.3.4", "sport": 1, "dst": "10.20.30.40", "dport": 443},
        "origin": {"kind": "pod", "netns": null, "netns_name": null, "pod": "shop/web-0", "ifname": null, "process": null},
        "hops": [], "packets": {"request": 1, "reply": 1, "request_bytes": 1, "reply_bytes": 1},
        "rewrites": [{"direction": "request", "field": "src", "from": {"addr": "10.12.3.4", "port": 1},
            "to": {"addr": "10.100.0.5", "port": 1}, "between": [1, 2], "where": "node", "netns": 1, "hook": "postrouting",
            "agent": "netfilter", "marked_by": null, "program": null, "evidence": "conntrack",
            "rule": {"backend": "iptables-legacy", "family": "ip", "table": "nat", "chain": "IP-MASQ-AGENT", "index": 2,
                "handle": null, "text": "-A IP-MASQ-AGENT -j MASQUERADE", "comment": null, "owner": "ip-masq-agent",
                "evidence": "observed", "path": []}}],
        "delivery": {"code": "completed", "last_seen": null, "reply_last_seen": null, "refused_by": null},
        "drops": [], "proxy": null, "findings": [],
        "verdict": {"source": "source-rewritten", "source_on_wire": "10.100.0.5", "complete": true, "text": ""},
    });
    for (pointer, part) in parts {
        *value.pointer_mut(pointer).expect(pointer) = part.clone();
    }
    serde_json::from_value(value).expect("a flow")
}

fn kept(parts: &[(&str, Value)]) -> Flow {
    let own = [
        ("/rewrites", json!([])),
        ("/verdict/source", json!("source-preserved")),
        ("/verdict/source_on_wire", json!("10.12.3.4")),
    ];
    flow(&[&own[..], parts].concat())
}

/// What each flow violates, and then the first entry: its line, and the exit status of both.
fn checked(flows: &[Flow]) -> (Vec<Vec<String>>, String, ExitStatus) {
    let mut checker = Checker::new(contract(GOOD));
    let says = |found: Vec<Finding>| found.into_iter().map(|f| f.text).collect();
    let said = flows
        .iter()
        .map(|flow| says(checker.judge(flow, Nodes::AsReported)))
        .collect();
    let line = checker.agreements()[0].line.clone();
    (said, line, checker.status())
}

#[test]
fn what_is_agreed_holds_and_is_one_line() {
    let (said, line, status) = checked(&[flow(&[]), flow(&[("/flow/dst", json!("10.9.9.9"))])]);
    assert_eq!(said, [Vec::<String>::new(), Vec::new()]);
    assert_eq!(
        line,
        "to 10.20.30.40:443: leaves as 10.100.0.5 (node); replies return to 10.100.0.0/16; \
         rule iptables-legacy nat/IP-MASQ-AGENT 2; checked 2026-12-01T11:39:02.114Z"
    );
    // The second entry was not checked.
    assert_eq!(status, ExitStatus::Nothing);
}

#[test]
fn a_violation_names_what_was_agreed_and_who_broke_it() {
    let (said, line, status) = checked(&[kept(&[("/delivery/code", json!("no-reply"))])]);
    let agreed = "agreed with A. Example, network on 2026-11-20 is that to 10.20.30.40:443";
    let should = [
        format!("{agreed} node leaves, and 10.12.3.4 left"),
        format!("{agreed} replies return to 10.100.0.0/16, and 10.12.3.4 left"),
    ];
    assert_eq!(said, [should]);
    assert_eq!(
        line,
        "to 10.20.30.40:443: VIOLATED: leaves as 10.12.3.4 (kept), agreed is the node's; replies return to 10.12.3.4, \
         agreed is 10.100.0.0/16; no reply was seen; no rule named; checked 2026-12-01T11:39:02.114Z"
    );
    assert_eq!(status, ExitStatus::Violated);
}

#[test]
fn whoever_is_not_named_is_told_and_not_judged() {
    let other = [
        ("/origin/pod", json!("other/web-0")),
        ("/flow/src", json!("10.99.0.1")),
    ];
    let (said, line, status) = checked(&[flow(&other)]);
    let should = "other/web-0 sends to 10.20.30.40, and the contract has no entry for that sender: nothing is agreed about its source";
    assert_eq!(said, [[should.to_owned()]]);
    assert_eq!(
        line,
        "to 10.20.30.40:443: NOT CHECKED: no flow was seen; agreed is node"
    );
    assert_eq!(status, ExitStatus::Nothing);
    for (pod, src) in [
        ("shop/web-9", "10.99.0.1"),
        ("billing/x", "10.99.0.1"),
        ("other/x", "10.12.9.9"),
    ] {
        let one = flow(&[("/origin/pod", json!(pod)), ("/flow/src", json!(src))]);
        let terms = &contract(GOOD).terms[0];
        assert!(terms.is_for(&one) && terms.is_from(&one), "{pod}");
    }
}

#[test]
fn what_cannot_be_told_is_not_checked() {
    let (said, line, status) = checked(&[kept(&[("/verdict/complete", json!(false))])]);
    assert_eq!(said, [Vec::<String>::new()]);
    assert_eq!(
        line,
        "to 10.20.30.40:443: NOT CHECKED: too little was seen to tell its source; agreed is node"
    );
    assert_eq!(status, ExitStatus::Uncertain);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = text.parse::<Contract>();
    }

    #[test]
    fn nor_a_damaged_contract(at in 0..GOOD.len(), byte in 0u8..128) {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = byte;
        if let Err(error) = String::from_utf8_lossy(&bytes).parse::<Contract>() {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
