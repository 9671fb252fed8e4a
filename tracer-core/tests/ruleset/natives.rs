//! nftables, construct by construct, as `nft -j` prints them.

use crate::{actions, no, tests, yes};
use serde_json::{Value as Json, json};
use tracer_core::ruleset::{
    Action, AddrType, AddrTypeOf, Condition, Field, Nat, NatKind, Op, Rule, SetId, Test, Value,
    Verdict, nft,
};

/// A rule of these statements in `table FAMILY t`.
fn rule(family: &str, statements: &Json) -> Rule {
    listed(family, statements).tables[0].chains[0].rules[0].clone()
}

fn listed(family: &str, statements: &Json) -> nft::Listed {
    let dump = json!({"nftables": [
        {"table": {"family": family, "name": "t", "handle": 1}},
        {"chain": {"family": family, "table": "t", "name": "c", "handle": 1}},
        {"rule": {"family": family, "table": "t", "chain": "c", "handle": 2, "expr": statements}},
    ]});
    let listed = nft::parse(&dump.to_string(), None);
    assert_eq!(listed.unread, []);
    listed
}

fn is(field: Field, values: &[Value]) -> Condition {
    Condition::Compare {
        field,
        op: Op::Equal,
        values: values.to_vec(),
    }
}

fn number(field: Field, number: u64) -> Test {
    yes(is(field, &[Value::Number(number)]))
}

fn matching(op: &str, left: &Json, right: &Json) -> Json {
    json!([{"match": {"op": op, "left": left, "right": right}}])
}

#[test]
fn headers_bring_what_nft_does_not_print() {
    let dport = json!({"payload": {"protocol": "tcp", "field": "dport"}});
    let expected = [
        number(Field::Proto, 6),
        no(is(Field::Dport, &[Value::Number(22)])),
    ];
    assert_eq!(
        tests(&rule("ip", &matching("!=", &dport, &json!(22)))),
        expected
    );
    let saddr = json!({"payload": {"protocol": "ip", "field": "saddr"}});
    let addr = "10.0.0.1".parse().unwrap();
    let one = is(
        Field::Saddr,
        &[Value::Masked {
            addr,
            mask: "255.255.255.255".parse().unwrap(),
        }],
    );
    let of_inet = tests(&rule("inet", &matching("==", &saddr, &json!("10.0.0.1"))));
    assert_eq!(of_inet, [number(Field::Version, 4), yes(one.clone())]);
    assert_eq!(
        tests(&rule("ip", &matching("==", &saddr, &json!("10.0.0.1")))),
        [yes(one)]
    );
    let th = json!({"payload": {"base": "th", "offset": 16, "len": 16}});
    assert_eq!(
        tests(&rule("ip", &matching("==", &th, &json!(53)))),
        [number(Field::Dport, 53)]
    );
}

