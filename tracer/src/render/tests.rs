//! JSON, `doctor` and the hint.

use super::samples::{flow, rung, summary};
use super::*;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tracer_core::report::{Capability, Line};

const PLAIN: Look = Look {
    colour: false,
    names: true,
    verbose: 0,
    width: None,
};

fn capabilities() -> Vec<Capability> {
    let capability = |what: &str, available, why: &str, effect: &str| Capability {
        what: what.into(),
        available,
        why: why.into(),
        effect: effect.into(),
    };
    vec![
        capability(
            "BTF",
            true,
            "/sys/kernel/btf/vmlinux",
            "offsets of kernel structures",
        ),
        capability(
            "kprobes",
            false,
            "not built into this kernel",
            "the rule that ran cannot be observed",
        ),
        capability("CAP_BPF\u{1b}", true, "", ""),
    ]
}

#[test]
fn the_contracts_examples_come_out_as_they_went_in() {
    for (text, line) in [
        (samples::FLOW, Line::Flow(Box::new(flow()))),
        (samples::SUMMARY, Line::Summary(Box::new(summary()))),
        (samples::RUNG, Line::Rung(Box::new(rung()))),
    ] {
        let printed = json_line(&line).unwrap();
        assert_eq!(printed.matches('\n').count(), 1);
        assert!(printed.ends_with('\n'));
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&printed), value(text));
    }
}

#[test]
fn json_is_safe_on_a_terminal_and_says_the_same() {
    let evil = "\u{1b}[2J\u{202e}\u{9b}\u{7f}ä😀\"\\\n";
    let mut hostile = flow();
    hostile.origin.pod = Some(evil.to_owned());
    let printed = json_line(&Line::Flow(Box::new(hostile))).unwrap();
    assert!(
        printed
            .trim_end_matches('\n')
            .chars()
            .all(|c| matches!(c, ' '..='~'))
    );
    let back: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(back["origin"]["pod"], json!(evil));
}

#[test]
fn doctors_table() {
    assert_snapshot!("doctor", doctor(&capabilities(), PLAIN));
    let well: Vec<Capability> = capabilities().into_iter().filter(|c| c.available).collect();
    let verbose = Look {
        verbose: 1,
        ..PLAIN
    };
    assert_snapshot!("doctor-well", doctor(&well, verbose));
    let lines: String = capabilities()
        .into_iter()
        .map(|c| json_line(&Line::Capability(c)).unwrap())
        .collect();
    assert_snapshot!("doctor-json", lines);
}

#[test]
fn hints() {
    let near = |near, src: &str, dst: &str, dport| Nearest {
        flow: serde_json::from_value(
            json!({"proto":"tcp","src":src,"sport":40000,"dst":dst,"dport":dport}),
        )
        .unwrap(),
        near,
        packets: 12,
    };
    let full = Hint {
        silent_s: 10,
        what: "traffic to 10.20.30.40:443".into(),
        interfaces: 126,
        namespaces: 111,
        other_packets: Some(5120),
        nearest: Some(vec![
            near(Nearby::SameAddress, "10.12.3.4", "10.20.30.40", 8443),
            near(Nearby::SamePort, "10.12.3.4", "10.96.0.10", 443),
            near(Nearby::Neighbour, "fd00::1", "fd00::41", 443),
            near(Nearby::Neighbour, "10.12.3.4", "10.20.30.42", 443),
        ]),
        route: Some("10.20.30.40 via 10.100.0.1 dev eth0 src 10.100.0.5".into()),
        socket_lb: ["cil_sock4_conn", "b", "c", "d\u{1b}"]
            .map(String::from)
            .into(),
    };
    assert_snapshot!("hint-full", hint(&full, PLAIN));
    let bare = Hint {
        other_packets: Some(0),
        nearest: Some(Vec::new()),
        route: None,
        socket_lb: Vec::new(),
        ..full
    };
    assert_snapshot!("hint-bare", hint(&bare, PLAIN));
}

mod schema {
    use super::*;

    fn validator() -> jsonschema::Validator {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap()
    }

    fn examples() -> Vec<Value> {
        let capability = json_line(&Line::Capability(capabilities().remove(1))).unwrap();
        [samples::FLOW, samples::SUMMARY, samples::RUNG, &capability]
            .map(|text| serde_json::from_str(text).unwrap())
            .into()
    }

    /// JSON pointers of all keys of objects, at every depth; `data` of findings is free.
    fn keys(value: &Value, at: &str, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let pointer = format!("{at}/{key}");
                    keys(inner, &pointer, out);
                    out.push(pointer);
                }
            }
            Value::Array(all) => {
                for (i, inner) in all.iter().enumerate() {
                    keys(inner, &format!("{at}/{i}"), out);
                }
            }
            _ => {}
        }
    }

    fn parent<'a>(value: &'a mut Value, pointer: &str) -> (&'a mut Value, String) {
        let (above, key) = pointer.rsplit_once('/').unwrap();
        (value.pointer_mut(above).unwrap(), key.to_owned())
    }

    #[test]
    fn it_is_the_one_that_is_published() {
        assert_snapshot!("schema", schema());
    }

    #[test]
    fn the_contracts_examples_fit() {
        let validator = validator();
        for example in examples() {
            let errors: Vec<String> = validator
                .iter_errors(&example)
                .map(|e| e.to_string())
                .collect();
            assert_eq!(errors, Vec::<String>::new(), "{example}");
        }
    }

    #[test]
    fn every_key_is_required_and_more_keys_are_allowed() {
        let validator = validator();
        for example in examples() {
            let mut pointers = Vec::new();
            keys(&example, "", &mut pointers);
            assert!(pointers.len() > 4);
            for pointer in pointers {
                let mut less = example.clone();
                let (object, key) = parent(&mut less, &pointer);
                object.as_object_mut().unwrap().remove(&key);
                assert!(!validator.is_valid(&less), "without {pointer}");

                let mut more = example.clone();
                let (object, _) = parent(&mut more, &pointer);
                object["a-later-field"] = json!(1);
                assert!(validator.is_valid(&more), "beside {pointer}");
            }
        }
    }

    #[test]
    fn other_codes_and_types_do_not_fit() {
        let validator = validator();
        for (pointer, wrong) in [
            ("/type", json!("flows")),
            ("/verdict/source", json!("source-lost")),
            ("/delivery/code", json!(null)),
            ("/hops/0/ifindex", json!("7")),
            ("/hops/0/tuple/sport", json!(65536)),
            ("/flow/proto", json!("quic")),
            ("/flow/src", json!("pod")),
            ("/rewrites/0/between", json!([1])),
        ] {
            let mut value = examples().remove(0);
            *value.pointer_mut(pointer).unwrap() = wrong.clone();
            assert!(!validator.is_valid(&value), "{pointer} = {wrong}");
        }
    }

    #[test]
    fn what_is_printed_fits() {
        let validator = validator();
        let mut flow = flow();
        flow.findings = vec![samples::finding(
            "events-lost",
            "error",
            "12 events were lost",
            Some("trace less"),
        )];
        flow.verdict.source_on_wire = None;
        flow.hops[0].ct = None;
        flow.origin.pod = None;
        flow.flow.proto = serde_json::from_value(json!("47")).unwrap();
        for line in [
            Line::Flow(Box::new(flow)),
            Line::Summary(Box::new(summary())),
        ] {
            let printed: Value = serde_json::from_str(&json_line(&line).unwrap()).unwrap();
            assert!(validator.is_valid(&printed), "{printed}");
        }
    }
}
