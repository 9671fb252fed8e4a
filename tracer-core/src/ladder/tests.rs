//! A table: what a flow shows, and the layer that it names.

use super::*;
use crate::report::{
    Code, DeliveryCode, Finding, Hop, RefusedBy, Rule, Severity, SourceCode, Where,
};
use serde_json::json;

/// A request that left and was not answered.
fn flow() -> Flow {
    let tuple =
        json!({"proto":"tcp","src":"10.12.3.4","sport":43210,"dst":"10.20.30.40","dport":443});
    serde_json::from_value(json!({
        "schema": 1, "id": "f", "first_seen": "2026-12-01T11:39:02.114Z", "end": "trace-ended", "count": 1,
        "flow": tuple,
        "origin": {"kind":"pod","netns":7,"netns_name":"pod","pod":null,"ifname":"eth0","process":null},
        "hops": [], "points": [], "rewrites": [],
        "packets": {"request":3,"reply":0,"request_bytes":180,"reply_bytes":0},
        "delivery": {"code":"no-reply","last_seen":2,"reply_last_seen":null,"refused_by":null},
        "drops": [], "proxy": null, "findings": [],
        "verdict": {"source":"source-preserved","source_on_wire":"10.12.3.4","complete":true,"text":"it left as 10.12.3.4"}
    }))
    .unwrap()
}

fn hop(netns: u32, dir: &str) -> Hop {
    let tuple = json!({"src":"10.12.3.4","sport":43210,"dst":"10.20.30.40","dport":443});
    serde_json::from_value(json!({
        "n":1,"host":"node-a","netns":netns,"netns_name":null,"ifname":null,"ifindex":2,"dir":dir,"point":null,"t_us":0,
        "tuple":tuple,"outer":null,"mark":null,"ct":null
    }))
    .unwrap()
}

fn found(code: Code, severity: Severity) -> Finding {
    Finding {
        code,
        severity,
        text: format!("{code:?}"),
        fix: Some("fix".to_owned()),
        rule: None,
        hop: None,
        data: json!({"direction": "request"}),
    }
}

fn kube_proxys() -> Rule {
    serde_json::from_value(json!({
        "backend":"iptables-legacy","family":"ip","table":"filter","chain":"KUBE-SERVICES","index":1,"handle":null,
        "text":"-A KUBE-SERVICES -j REJECT","comment":"shop/none has no endpoints","owner":"kube-proxy",
        "evidence":"replayed","path":[]
    }))
    .unwrap()
}

fn refused(kind: &str, place: Option<Where>) -> Flow {
    let mut flow = flow();
    flow.delivery.code = DeliveryCode::Refused;
    flow.delivery.refused_by = Some(RefusedBy {
        addr: "10.100.0.5".parse().unwrap(),
        kind: kind.to_owned(),
        hop: None,
        place,
    });
    flow
}

fn died(code: Code) -> Flow {
    let mut flow = flow();
    flow.delivery.code = DeliveryCode::Dropped;
    flow.findings = vec![
        found(Code::UnownedRule, Severity::Warning),
        found(code, Severity::Error),
    ];
    flow
}

fn tried(by: RungBy, service: bool, heard: Option<Heard>) -> Tried {
    Tried {
        by,
        to: "10.20.30.40".parse().unwrap(),
        service,
        heard,
    }
}

/// What a TCP rung of a client's is told as.
fn told(flow: &Flow) -> (RungCode, Option<Layer>) {
    let told = tell(Some(flow), &tried(RungBy::Tcp, false, None));
    (told.code, told.layer)
}

#[test]
fn what_killed_it_names_the_layer() {
    for (code, layer) in [
        (Code::ForwardingDisabled, Layer::Forwarding),
        (Code::ForwardingLost, Layer::Forwarding),
        (Code::ConntrackFailed, Layer::Forwarding),
        (Code::PolicyDrop, Layer::Policy),
        (Code::DroppedByProgram, Layer::Policy),
        (Code::NoRoute, Layer::Route),
        (Code::RpFilter, Layer::Route),
        (Code::MartianSource, Layer::Route),
        (Code::NeighbourFailed, Layer::Route),
        (Code::HopLimit, Layer::Route),
        (Code::HairpinUnmasked, Layer::Service),
    ] {
        assert_eq!(
            told(&died(code)),
            (RungCode::Dropped, Some(layer)),
            "{code:?}"
        );
        let mut back = died(code);
        back.delivery.code = DeliveryCode::ReplyLost;
        assert_eq!(told(&back), (RungCode::ReplyLost, Some(layer)), "{code:?}");
    }
    let mut service = died(Code::PolicyDrop);
    service.findings[1].rule = Some(kube_proxys());
    let told = tell(Some(&service), &tried(RungBy::Tcp, true, None));
    assert_eq!(told.layer, Some(Layer::Service));
    assert_eq!(told.text, "PolicyDrop (\"shop/none has no endpoints\")");
}