#[test]
fn bits_of_states_flags_marks_and_addresses() {
    let state = json!({"ct": {"key": "state"}});
    let any = |field, bits| Condition::Compare {
        field,
        op: Op::HasAny,
        values: vec![Value::Number(bits)],
    };
    let read = |op, left: &Json, right: &Json| {
        tests(&rule("ip", &matching(op, left, right)))
            .pop()
            .unwrap()
    };
    assert_eq!(
        read("in", &state, &json!(["established", "related"])),
        yes(any(Field::CtState, 6))
    );
    assert_eq!(read("in", &state, &json!(8)), yes(any(Field::CtState, 8)));
    // Measured: nft compares the whole state here, so this holds for every packet.
    let both = json!({"|": ["established", "related"]});
    assert_eq!(
        read("!=", &state, &both),
        no(is(Field::CtState, &[Value::Number(6)]))
    );
    let status = json!({"ct": {"key": "status"}});
    assert_eq!(
        read("!", &status, &json!("dnat")),
        no(any(Field::CtStatus, 32))
    );
    let masked = json!({"&": [status, ["dnat", "snat"]]});
    assert_eq!(
        read("!=", &masked, &json!(0)),
        yes(any(Field::CtStatus, 48))
    );
    assert_eq!(read("==", &masked, &json!(0)), no(any(Field::CtStatus, 48)));
    let flags = json!({"payload": {"protocol": "tcp", "field": "flags"}});
    let syn = json!({"&": [flags, ["syn", "ack"]]});
    let expected = no(is(Field::TcpFlags { mask: 18 }, &[Value::Number(2)]));
    assert_eq!(read("!=", &syn, &json!("syn")), expected);
    let mark = json!({"^": [{"&": [{"meta": {"key": "mark"}}, 0xff00]}, 0x100]});
    let field = Field::Mark {
        and: 0xff00,
        xor: 0x100,
    };
    assert_eq!(read("==", &mark, &json!(0x200)), number(field, 0x200));
    let addr = json!({"&": [{"payload": {"protocol": "ip", "field": "daddr"}}, "255.0.255.0"]});
    let value = Value::Masked {
        addr: "10.0.8.0".parse().unwrap(),
        mask: "255.0.255.0".parse().unwrap(),
    };
    assert_eq!(
        read("==", &addr, &json!("10.0.8.0")),
        yes(is(Field::Daddr, &[value]))
    );
    let fragment = json!({"&": [{"payload": {"protocol": "ip", "field": "frag-off"}}, 8191]});
    assert_eq!(
        read("!=", &fragment, &json!(0)),
        no(is(Field::LaterFragment, &[Value::Number(0)]))
    );
}

#[test]
fn devices_versions_types_and_what_is_unknown() {
    let read = |op, left: Json, right: Json| {
        tests(&rule("inet", &matching(op, &left, &right)))
            .pop()
            .unwrap()
    };
    let iif = || json!({"meta": {"key": "iifname"}});
    assert_eq!(
        read("==", iif(), json!("eth*")),
        yes(is(Field::Iif, &[Value::NamePrefix("eth".into())]))
    );
    assert_eq!(
        read("==", iif(), json!("a\\*")),
        yes(is(Field::Iif, &[Value::Name("a*".into())]))
    );
    assert_eq!(
        read("==", json!({"meta": {"key": "nfproto"}}), json!(10)),
        number(Field::Version, 6)
    );
    assert_eq!(
        read("==", json!({"meta": {"key": "protocol"}}), json!("ip")),
        number(Field::Version, 4)
    );
    let fib = json!({"fib": {"result": "type", "flags": ["daddr", "iif"]}});
    let local = is(
        Field::DstType(AddrTypeOf::Iif),
        &[Value::Type(AddrType::Local)],
    );
    assert_eq!(read("==", fib, json!("local")), yes(local));
    for left in [
        json!({"fib": {"result": "oif", "flags": ["saddr"]}}),
        json!({"socket": {"key": "transparent"}}),
        json!({"payload": {"protocol": "ether", "field": "saddr"}}),
        json!({"meta": {"key": "cgroup"}}),
        json!({"ct": {"key": "bytes", "dir": "original"}}),
    ] {
        let test = read("==", left.clone(), json!(1));
        assert!(
            matches!(test.condition, Condition::Unknown(_)),
            "{left}: {test:?}"
        );
    }
    for left in [
        json!({"numgen": {"mode": "random", "mod": 2, "offset": 0}}),
        json!({"meta": {"key": "random"}}),
    ] {
        assert!(matches!(
            read("<", left, json!(1)).condition,
            Condition::Chance(_)
        ));
    }
}

