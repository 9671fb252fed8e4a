//! Text as people read it.

use super::super::look::Look;
use super::super::samples::{
    finding, flow as example, flow_with, rung as example_rung, summary as example_summary,
};
use super::*;
use insta::assert_snapshot;
use serde_json::json;
use tracer_core::report::{ExpectLine, Flow, Rung, RungBy, RungCode};

const PLAIN: Look = Look {
    colour: false,
    names: true,
    verbose: 0,
    width: None,
};

fn preserved() -> Flow {
    flow_with(&[
        ("/hops/1/tuple/src", json!("10.12.3.4")),
        ("/hops/1/tuple/sport", json!(43210)),
        ("/rewrites", json!([])),
        ("/packets/reply", json!(0)),
        (
            "/delivery",
            json!({"code":"no-reply","last_seen":2,"reply_last_seen":null,"refused_by":null}),
        ),
        (
            "/verdict",
            json!({"source":"source-preserved","source_on_wire":"10.12.3.4","complete":true,"text":"source kept"}),
        ),
    ])
}

#[test]
fn a_masqueraded_flow() {
    assert_snapshot!(flow(&example(), PLAIN));
}

#[test]
fn more_and_less_of_it() {
    let names = Look {
        names: false,
        ..PLAIN
    };
    assert_snapshot!("numbers-only", flow(&example(), names));
    let verbose = Look {
        verbose: 1,
        ..PLAIN
    };
    assert_snapshot!("verbose", flow(&example(), verbose));
    let colour = Look {
        colour: true,
        ..PLAIN
    };
    assert_snapshot!("colours", flow(&example(), colour).replace('\u{1b}', "␛"));
}

#[test]
fn colours_add_nothing_but_colours() {
    let colour = Look {
        colour: true,
        ..PLAIN
    };
    for sample in [example(), preserved()] {
        let stripped = anstream::adapter::strip_str(&flow(&sample, colour)).to_string();
        assert_eq!(stripped, flow(&sample, PLAIN));
    }
}

#[test]
fn a_preserved_flow_without_an_answer() {
    let mut flow = preserved();
    flow.findings = vec![finding(
        "peer-route-suspected",
        "warning",
        "No answer to 10.12.3.4: does the far side have a route back to 10.12.0.0/16?",
        Some("on the far side: ip route get 10.12.3.4"),
    )];
    assert_snapshot!(super::flow(&flow, PLAIN));
}

#[test]
fn a_service_address_and_the_nodes_own_traffic() {
    let dnat = json!({
        "direction":"request","field":"dst","from":{"addr":"10.96.0.10","port":80},"to":{"addr":"10.12.9.1","port":8080},
        "between":[1,2],"where":"service","netns":1,"hook":"prerouting","agent":"netfilter","rule":null,"marked_by":null,
        "program":null,"evidence":"between"});
    let undo = json!({
        "direction":"reply","field":"src","from":{"addr":"10.12.9.1","port":8080},"to":{"addr":"10.96.0.10","port":80},
        "between":[2,1],"where":"service","netns":1,"hook":"prerouting","agent":"netfilter","rule":null,"marked_by":null,
        "program":null,"evidence":"conntrack"});
    let mut service = flow_with(&[
        ("/flow/dst", json!("10.96.0.10")),
        ("/flow/dport", json!(80)),
        ("/hops/0/tuple/dst", json!("10.96.0.10")),
        ("/hops/0/tuple/dport", json!(80)),
        ("/rewrites", json!([dnat, undo])),
        ("/verdict/source", json!("source-preserved")),
    ]);
    assert_snapshot!("service", flow(&service, PLAIN));
    let verbose = Look {
        verbose: 1,
        ..PLAIN
    };
    assert_snapshot!("service-verbose", flow(&service, verbose));

    service = flow_with(&[
        (
            "/origin",
            json!({"kind":"node","netns":1,"netns_name":"node","pod":null,"ifname":null,
            "process":{"pid":812,"comm":"curl","cgroup":"/user.slice"}}),
        ),
        ("/hops", json!([example().hops[1]])),
        ("/hops/0/n", json!(1)),
        ("/rewrites/0/between", json!([null, 1])),
        ("/rewrites/0/rule", json!(null)),
    ]);
    assert_snapshot!("node", flow(&service, PLAIN));
}

