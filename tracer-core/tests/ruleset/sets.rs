//! ipset.

use crate::{no, rule_in, tests, yes};
use tracer_core::ruleset::{Condition, Dumps, Family, Field, SetId, Value, assemble, ipset};

const DUMP: &str = "create nets hash:net family inet hashsize 1024 maxelem 65536 comment bucketsize 12 initval 0x1\n\
    add nets 10.77.0.0/16 comment \"pods; add x nomatch\"\n\
    add nets 10.77.9.0/24 nomatch comment \"not these\"\n\
    create pairs hash:ip,port family inet hashsize 1024 maxelem 65536 timeout 60\n\
    add pairs 10.0.0.1,sctp:36412 timeout 59\n\
    add pairs 10.0.0.1,icmp:8/0\n\
    create wide hash:ip family inet netmask 24\n\
    add wide 10.1.2.0\n\
    create devices hash:net,iface family inet\n\
    add devices 10.0.0.0/8,eth0\n\
    create ports bitmap:port range 0-65535\n\
    add ports 80\n\
    create marks hash:ip,mark family inet markmask 0xff\n\
    add marks 10.0.0.1,0x01\n\
    create macs hash:mac\n\
    add macs 02:00:00:00:00:01\n\
    create all list:set size 8\n\
    add all nets\n\
    add all ports\n";

fn member(fields: &[Field], name: &str) -> Condition {
    Condition::Member {
        fields: fields.to_vec(),
        set: SetId::Ipset(name.into()),
    }
}

#[test]
fn elements() {
    let read = ipset::parse(DUMP);
    assert_eq!(read.unread, []);
    let set = |name: &str| &read.sets[&SetId::Ipset(name.into())];
    assert_eq!(
        set("nets")
            .elements
            .iter()
            .map(|e| e.except)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(
        set("nets").elements[1].text,
        "10.77.9.0/24 nomatch comment \"not these\""
    );
    assert_eq!(
        set("pairs").elements[0].key[1..],
        [Value::Number(132), Value::Number(36412)]
    );
    assert_eq!(
        set("pairs").elements[1].key[1..],
        [Value::Number(1), Value::Number(8 << 8)]
    );
    let mask = "255.255.255.0".parse().unwrap();
    assert_eq!(
        set("wide").elements[0].key,
        [Value::Masked {
            addr: "10.1.2.0".parse().unwrap(),
            mask
        }]
    );
    assert_eq!(
        set("devices").elements[0].key[1],
        Value::Name("eth0".into())
    );
    assert_eq!(set("all").elements[0].text, "nets");
}

#[test]
fn rules_ask_what_the_sets_type_says() {
    let sets = ipset::parse(DUMP).sets;
    let rows = [
        (
            "-m set --match-set nets src",
            yes(member(&[Field::Saddr], "nets")),
        ),
        (
            "-m set ! --match-set nets dst",
            no(member(&[Field::Daddr], "nets")),
        ),
        (
            "-m set --match-set nets src,src",
            yes(member(&[Field::Saddr], "nets")),
        ),
        (
            "-m set --match-set pairs dst,dst",
            yes(member(&[Field::Daddr, Field::Proto, Field::Dport], "pairs")),
        ),
        (
            "-m set --match-set devices src,dst",
            yes(member(&[Field::Saddr, Field::Oif], "devices")),
        ),
        (
            "-m set --match-set ports src",
            yes(member(&[Field::Sport], "ports")),
        ),
        (
            "-m set --match-set pairs dst",
            yes(Condition::AnyOf(vec![])),
        ),
        (
            "-m set ! --match-set all src",
            no(Condition::AnyOf(vec![
                yes(member(&[Field::Saddr], "nets")),
                yes(member(&[Field::Sport], "ports")),
            ])),
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(
            tests(&rule_in(&format!("{line} -j A"), Family::Ip, &sets)),
            [expected],
            "{line}"
        );
    }
    for text in [
        "-m set --match-set macs src",
        "-m set --match-set marks src,src",
        "-m set --match-set missing src",
        "-m set --match-set nets src --return-nomatch",
    ] {
        let unknown = yes(Condition::Unknown(text.into()));
        assert_eq!(
            tests(&rule_in(&format!("{text} -j A"), Family::Ip, &sets)),
            [unknown]
        );
    }
}

#[test]
fn a_set_that_rules_write_is_dynamic() {
    let rules = assemble(&Dumps {
        ipset: Some(DUMP.into()),
        legacy: vec![(
            Family::Ip,
            "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j SET --add-set nets src --exist\nCOMMIT\n"
                .into(),
        )],
        ..Dumps::default()
    });
    let dynamic = |name: &str| rules.sets[&SetId::Ipset(name.into())].dynamic;
    assert!(dynamic("nets") && !dynamic("ports"));
}

#[test]
fn lines_that_are_not_understood_are_told() {
    let read = ipset::parse("create n hash:net\nadd n nonsense\nadd missing 10.0.0.1\nwhat\n");
    assert_eq!(read.unread.len(), 3);
}

/// ipset takes line breaks in comments, and knows no escapes.
#[test]
fn a_comment_cannot_forge_an_element() {
    let dump = "create n hash:net family inet comment\nadd n 10.0.0.0/8 comment \"a\nadd n 0.0.0.0/0\"\n\
        add n 10.1.0.0/16 comment \"ends with \\\"\nadd n 10.2.0.0/16\n";
    let read = ipset::parse(dump);
    assert_eq!(read.unread, []);
    let set = &read.sets[&SetId::Ipset("n".into())];
    let first = |text: &str| text.split(' ').next().unwrap().to_owned();
    let texts: Vec<_> = set
        .elements
        .iter()
        .map(|element| first(&element.text))
        .collect();
    assert_eq!(texts, ["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16"]);
}