#[test]
fn marks_zones_and_headers_are_written() {
    let mark = || json!({"meta": {"key": "mark"}});
    let ct = || json!({"ct": {"key": "mark"}});
    let set = |key: Json, value: Json| {
        actions(&rule(
            "ip",
            &json!([{"mangle": {"key": key, "value": value}}]),
        ))
        .pop()
        .unwrap()
    };
    assert_eq!(set(mark(), json!(5)), Action::SetMark { and: 0, xor: 5 });
    assert_eq!(
        set(mark(), json!({"^": [mark(), 0x4000]})),
        Action::SetMark {
            and: !0,
            xor: 0x4000
        }
    );
    let both = json!({"|": [{"&": [mark(), 0xffff_00ff_u32]}, 0x4000]});
    assert_eq!(
        set(mark(), both),
        Action::SetMark {
            and: 0xffff_00ff & !0x4000,
            xor: 0x4000
        }
    );
    assert_eq!(
        set(mark(), ct()),
        Action::RestoreMark {
            nfmask: !0,
            ctmask: !0
        }
    );
    assert_eq!(
        set(ct(), json!({"&": [mark(), 255]})),
        Action::SaveMark {
            nfmask: 255,
            ctmask: !0
        }
    );
    assert_eq!(
        set(json!({"ct": {"key": "zone"}}), json!(9)),
        Action::SetZone(9)
    );
    assert!(matches!(
        set(mark(), json!({"map": {"key": ct(), "data": "@m"}})),
        Action::Unknown(_)
    ));
    let ether = json!({"payload": {"protocol": "ether", "field": "daddr"}});
    assert!(matches!(
        set(ether, json!("02:00:00:00:00:01")),
        Action::Unknown(_)
    ));
}

#[test]
fn chance_chooses_among_targets_and_addresses() {
    let numgen = json!({"numgen": {"mode": "random", "mod": 2, "offset": 0}});
    let map = json!([{"vmap": {"key": numgen, "data": {"set": [[0, {"goto": {"target": "a/b__1"}}], [1, {"accept": null}]]}}}]);
    let expected = Action::ChanceOf(vec![
        Action::Verdict(Verdict::Goto("a/b__1".into())),
        Action::Verdict(Verdict::Accept),
    ]);
    assert_eq!(actions(&rule("ip", &map)), [expected]);
    let one = "10.0.0.1".parse().unwrap();
    let two = "10.0.0.2".parse().unwrap();
    let snat = json!([{"snat": {"addr": {"map": {"key": numgen, "data": {"set": [[0, "10.0.0.1"], [1, "10.0.0.2"]]}}}}}]);
    let addrs = vec![Value::Addrs(one, one), Value::Addrs(two, two)];
    let nat = Nat {
        kind: NatKind::Snat,
        addrs,
        ports: None,
        map: None,
        random: false,
    };
    assert_eq!(actions(&rule("ip", &snat)), [Action::Nat(nat)]);
}