#[test]
fn every_way_to_end() {
    let mut all = String::new();
    let refused = json!({"addr":"10.20.30.40","kind":"rst","hop":2});
    let by_node = json!({"addr":"10.12.3.1","kind":"admin-prohibited","hop":1,"where":"node"});
    for (code, by) in [
        ("completed", json!(null)),
        ("handshake-only", json!(null)),
        ("no-reply", json!(null)),
        ("reply-lost", json!(null)),
        ("refused", refused),
        ("refused", by_node),
        ("refused", json!(null)),
        ("dropped", json!(null)),
        ("in-progress", json!(null)),
    ] {
        let delivery = json!({"code":code,"last_seen":2,"reply_last_seen":1,"refused_by":by});
        let text = flow(&flow_with(&[("/delivery", delivery)]), PLAIN);
        let mut lines = text.lines();
        all.push_str(&format!("{}\n", lines.next().unwrap_or_default()));
        all.push_str(&format!(
            "{}\n",
            lines.rfind(|l| !l.is_empty()).unwrap_or_default()
        ));
    }
    assert_snapshot!(all);
}

#[test]
fn a_reply_from_elsewhere_is_no_answer() {
    let mut flow = flow_with(&[("/delivery/code", json!("reply-lost"))]);
    flow.findings = vec![finding(
        "reply-bypassed-conntrack",
        "error",
        "the reply arrived from 10.12.3.9",
        None,
    )];
    let text = super::flow(&flow, PLAIN);
    assert_eq!(
        text.trim_end().lines().last(),
        Some(
            "  Left node-a by eth0 as 10.100.0.5. A reply came to the pod, but not from the address \
             that was asked."
        )
    );
}

#[test]
fn sentences_fit_a_terminal_and_lose_nothing() {
    let mut flow = preserved();
    let long = "the request left here as 10.12.3.4 and nothing came back: 10.20.30.40 may have no \
                route to 10.12.3.4, or it was lost or dropped on the way";
    let fix = "on the far side, look for a route to 10.12.3.4 (`ip route get 10.12.3.4`) and capture there";
    flow.findings = vec![finding("peer-route-suspected", "warning", long, Some(fix))];
    let narrow = Look {
        width: Some(80),
        colour: true,
        ..PLAIN
    };
    let text = anstream::adapter::strip_str(&super::flow(&flow, narrow)).to_string();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&text), words(&super::flow(&flow, PLAIN)));
    assert_snapshot!(text);
}

#[test]
fn a_drop_a_proxy_and_an_unknown() {
    let dropped = flow_with(&[
        (
            "/drops",
            json!([{"direction":"request","after":1,"netns":1,"netns_name":"node","reason":"NETFILTER_DROP",
            "location":"nf_hook_slow","explain":"a rule dropped it","rule":null,"program":{"id":7,"name":"policy"},"count":3}]),
        ),
        (
            "/findings",
            json!([{"code":"policy-drop","severity":"error","text":"the request was dropped here: a rule dropped it",
            "fix":"look at the rules","rule":null,"hop":1,"data":null}]),
        ),
        ("/delivery/code", json!("dropped")),
        ("/delivery/last_seen", json!(1)),
        ("/verdict/source_on_wire", json!(null)),
        ("/verdict/complete", json!(false)),
        ("/verdict/source", json!("source-unknown")),
        ("/verdict/text", json!("it never left")),
        ("/rewrites", json!([])),
        ("/count", json!(12)),
    ]);
    let dropped = Way {
        exemplar: &dropped,
        origins: 3,
        source_on_wire: None,
    };
    assert_snapshot!("drop", way(&dropped, PLAIN));
    let proxy = flow_with(&[
        (
            "/proxy",
            json!({"pid":812,"comm":"envoy","container":null,"listen":"0.0.0.0:443","new_flow":"8a",
            "evidence":"process","proxy_protocol":null}),
        ),
        ("/verdict/source", json!("source-terminated")),
        ("/rewrites", json!([])),
    ]);
    assert_snapshot!("proxy", flow(&proxy, PLAIN));
}