#[test]
fn what_found_no_socket_came_to_the_far_side() {
    let mut unheard = died(Code::UnownedRule);
    unheard.drops = vec![
        serde_json::from_value(json!({
            "direction":"request","after":2,"netns":9,"netns_name":"pod2","reason":"NO_SOCKET","location":"__udp4_lib_rcv",
            "explain":"nothing listens on 10.20.30.40:443 in pod2","rule":null,"program":null,"count":1
        }))
        .unwrap(),
    ];
    let tell = |flow: &Flow| tell(Some(flow), &tried(RungBy::Dns, false, Some(Heard::Nothing)));
    let told = tell(&unheard);
    assert_eq!(
        (told.code, told.layer),
        (RungCode::Dropped, Some(Layer::Dns))
    );
    assert_eq!(
        told.text,
        "it left as 10.12.3.4: nothing listens on 10.20.30.40:443 in pod2"
    );
    unheard.drops[0].reason = None;
    assert_eq!(tell(&unheard).layer, None);
}

#[test]
fn who_refused_it_names_the_layer() {
    let node = Some(Where::Node);
    for (kind, place, layer) in [
        ("rst", None, Layer::FarSide),
        ("port-unreachable", None, Layer::FarSide),
        ("port-unreachable", node, Layer::FarSide),
        ("admin-prohibited", None, Layer::Policy),
        ("host-unreachable", None, Layer::Route),
        ("time-exceeded", None, Layer::Route),
    ] {
        assert_eq!(
            told(&refused(kind, place)),
            (RungCode::Refused, Some(layer)),
            "{kind}"
        );
    }
    // IPVS without a real server.
    let service = tell(
        Some(&refused("port-unreachable", node)),
        &tried(RungBy::Tcp, true, None),
    );
    assert_eq!(service.layer, Some(Layer::Service));
    // A rule that refuses is told as a warning: its sender heard of it.
    let mut by_rule = refused("port-unreachable", node);
    by_rule.findings = vec![found(Code::PolicyDrop, Severity::Warning)];
    assert_eq!(told(&by_rule), (RungCode::Refused, Some(Layer::Policy)));
    by_rule.findings[0].data["ipvs"] = json!("10.96.0.50");
    assert_eq!(told(&by_rule), (RungCode::Refused, Some(Layer::Service)));
    by_rule.findings[0].rule = Some(kube_proxys());
    assert_eq!(told(&by_rule), (RungCode::Refused, Some(Layer::Service)));
}

#[test]
fn silence_is_the_far_sides_only_where_it_went_there() {
    assert_eq!(told(&flow()), (RungCode::NoReply, Some(Layer::FarSide)));
    let mut nowhere = flow();
    nowhere.verdict.source = SourceCode::SourceUnknown;
    assert_eq!(told(&nowhere), (RungCode::NoReply, None));
    let mut unsure = flow();
    unsure.verdict.complete = false;
    assert_eq!(
        tell(Some(&unsure), &tried(RungBy::Tcp, false, None)).text,
        "it left as 10.12.3.4; nothing came back; not certain: not everything could be observed here"
    );
    let mut missed = flow();
    missed.findings = vec![
        found(Code::PeerRouteSuspected, Severity::Warning),
        found(Code::PolicyRouteMissed, Severity::Warning),
    ];
    assert_eq!(told(&missed), (RungCode::NoReply, Some(Layer::Route)));
    // One packet of several died: that is a warning, and did not end it.
    let mut one = flow();
    one.findings = vec![found(Code::PolicyDrop, Severity::Warning)];
    assert_eq!(told(&one), (RungCode::NoReply, Some(Layer::FarSide)));
    let layer = |by, service| tell(Some(&flow()), &tried(by, service, None)).layer;
    assert_eq!(layer(RungBy::Dns, false), Some(Layer::Dns));
    assert_eq!(
        layer(RungBy::Tcp, true),
        Some(Layer::Service),
        "nothing translated it"
    );
}