#[test]
fn statements_that_let_a_rule_go_on_now_and_then() {
    for statement in [
        json!({"limit": {"rate": 5, "burst": 5, "per": "minute"}}),
        json!({"quota": {"val": 5, "val_unit": "bytes"}}),
        json!({"ct count": {"val": 5, "inv": true}}),
        json!({"set": {"op": "update", "elem": 1, "set": "@s", "stmt": [{"limit": {"rate": 1}}]}}),
    ] {
        let tests = tests(&rule("ip", &json!([statement])));
        assert!(
            matches!(tests[0].condition, Condition::Chance(_)),
            "{statement}"
        );
    }
    let unknown = actions(&rule("ip", &json!([{"synproxy": {"mss": 1460}}])));
    assert_eq!(
        unknown,
        [Action::Unknown(r#"{"synproxy":{"mss":1460}}"#.into())]
    );
    assert_eq!(
        actions(&rule(
            "ip",
            &json!([{"flow": {"op": "add", "flowtable": "@f"}}])
        )),
        [Action::Offload]
    );
}

#[test]
fn a_set_that_takes_everything_else_has_that_last() {
    let dump = json!({"nftables": [
        {"table": {"family": "ip", "name": "t", "handle": 1}},
        {"map": {"family": "ip", "table": "t", "name": "m", "type": "ipv4_addr", "map": "verdict", "handle": 2,
                 "elem": [["*", {"drop": null}], [{"elem": {"val": "10.0.0.1", "timeout": 60, "comment": "x"}}, {"accept": null}]]}},
        {"set": {"family": "ip", "table": "t", "name": "s", "handle": 3,
                 "type": {"typeof": {"concat": [{"meta": {"key": "iifname"}}, {"payload": {"protocol": "tcp", "field": "dport"}}]}},
                 "flags": ["dynamic"], "elem": [{"concat": ["tcp", {"range": [80, 90]}]}]}},
    ]});
    let listed = nft::parse(&dump.to_string(), None);
    let set = |name: &str| {
        let id = SetId::Named(listed.tables[0].id.clone(), name.into());
        &listed.sets[&id]
    };
    assert_eq!(set("m").elements[1].key, []);
    assert_eq!(
        set("m").elements[0].action,
        Some(Action::Verdict(Verdict::Accept))
    );
    assert_eq!(
        set("s").elements[0].key,
        [Value::Name("tcp".into()), Value::Numbers(80, 90)]
    );
    assert!(set("s").dynamic && !set("m").dynamic);
}

/// nft 1.0.6 prints another table's name for the flags; only its text is right.
#[test]
fn nonsense_flags_are_told_where_no_text_is_at_hand() {
    let dump = json!({"nftables": [{"table": {"family": "ip", "name": "t", "handle": 1, "flags": "other"}}]});
    let alone = nft::parse(&dump.to_string(), None);
    assert_eq!((alone.tables[0].dormant, alone.unread.len()), (false, 1));
    let with_text = nft::parse(
        &dump.to_string(),
        Some("table ip t { # handle 1\n\tflags dormant\n}\n"),
    );
    assert_eq!(
        (with_text.tables[0].dormant, with_text.unread.len()),
        (true, 0)
    );
}

#[test]
fn devices_of_netdev_chains_and_rules_texts_come_from_the_text() {
    let dump = json!({"nftables": [
        {"table": {"family": "netdev", "name": "t", "handle": 1}},
        {"chain": {"family": "netdev", "table": "t", "name": "in", "handle": 1, "type": "filter", "hook": "ingress",
                   "prio": 0, "policy": "accept"}},
        {"rule": {"family": "netdev", "table": "t", "chain": "in", "handle": 2, "expr": [{"accept": null}]}},
    ]});
    let text = "table netdev t { # handle 1\n\tchain in { # handle 1\n\
        \t\ttype filter hook ingress devices = { \"eth0\", eth1 } priority 0; policy accept;\n\
        \t\taccept comment \"two\nlines # handle x\" # handle 2\n\t}\n}\n";
    let listed = nft::parse(&dump.to_string(), Some(text));
    let chain = &listed.tables[0].chains[0];
    assert_eq!(chain.base.as_ref().unwrap().devices, ["eth0", "eth1"]);
    assert_eq!(
        chain.rules[0].text,
        "accept comment \"two\nlines # handle x\""
    );
    let other = text.replace("# handle 2", "# handle 3");
    let listed = nft::parse(&dump.to_string(), Some(&other));
    assert_eq!(
        listed.tables[0].chains[0].rules[0].text,
        r#"[{"accept":null}]"#
    );
}

/// A comment may look like anything; what it looks like must not become true.
#[test]
fn comments_in_the_text_cannot_speak_for_tables_and_rules() {
    let chain = |name: &str, handle: u32| json!({"chain": {"family": "ip", "table": "t", "name": name, "handle": handle}});
    let dump = json!({"nftables": [
        {"table": {"family": "ip", "name": "t", "handle": 1}},
        chain("a", 1), chain("b", 2),
        {"rule": {"family": "ip", "table": "t", "chain": "a", "handle": 3, "expr": [{"drop": null}]}},
        {"rule": {"family": "ip", "table": "t", "chain": "b", "handle": 4, "expr": [{"drop": null}]}},
    ]});
    let text = "table ip t { # handle 1\n\tcomment \"x\n\tflags dormant\n\tchain b {\n\t\taccept # handle 9\n\t}\n\"\n\
        \tchain a { # handle 1\n\t\tcomment \"two\nlines\"\n\t\tdrop # handle 3\n\t}\n\
        \tchain b { # handle 2\n\t\tdrop # handle 4\n\t}\n}\n";
    let listed = nft::parse(&dump.to_string(), Some(text));
    assert!(!listed.tables[0].dormant);
    let texts: Vec<_> = listed.tables[0]
        .chains
        .iter()
        .map(|chain| chain.rules[0].text.as_str())
        .collect();
    assert_eq!(texts, ["drop", r#"[{"drop":null}]"#]);
}