#[test]
fn other_protocols() {
    let undo = json!({
        "direction":"reply","field":"dst","from":{"addr":"10.100.0.5","port":0},"to":{"addr":"10.12.3.4","port":0},
        "between":[2,1],"where":"node","netns":1,"hook":"prerouting","agent":"netfilter","rule":null,"marked_by":null,
        "program":null,"evidence":"conntrack"});
    let id = json!({
        "direction":"request","field":"sport","from":{"addr":"10.12.3.4","port":77},"to":{"addr":"10.12.3.4","port":78},
        "between":[1,2],"where":"node","netns":1,"hook":"postrouting","agent":"netfilter","rule":null,"marked_by":null,
        "program":null,"evidence":"conntrack"});
    let source = json!(example().rewrites[0]);
    let icmp = flow_with(&[
        ("/rewrites", json!([source, undo, id])),
        ("/flow/proto", json!("icmp")),
        ("/flow/sport", json!(77)),
        ("/flow/dport", json!(0)),
        ("/hops/0/tuple/dport", json!(0)),
        ("/hops/1/tuple/dport", json!(0)),
    ]);
    assert_snapshot!("icmp", flow(&icmp, PLAIN));
    let six = flow_with(&[
        ("/flow/src", json!("fd00:12::4")),
        ("/flow/dst", json!("fd50::20")),
        ("/hops/0/tuple/src", json!("fd00:12::4")),
        ("/hops/0/tuple/dst", json!("fd50::20")),
        (
            "/hops/0/outer",
            json!({"src":"10.1.0.1","sport":1,"dst":"10.1.0.2","dport":4789}),
        ),
        ("/hops/0/host", json!("node-b")),
    ]);
    assert_snapshot!("ipv6", flow(&six, PLAIN));
}

#[test]
fn hostile_names_stay_on_their_line() {
    let evil = "\u{1b}[2J\u{202e}evil\r\n\u{9b}31m";
    let mut hostile = flow_with(&[
        ("/origin/pod", json!(format!("{evil}{}", "x".repeat(300)))),
        ("/hops/0/ifname", json!(evil)),
        ("/hops/0/host", json!(evil)),
        ("/hops/0/point", json!(evil)),
        ("/hops/1/netns_name", json!(evil)),
        ("/hops/1/ct/status", json!([evil])),
        ("/rewrites/0/rule/backend", json!(evil)),
        ("/rewrites/0/rule/owner", json!(evil)),
        ("/rewrites/0/rule/text", json!(evil)),
        ("/rewrites/0/program", json!({"id":1,"name":evil})),
        ("/verdict/text", json!(evil)),
        (
            "/drops",
            json!([{"direction":"reply","after":1,"netns":1,"netns_name":evil,"reason":evil,
            "location":evil,"explain":evil,"rule":null,"program":{"id":7,"name":evil},"count":1}]),
        ),
    ]);
    hostile.findings = vec![finding("events-lost", "error", evil, Some(evil))];
    let look = Look {
        verbose: 2,
        ..PLAIN
    };
    let text = flow(&hostile, look);
    assert!(
        text.chars()
            .all(|c| c == '\n' || super::super::escape(&c.to_string()).len() == c.len_utf8())
    );
    assert_snapshot!(text);
}

#[test]
fn the_end_of_a_run() {
    let mut end = example_summary();
    assert_snapshot!(
        "summary",
        format!("{}{}", groups(&end.groups, PLAIN), summary(&end, PLAIN))
    );
    end.groups.push(
        serde_json::from_value(
            json!({"count":4,"origin":"shop/db-0","source":"source-preserved",
        "source_on_wire":"10.12.9.1","where":null,"rule":null,"delivery":"no-reply","violates":[]}),
        )
        .unwrap(),
    );
    end.groups.push(
        serde_json::from_value(
            json!({"count":1,"origin":"node","source":"source-rewritten",
        "source_on_wire":null,"where":"node","rule":null,"delivery":"refused","violates":[]}),
        )
        .unwrap(),
    );
    end.events.lost = 3;
    end.flows.reported = 300;
    end.flows.left_out = 12;
    end.groups[1].violates = vec!["reply".into(), "source=node".into()];
    end.expect.push(ExpectLine {
        expect: "source=pod".into(),
        held: Some(false),
        flows: 312,
        skipped: 1,
        violations: 308,
        uncertain: 0,
        by: vec!["iptables-legacy nat/IP-MASQ 3".into()],
    });
    end.expect.push(ExpectLine {
        expect: "source=node".into(),
        held: None,
        flows: 3,
        skipped: 1,
        violations: 0,
        uncertain: 2,
        by: Vec::new(),
    });
    end.expect.push(ExpectLine {
        expect: "denied=policy".into(),
        held: None,
        flows: 0,
        skipped: 0,
        violations: 0,
        uncertain: 1,
        by: Vec::new(),
    });
    let verbose = Look {
        verbose: 1,
        ..PLAIN
    };
    assert_snapshot!(
        "summary-odd",
        format!("{}{}", groups(&end.groups, verbose), summary(&end, verbose))
    );
    end.flows.seen = 0;
    end.flows.left_out = 0;
    end.events.lost = 0;
    end.observed_by = Default::default();
    end.expect.clear();
    assert_snapshot!("summary-silent", summary(&end, verbose));
}

