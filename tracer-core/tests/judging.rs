//! Groups, expectations and the exit status, over flows of scenario files.

mod notation;

use notation::Scenario;
use tracer_core::event::{Conntrack, NetnsId};
use tracer_core::expect::{Denied, ExitStatus, Expectation, Expectations, Source};
use tracer_core::group::Groups;
use tracer_core::inventory::{Namespace, NotTheNode};
use tracer_core::journey::Settings;
use tracer_core::observed::{RuleHit, RulePlace};
use tracer_core::report::{Code, ExpectLine, Flow, RewriteEvidence, SourceCode};
use tracer_core::ruleset::{Family, Hook};
use tracer_core::trace::{Checks, Trace, Wanted};

fn scenario(name: &str) -> Scenario {
    let path = notation::folder().join(format!("{name}.txt"));
    Scenario::parse(&std::fs::read_to_string(path).expect("a scenario"))
}

fn flow(name: &str) -> Flow {
    let (mut flows, _) = scenario(name).run_in_order();
    assert_eq!(flows.len(), 1);
    flows.remove(0)
}

/// What becomes of one expectation over some scenarios: held, flows, skipped, violations, status.
fn expect(expectation: &str, names: &[&str]) -> (Option<bool>, u64, u64, u64, u8) {
    let expectation = match expectation {
        "reply" => Expectation::Reply,
        source => Expectation::Source(source.parse().expect("a source")),
    };
    let mut expectations = Expectations::new([expectation]);
    for name in names {
        let scenario = scenario(name);
        for flow in scenario.run_in_order().0 {
            let _ = expectations.judge(&flow, &scenario.inventory);
        }
    }
    let line = expectations.lines().remove(0);
    let status = ExitStatus::of_trace(names.len() as u64, &expectations);
    (
        line.held,
        line.flows,
        line.skipped,
        line.violations,
        status.code(),
    )
}

#[test]
fn a_masqueraded_flow_has_the_nodes_source() {
    let names = ["a1-node-masquerade"];
    assert_eq!(expect("node", &names), (Some(true), 1, 0, 0, 0));
    assert_eq!(expect("10.100.0.5", &names), (Some(true), 1, 0, 0, 0));
    assert_eq!(expect("10.100.0.0/16", &names), (Some(true), 1, 0, 0, 0));
    assert_eq!(expect("10.100.0.6", &names), (Some(false), 1, 0, 1, 1));
    assert_eq!(expect("preserved", &names), (Some(false), 1, 0, 1, 1));
    assert_eq!(expect("pod", &names), (Some(false), 1, 0, 1, 1));
    assert_eq!(expect("reply", &names), (Some(true), 1, 0, 0, 0));
}

#[test]
fn a_kept_source_is_the_pods() {
    let names = ["a2-exempt"];
    assert_eq!(expect("preserved", &names), (Some(true), 1, 0, 0, 0));
    assert_eq!(expect("pod", &names), (Some(true), 1, 0, 0, 0));
    assert_eq!(expect("node", &names), (Some(false), 1, 0, 1, 1));
}

#[test]
fn flows_older_than_the_trace_are_counted_and_not_judged() {
    // Nothing was judged: a check that passed on this would have checked nothing.
    let names = ["a14-open-before-the-trace"];
    assert_eq!(expect("preserved", &names), (None, 0, 1, 0, 5));
    let names = ["a14-open-before-the-trace", "a2-exempt"];
    assert_eq!(expect("preserved", &names), (Some(true), 1, 1, 0, 0));
}

#[test]
fn doubt_neither_holds_nor_violates() {
    assert_eq!(expect("node", &["events-lost"]), (None, 0, 0, 0, 5));
    assert_eq!(
        expect("preserved", &["died-on-the-node"]),
        (None, 0, 0, 0, 5)
    );
    // A violation elsewhere is certain all the same.
    let names = ["events-lost", "a2-exempt"];
    assert_eq!(expect("node", &names), (Some(false), 1, 0, 1, 1));
}

#[test]
fn no_traffic_is_a_status_of_its_own() {
    assert_eq!(expect("node", &[]), (None, 0, 0, 0, 4));
}

#[test]
fn the_graver_status_wins() {
    use ExitStatus::*;
    let order = [
        Usage,
        CannotTrace,
        OutputFailed,
        Violated,
        Uncertain,
        Nothing,
        Done,
    ];
    let codes = order.map(ExitStatus::code);
    assert_eq!(codes, [2, 3, 6, 1, 5, 4, 0]);
    for (i, graver) in order.into_iter().enumerate() {
        for lighter in &order[i..] {
            assert_eq!(graver.worse(*lighter), graver);
            assert_eq!(lighter.worse(graver), graver);
        }
    }
}