#[test]
fn what_its_sender_got_goes_before_what_was_seen() {
    let code = |flow: &Flow, heard| tell(Some(flow), &tried(RungBy::Icmp, false, Some(heard))).code;
    let mut answered = flow();
    answered.delivery.code = DeliveryCode::Completed;
    assert_eq!(code(&flow(), Heard::Answer), RungCode::Answered);
    assert_eq!(code(&answered, Heard::Nothing), RungCode::ReplyLost);
    assert_eq!(code(&answered, Heard::Refusal), RungCode::Refused);
    assert_eq!(told(&answered), (RungCode::Answered, None));
    let mut begun = flow();
    begun.delivery.code = DeliveryCode::InProgress;
    assert_eq!(told(&begun).0, RungCode::NoReply);
    begun.packets.reply = 1;
    assert_eq!(told(&begun).0, RungCode::Answered);
    let no_way = |forbidden| Heard::NoWay {
        forbidden,
        why: "Network is unreachable".to_owned(),
    };
    for (heard, code, layer) in [
        (Some(no_way(false)), RungCode::NotSent, Some(Layer::Route)),
        (Some(no_way(true)), RungCode::NotSent, Some(Layer::Policy)),
        (Some(Heard::Answer), RungCode::Answered, None),
        (
            Some(Heard::Refusal),
            RungCode::Refused,
            Some(Layer::FarSide),
        ),
        (Some(Heard::Nothing), RungCode::NoReply, None),
        (None, RungCode::NoReply, None),
    ] {
        let told = tell(None, &tried(RungBy::Tcp, false, heard.clone()));
        assert_eq!((told.code, told.layer), (code, layer), "{heard:?}");
    }
}

#[test]
fn the_answered_flow_is_the_one_that_counts() {
    let mut answered = flow();
    answered.id = "answered".to_owned();
    answered.delivery.code = DeliveryCode::HandshakeOnly;
    let mut last = flow();
    last.id = "last".to_owned();
    let id = |flows: &[Flow]| telling(flows).map(|flow| flow.id.clone());
    assert_eq!(
        id(&[flow(), answered.clone(), last.clone()]).as_deref(),
        Some("answered")
    );
    assert_eq!(id(&[flow(), last]).as_deref(), Some("last"));
    assert_eq!(id(&[]), None);
}

#[test]
fn a_name_that_fails_beside_an_address_that_works_is_dns() {
    let resolver: IpAddr = "10.96.0.10".parse().unwrap();
    let rung = |target: &str, by, told: Told| Rung {
        schema: 1,
        n: 1,
        target: target.to_owned(),
        by,
        service: false,
        forwarded: told.forwarded,
        code: told.code,
        layer: told.layer,
        text: told.text,
        fix: None,
        resolver: None,
        addresses: Vec::new(),
        flows: Vec::new(),
    };
    let none = tell_reply(&Reply::NoSuchName, "db.example", resolver).unwrap();
    assert_eq!(
        none.text,
        "the resolver 10.96.0.10 answered: there is no db.example"
    );
    assert_eq!(
        tell_reply(&Reply::Addresses(vec![resolver]), "db.example", resolver),
        None
    );
    let name = rung("db.example:443", RungBy::Dns, none);
    let mut answered = flow();
    answered.delivery.code = DeliveryCode::Completed;
    let address = |flow: &Flow| {
        let told = tell(Some(flow), &tried(RungBy::Icmp, false, None));
        rung("10.20.30.40", RungBy::Icmp, told)
    };
    // What the first namespace answered itself says nothing of forwarding.
    answered.hops = vec![hop(7, "egress"), hop(1, "ingress")];
    assert_eq!(conclusion(&[name.clone(), address(&answered)]), None);
    answered.hops.push(hop(1, "egress"));
    assert_eq!(conclusion(std::slice::from_ref(&name)), None);
    assert_eq!(
        conclusion(&[name, address(&answered)]).as_deref(),
        Some(
            "10.20.30.40 answered and db.example:443 did not come past DNS: forwarding is fine, look at DNS"
        )
    );
}