#[test]
fn the_first_lines() {
    let armed = Armed {
        version: "0.1.0".into(),
        host: "node-a".into(),
        kernel: "6.12.117".into(),
        started: "2026-12-01T11:39:00Z".into(),
        took_s: 0.2,
        interfaces: 126,
        namespaces: 1,
    };
    assert_snapshot!(header(&armed, PLAIN) + &waiting("traffic to 10.20.30.40", PLAIN));
}

#[test]
fn ways_say_from_how_many_places() {
    let many = flow_with(&[("/count", json!(308))]);
    let mut few = preserved();
    few.count = 4;
    let mut node = flow_with(&[
        ("/origin/kind", json!("node")),
        ("/origin/pod", json!(null)),
    ]);
    node.rewrites[0].rule = None;
    let way = |exemplar, origins| Way {
        exemplar,
        origins,
        source_on_wire: "10.100.0.5".parse().ok(),
    };
    assert_snapshot!(ways(&[way(&few, 1), way(&many, 14), way(&node, 1)], PLAIN));
}

/// Changes of every kind, and what was not compared.
#[test]
fn changed_sources() {
    let rule = example().rewrites[0].rule.clone();
    let one: tracer_core::report::Change = serde_json::from_value(json!({
        "flow": {"kind": "pod", "who": "shop/web-\u{1b}[31m", "proto": "icmp", "dst": "fd50::20", "dport": 0},
        "from": [{"source": "source-rewritten", "addr": "fd10::5", "flows": 3},
            {"source": "source-terminated", "addr": null, "flows": 1}],
        "to": [{"source": "source-preserved", "addr": "fd12::4", "flows": 1}],
        "rule_before": rule, "rule_after": null, "delivery_before": ["completed", "no-reply"],
        "delivery_after": ["completed"], "complete": false,
    }))
    .unwrap();
    let mut sums: tracer_core::report::Compared = serde_json::from_value(json!({
        "paths": 3, "changed": 1, "unchanged": 1, "untold": 1, "only_before": [one.flow], "only_after": [],
        "only": [1, 7], "older": [2, 0], "overflow": [0, 5],
    }))
    .unwrap();
    let mut text = change(&one, PLAIN) + &compared(&sums, PLAIN);
    sums = Default::default();
    text.push_str(&compared(&sums, PLAIN));
    assert_snapshot!(text);
}

#[test]
fn both_ways_out_of_silence_stand_side_by_side() {
    let mut flow = preserved();
    let mut suspected = finding(
        "peer-route-suspected",
        "warning",
        "nothing came back",
        Some("look there"),
    );
    suspected.data = json!({"choices": [
        {"choice": "route-back", "addresses": ["10.12.3.0/24"], "known_by": "the node's own route by cbr0", "cost": "a route"},
        {"choice": "masquerade", "addresses": ["10.100.0.5", "10.100.0.6"], "known_by": "eth0", "cost": "all look alike"},
    ]});
    flow.findings = vec![suspected];
    assert_snapshot!(super::flow(&flow, PLAIN));
}

#[test]
fn what_left_is_told_of_the_node_and_not_of_what_comes_after_it() {
    let mut flow = preserved();
    for (n, netns, dir) in [(3, 7, "ingress"), (4, 7, "egress"), (5, 8, "ingress")] {
        let mut hop = serde_json::to_value(&flow.hops[1]).unwrap();
        hop["n"] = json!(n);
        hop["netns"] = json!(netns);
        hop["netns_name"] = json!(format!("beyond-{netns}"));
        hop["ifname"] = json!(format!("far{n}"));
        hop["dir"] = json!(dir);
        flow.hops.push(serde_json::from_value(hop).unwrap());
    }
    for hop in &mut flow.hops {
        hop.host = "node-a".into();
    }
    assert_snapshot!(super::flow(&flow, PLAIN));
}