#[test]
fn expectations_are_named_as_they_were_given() {
    let given = ["preserved", "pod", "node", "10.1.2.3", "fd00::/8"];
    let names = given.map(|g| Expectation::Source(g.parse().expect("a source")).to_string());
    assert_eq!(names, given.map(|g| format!("source={g}")));
    let wrong = "10.1.2.3/40".parse::<Source>().expect_err("no prefix");
    assert_eq!(
        wrong.to_string(),
        "\"10.1.2.3/40\" is not a source to expect: give preserved, pod, node, an address or a prefix"
    );
}

/// What `--expect-denied` makes of a flow that ended so: held, violated, or cannot be told.
#[test]
fn a_denial_needs_proof_and_the_right_cause() {
    use serde_json::json;
    let host = scenario("a2-exempt").inventory;
    let ended = |code: &str, found: &[&str], refused: Option<(&str, Option<&str>)>| {
        let mut flow = flow("a2-exempt");
        flow.delivery.code = serde_json::from_value(json!(code)).expect("a code");
        flow.delivery.refused_by = refused.map(|(kind, place)| {
            let by = json!({"addr": "10.20.30.40", "kind": kind, "hop": 1, "where": place});
            serde_json::from_value(by).expect("a refusal")
        });
        flow.findings = found
            .iter()
            .map(|code| {
                let finding = json!({"code": code, "severity": "error", "text": "", "fix": null,
                    "rule": null, "hop": null, "data": {"direction": "request"}});
                serde_json::from_value(finding).expect("a finding")
            })
            .collect();
        ["policy", "route", "any"].map(|by| {
            let by = by.parse().expect("a denial");
            let mut expectations = Expectations::new([Expectation::Denied(by)]);
            let _ = expectations.judge(&flow, &host);
            expectations.lines()[0].held
        })
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(ended("dropped", &["policy-drop"], None), [yes, no, yes]);
    let rejected = Some(("port-unreachable", Some("node")));
    assert_eq!(ended("refused", &["policy-drop"], rejected), [yes, no, yes]);
    assert_eq!(ended("dropped", &["no-route"], None), [no, yes, yes]);
    assert_eq!(ended("dropped", &["rp-filter"], None), [no, no, yes]);
    assert_eq!(
        ended("dropped", &["dropped-by-program"], None),
        [None, no, yes]
    );
    assert_eq!(ended("dropped", &[], None), [None, None, yes]);
    let beyond = |kind| ended("refused", &[], Some((kind, None)));
    assert_eq!(beyond("admin-prohibited"), [yes, no, yes]);
    assert_eq!(beyond("rst"), [None, no, yes]);
    assert_eq!(beyond("net-unreachable"), [None, None, yes]);
    // Silence proves nothing, an answer does.
    assert_eq!(ended("no-reply", &[], None), [None; 3]);
    assert_eq!(ended("in-progress", &[], None), [None; 3]);
    for through in ["completed", "handshake-only", "reply-lost"] {
        assert_eq!(ended(through, &[], None), [no; 3], "{through}");
    }
    let wrong = "firewall".parse::<Denied>().expect_err("no denial");
    assert_eq!(
        wrong.to_string(),
        "\"firewall\" does not say what is to deny it: give policy, route or any"
    );
}

#[test]
fn an_expectation_without_flows_is_neither() {
    let line = Expectations::new([Expectation::Reply]).lines();
    let nothing = ExpectLine {
        expect: "reply".into(),
        held: None,
        flows: 0,
        skipped: 0,
        violations: 0,
        uncertain: 0,
        by: Vec::new(),
    };
    assert_eq!(line, [nothing]);
}

#[test]
fn flows_of_one_way_are_one_group_whichever_pod_they_come_from() {
    let (flows, trace) = scenario("reused-skb").run_in_order();
    assert_eq!(flows.len(), 2);
    let paths = trace.groups().paths();
    assert_eq!(
        (paths.len(), paths[0].exemplar.count, paths[0].origins),
        (1, 2, 2)
    );
    let summary = trace.groups().summary();
    assert_eq!((summary.len(), summary[0].count), (1, 2));
    assert_eq!(summary[0].origin, "pods");
}

/// What violates an expectation is a group of its own, beside flows that took the same way.
#[test]
fn what_violates_is_a_group_of_its_own() {
    let host = scenario("a2-exempt").inventory;
    let source = "10.12.3.4".parse().expect("a source");
    let mut expectations = Expectations::new([Expectation::Source(source)]);
    let mut groups = Groups::default();
    for wire in ["10.12.3.4", "10.12.3.99", "10.12.3.4", "10.12.3.98"] {
        let mut flow = flow("a2-exempt");
        flow.verdict.source_on_wire = wire.parse().ok();
        flow.findings.extend(expectations.judge(&flow, &host));
        groups.add(&flow);
    }
    let told = |violates: &[String], count| (violates.join(" "), count);
    let paths = groups.paths();
    let paths = paths.iter().map(|p| &p.exemplar);
    let paths: Vec<_> = paths.map(|f| told(&f.violated(), f.count)).collect();
    let should = [(String::new(), 2), ("source=10.12.3.4".to_owned(), 2)];
    assert_eq!(paths, should);
    let summary = groups.summary();
    let summary: Vec<_> = summary.iter().map(|g| told(&g.violates, g.count)).collect();
    assert_eq!(summary, should);
}

/// Each flow that is told says which expectation it violates, and what the far side saw.
#[test]
fn flows_are_checked_before_they_are_told_and_grouped() {
    let mut scenario = scenario("reused-skb");
    scenario.checks = Checks {
        expectations: Expectations::new([Expectation::Source(Source::Preserved)]),
        peer_saw: "10.100.0.5".parse().ok(),
        ..Checks::default()
    };
    let (flows, trace) = scenario.run_in_order();
    for flow in flows.iter().chain([&trace.groups().paths()[0].exemplar]) {
        let codes: Vec<_> = flow.findings.iter().map(|f| f.code).collect();
        assert_eq!(codes, [Code::ExpectationViolated, Code::PeerSawSame]);
    }
    let line = trace.checks().expectations.lines().remove(0);
    assert_eq!(
        (line.held, line.flows, line.violations),
        (Some(false), 2, 2)
    );
}

#[test]
fn flows_that_a_filter_leaves_out_are_counted() {
    let mut scenario = scenario("reused-skb");
    scenario.wanted = Wanted {
        origins: [100].into(),
        ..Wanted::default()
    };
    let flows = scenario.run_in_order().1.flows();
    assert_eq!((flows.seen, flows.reported, flows.left_out), (2, 1, 1));
}

#[test]
fn a_group_of_kept_sources_names_one_only_where_it_is_one() {
    let mut groups = Groups::default();
    let flow = flow("a2-exempt");
    let mut other = flow.clone();
    other.verdict.source_on_wire = "10.12.3.99".parse().ok();
    groups.add(&flow);
    assert_eq!(
        groups.summary()[0].source_on_wire,
        flow.verdict.source_on_wire
    );
    groups.add(&other);
    let summary = groups.summary();
    assert_eq!((summary.len(), summary[0].count), (1, 2));
    assert_eq!(summary[0].source_on_wire, None);
    assert_eq!(summary[0].source, SourceCode::SourcePreserved);
}

#[test]
fn too_many_ways_are_counted_and_not_kept() {
    let mut groups = Groups::default();
    let flow = flow("a1-node-masquerade");
    for n in 0..5000u32 {
        let mut other = flow.clone();
        other.verdict.source_on_wire = Some(std::net::Ipv4Addr::from(n).into());
        groups.add(&other);
    }
    assert_eq!((groups.paths().len(), groups.overflow()), (4096, 904));
}

/// Every key of the contract is there, `null` where nothing is known.
#[test]
fn every_key_is_always_present() {
    let value = serde_json::to_value(flow("replies-only")).expect("a flow");
    let keys = |pointer: &str| -> Vec<String> {
        let object = value.pointer(pointer).and_then(|v| v.as_object());
        object.expect("an object").keys().cloned().collect()
    };
    insta::assert_json_snapshot!([
        keys(""),
        keys("/flow"),
        keys("/origin"),
        keys("/rewrites/0"),
        keys("/packets"),
        keys("/delivery"),
        keys("/findings/0"),
        keys("/verdict")
    ]);
}

/// How the changes of a masqueraded flow are known whose packets show no entry, by what the kernel
/// answers when it is asked for them.
fn known_by(answer: impl Fn(Conntrack) -> Option<Conntrack>) -> Vec<RewriteEvidence> {
    let scenario = scenario("a1-node-masquerade");
    let mut trace = Trace::new(Settings::default(), 0);
    for mut event in scenario.events.iter().cloned() {
        if let Some(entry) = event.conntrack.take().and_then(&answer) {
            trace.entry(&event, entry);
        }
        let _ = trace.push(event);
    }
    let flows = trace.finish(u64::MAX, &scenario.inventory);
    assert_eq!(flows.len(), 1);
    assert!(flows[0].hops.iter().all(|hop| hop.ct.is_none()));
    flows[0].rewrites.iter().map(|r| r.evidence).collect()
}

#[test]
fn an_entry_that_was_asked_for_proves_just_its_change() {
    use RewriteEvidence::{Between, Conntrack as Proved};
    assert_eq!(known_by(Some), [Proved, Proved]);
    assert_eq!(known_by(|_| None), [Between, Between]);
    let other = |mut entry: Conntrack| {
        entry.reply.dst = "10.100.0.6".parse().expect("an address");
        Some(entry)
    };
    assert_eq!(known_by(other), [Between, Between]);
}

/// A pod of the node in lab.host, if srctrace had been started there, and the node itself.
#[test]
fn a_pod_is_not_taken_for_the_node() {
    let [node, pod] = [NetnsId(1), NetnsId(100)];
    let mut host = scenario("a1-node-masquerade").inventory;
    assert_eq!(host.not_the_node(None), None);
    assert_eq!(host.not_the_node(Some(node)), None);
    assert_eq!(host.not_the_node(Some(NetnsId(7))), None, "as in a lab");
    host.node = Some(pod);
    assert_eq!(host.not_the_node(None), Some(NotTheNode::PodOf(node)));
    host.namespaces.remove(&NetnsId(101));
    assert_eq!(host.not_the_node(None), None, "may be a router behind it");
    assert_eq!(host.not_the_node(Some(node)), Some(NotTheNode::PodOf(node)));
    assert_eq!(host.not_the_node(Some(pod)), None);
}

#[test]
fn nor_a_namespace_beside_the_node_or_below_one_unseen() {
    let [node, pod] = [NetnsId(1), NetnsId(100)];
    let mut host = scenario("a1-node-masquerade").inventory;
    host.node = Some(NetnsId(9));
    host.namespaces.insert(NetnsId(9), Namespace::default());
    assert_eq!(
        host.not_the_node(Some(node)),
        Some(NotTheNode::Beside(node))
    );
    assert_eq!(host.not_the_node(None), None);
    host.node = Some(pod);
    host.namespaces.retain(|id, _| *id == pod);
    let links = &mut host.namespaces.get_mut(&pod).expect("the pod").links;
    links.get_mut(&2).expect("eth0").peer = None;
    assert_eq!(host.not_the_node(None), Some(NotTheNode::PodOfUnseen));
}

/// In words: what was expected, and what was instead.
#[test]
fn a_violation_says_what_was_instead() {
    let text = |expectation, name: &str| {
        let host = scenario(name).inventory;
        let found = Expectations::new([expectation]).judge(&flow(name), &host);
        found.into_iter().map(|f| f.text).collect::<Vec<_>>()
    };
    let node = Expectation::Source(Source::Node);
    let left = "source=node was expected, and 10.12.3.4 left";
    assert_eq!(text(node, "a2-exempt"), [left]);
    for (name, instead) in [
        ("b1-no-reply", "reply was expected, and none came"),
        (
            "b5-reset",
            "reply was expected, and the request was refused",
        ),
        (
            "b2-reply-lost",
            "reply was expected, and it did not serve the sender",
        ),
    ] {
        assert_eq!(text(Expectation::Reply, name), [instead]);
    }
}

/// The rule that ran for the first event's packet with a conntrack entry.
fn ran(scenario: &Scenario) -> RuleHit {
    let event = scenario.events.iter().find(|e| e.conntrack.is_some());
    let event = event.expect("an event with an entry");
    RuleHit {
        time_ns: event.time_ns,
        skb: Some(event.skb),
        netns: event.netns.expect("a namespace"),
        hook: Some(Hook::Postrouting),
        tuple: event.conntrack.expect("an entry").orig,
        conntrack: event.conntrack,
        place: RulePlace::NotFound,
        verdict: None,
        path: Vec::new(),
        mark: None,
        ct_id: None,
    }
}

#[test]
fn a_rule_that_ran_is_its_own_flows_alone() {
    let scenario = scenario("a1-node-masquerade");
    let right = ran(&scenario);
    let mut trace = Trace::new(Settings::default(), 0);
    let wrong: [fn(&mut RuleHit); 3] = [
        |hit| hit.netns.0 += 1,
        |hit| hit.tuple.sport += 1,
        |hit| hit.time_ns -= 60_000_000_000,
    ];
    for change in wrong {
        let mut hit = right.clone();
        hit.place = RulePlace::Policy {
            family: Family::Ip,
            table: "wrong".into(),
            chain: String::new(),
            index: None,
        };
        change(&mut hit);
        trace.hit(hit);
    }
    trace.hit(right.clone());
    trace.hit(right.clone()); // two probes may see the same target
    let mut end = 0;
    for event in &scenario.events {
        end = event.time_ns + 10_000_000_000;
        assert!(!trace.push(event.clone()));
    }
    let flows = trace.finish(end, &scenario.inventory);
    assert_eq!(flows.len(), 1);
    assert_eq!(trace.take_observed(), [(flows[0].id.clone(), right)]);
    assert_eq!(trace.take_observed(), []);
}