/// A ladder that ends at a name, one that is whole, and one that was ended.
#[test]
fn rungs_from_near_to_far() {
    let answered = Rung {
        n: 1,
        target: "10.20.30.40".to_owned(),
        by: RungBy::Icmp,
        code: RungCode::Answered,
        layer: None,
        text: "source 10.12.3.4 was kept; left by eth0".to_owned(),
        fix: None,
        ..example_rung()
    };
    let service = Rung {
        n: 2,
        target: "10.96.0.10:80".to_owned(),
        by: RungBy::Tcp,
        service: true,
        ..answered.clone()
    };
    let rungs = [answered, service, example_rung()];
    let lines: Vec<String> = rungs
        .iter()
        .map(|one| rung(one, &[preserved()], PLAIN))
        .collect();
    let ends = [
        ladder(&rungs, 4, PLAIN),
        ladder(&rungs[..2], 2, PLAIN),
        ladder(&rungs[..2], 4, PLAIN),
    ];
    assert_snapshot!(lines.concat() + &ends.join("--\n"));
}

mod property {
    use super::super::super::samples::{
        AGREEMENT, CONFIG, EDIT, EXPLAIN, FLOW, MAP, MAP_CHANGE, PLAN, RUNG, SUMMARY,
    };
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;
    use tracer_core::report::{Gathered, Line};

    /// Every string in a report line, wherever it is.
    fn strings<'a>(value: &'a mut Value, out: &mut Vec<&'a mut Value>) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|v| strings(v, out)),
            Value::Array(all) => all.iter_mut().for_each(|v| strings(v, out)),
            Value::String(_) => out.push(value),
            _ => {}
        }
    }

    /// The line with its string number `n` replaced, if it is one that may be anything.
    fn with(line: &str, n: usize, text: &str) -> Option<Line> {
        let mut json: Value = serde_json::from_str(line).unwrap();
        json["findings"] = json!([finding("events-lost", "error", "text", Some("fix"))]);
        json["drops"] = json!([{"direction":"reply","after":1,"netns":1,"netns_name":"n","reason":"r","location":"l",
            "explain":"e","rule":null,"program":{"id":7,"name":"p"},"count":1}]);
        let mut all = Vec::new();
        strings(&mut json, &mut all);
        let len = all.len();
        *all[n % len] = json!(text);
        serde_json::from_value(json).ok()
    }

    fn shown(line: &Line) -> String {
        let look = Look {
            verbose: 2,
            ..PLAIN
        };
        match line {
            Line::Flow(f) => flow(f, look),
            Line::Summary(s) => groups(&s.groups, look) + &summary(s, look),
            Line::Explain(e) => explain(std::slice::from_ref(e), look),
            Line::Map(m) => map(&[(**m).clone()], look),
            Line::MapChange(c) => {
                let prefixes = vec![(c.prefix, vec![c.prefix])];
                changes(
                    &[Gathered {
                        change: c,
                        prefixes,
                    }],
                    look,
                )
            }
            Line::Config(c) => config(c, look),
            Line::Plan(p) => plans(std::slice::from_ref(p), look),
            Line::Edit(e) => edit(e, look),
            Line::Agreement(a) => agreements(std::slice::from_ref(a), look),
            Line::Capability(c) => super::super::super::doctor(std::slice::from_ref(c), look),
            Line::Change(c) => change(c, look),
            Line::Compared(c) => compared(c, look),
            Line::Rung(r) => rung(r, &[], look) + &ladder(std::slice::from_ref(r), 4, look),
        }
    }

    proptest! {
            #[test]
            fn no_string_of_a_report_reaches_the_terminal_unescaped(
                n in 0..80usize,
                text in "(\\PC|[\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{200f}\u{202a}-\u{202e}\u{2066}-\u{2069}]){0,60}",
            ) {
                for line in [FLOW, SUMMARY, AGREEMENT, EXPLAIN, MAP, MAP_CHANGE, CONFIG, PLAN, EDIT, RUNG] {
                    let Some(hostile) = with(line, n, &text) else { continue };
                    let Some(harmless) = with(line, n, "harmless") else { continue };
                    let safe = |c: char| c == '\n' || super::super::super::escape(c.encode_utf8(&mut [0; 4])).chars().eq([c]);
                    let text = shown(&hostile);
                    prop_assert!(text.chars().all(safe), "{text:?}");
    // An edit shows a file, which has lines of its own.
                    if line != EDIT {
                        prop_assert_eq!(text.lines().count(), shown(&harmless).lines().count());
                    }
                }
            }
        }
}
