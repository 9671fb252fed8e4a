//! Matches and targets of x_tables, one by one.

use crate::{actions, no, rule, rule_in, tests, yes};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tracer_core::ruleset::{
    Action, AddrType, AddrTypeOf, Condition, Family, Field, Nat, NatKind, Op, Test, Value, Verdict,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(addr: &str, mask: &str) -> Value {
    Value::Masked {
        addr: ip(addr),
        mask: ip(mask),
    }
}

fn is(field: Field, values: &[Value]) -> Condition {
    Condition::Compare {
        field,
        op: Op::Equal,
        values: values.to_vec(),
    }
}

fn any(field: Field, bits: u64) -> Condition {
    Condition::Compare {
        field,
        op: Op::HasAny,
        values: vec![Value::Number(bits)],
    }
}

const fn mark(and: u32) -> Field {
    Field::Mark { and, xor: 0 }
}

#[test]
fn addresses_and_devices() {
    let rows: &[(&str, &[Test])] = &[
        (
            "-s 10.77.0.0/16",
            &[yes(is(Field::Saddr, &[net("10.77.0.0", "255.255.0.0")]))],
        ),
        (
            "! -d 10.96.0.44/32",
            &[no(is(
                Field::Daddr,
                &[net("10.96.0.44", "255.255.255.255")],
            ))],
        ),
        (
            "-d ! 10.0.0.0/8",
            &[no(is(Field::Daddr, &[net("10.0.0.0", "255.0.0.0")]))],
        ),
        (
            "-s 10.0.8.0/255.0.255.0",
            &[yes(is(Field::Saddr, &[net("10.0.8.0", "255.0.255.0")]))],
        ),
        (
            "! -o eth+",
            &[no(is(Field::Oif, &[Value::NamePrefix("eth".into())]))],
        ),
        (
            "-i eth0",
            &[yes(is(Field::Iif, &[Value::Name("eth0".into())]))],
        ),
        (
            "-i a\"b",
            &[yes(is(Field::Iif, &[Value::Name("a\"b".into())]))],
        ),
        (
            "-m comment --comment \"x y\" -o \"b",
            &[yes(is(Field::Oif, &[Value::Name("\"b".into())]))],
        ),
        ("-i -j", &[yes(is(Field::Iif, &[Value::Name("-j".into())]))]),
        ("-f", &[yes(is(Field::LaterFragment, &[Value::Number(1)]))]),
        ("! -f", &[no(is(Field::LaterFragment, &[Value::Number(1)]))]),
        (
            "-m iprange --src-range 10.77.5.10-10.77.5.20",
            &[yes(is(
                Field::Saddr,
                &[Value::Addrs(ip("10.77.5.10"), ip("10.77.5.20"))],
            ))],
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(tests(&rule(&format!("{line} -j A"))), *expected, "{line}");
        assert_eq!(
            actions(&rule(&format!("{line} -j A"))),
            [Action::Verdict(Verdict::Jump("A".into()))]
        );
    }
    let v6 = rule_in("-s fd77::/16 -j A", Family::Ip6, &BTreeMap::new());
    assert_eq!(
        tests(&v6),
        [yes(is(Field::Saddr, &[net("fd77::", "ffff::")]))]
    );
}

#[test]
fn protocols_ports_and_flags() {
    let tcp = || yes(is(Field::Proto, &[Value::Number(6)]));
    let rows: &[(&str, Vec<Test>)] = &[
        ("-p all", vec![]),
        ("! -p udp", vec![no(is(Field::Proto, &[Value::Number(17)]))]),
        (
            "-p tcp -m tcp --dport 80",
            vec![tcp(), yes(is(Field::Dport, &[Value::Number(80)]))],
        ),
        (
            "-p tcp -m tcp ! --sport 1:9",
            vec![tcp(), no(is(Field::Sport, &[Value::Numbers(1, 9)]))],
        ),
        (
            "-p tcp -m multiport ! --dports 53,15008,8000:8100",
            vec![
                tcp(),
                no(is(
                    Field::Dport,
                    &[
                        Value::Number(53),
                        Value::Number(15008),
                        Value::Numbers(8000, 8100),
                    ],
                )),
            ],
        ),
        (
            "-p tcp -m multiport --ports 53",
            vec![
                tcp(),
                yes(Condition::AnyOf(vec![
                    yes(is(Field::Sport, &[Value::Number(53)])),
                    yes(is(Field::Dport, &[Value::Number(53)])),
                ])),
            ],
        ),
        (
            "-p tcp -m tcp --tcp-flags SYN,RST SYN",
            vec![
                tcp(),
                yes(is(Field::TcpFlags { mask: 6 }, &[Value::Number(2)])),
            ],
        ),
        (
            "-p icmp -m icmp --icmp-type 3/4",
            vec![
                yes(is(Field::Proto, &[Value::Number(1)])),
                yes(is(Field::IcmpType, &[Value::Number(3)])),
                yes(is(Field::IcmpCode, &[Value::Number(4)])),
            ],
        ),
        (
            "-p icmp -m icmp ! --icmp-type 3/4",
            vec![
                yes(is(Field::Proto, &[Value::Number(1)])),
                yes(Condition::AnyOf(vec![
                    no(is(Field::IcmpType, &[Value::Number(3)])),
                    no(is(Field::IcmpCode, &[Value::Number(4)])),
                ])),
            ],
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(tests(&rule(&format!("{line} -j A"))), *expected, "{line}");
    }
}

#[test]
fn marks_and_conntrack() {
    let rows: &[(&str, &[Test])] = &[
        (
            "-m mark --mark 0x4000",
            &[yes(is(mark(u32::MAX), &[Value::Number(0x4000)]))],
        ),
        (
            "-m mark ! --mark 0x4000/0x4000",
            &[no(is(mark(0x4000), &[Value::Number(0x4000)]))],
        ),
        (
            "-m connmark ! --mark 0x80/0x80",
            &[no(is(
                Field::CtMark { and: 0x80, xor: 0 },
                &[Value::Number(0x80)],
            ))],
        ),
        (
            "-m state --state RELATED,ESTABLISHED",
            &[yes(any(Field::CtState, 6))],
        ),
        (
            "-m conntrack ! --ctstate INVALID,UNTRACKED",
            &[no(any(Field::CtState, 65))],
        ),
        (
            "-m conntrack ! --ctstate DNAT",
            &[no(Condition::AnyOf(vec![yes(any(Field::CtStatus, 32))]))],
        ),
        (
            "-m conntrack --ctstate NEW,SNAT",
            &[yes(Condition::AnyOf(vec![
                yes(any(Field::CtStatus, 16)),
                yes(any(Field::CtState, 8)),
            ]))],
        ),
        (
            "-m conntrack --ctstatus ASSURED",
            &[yes(any(Field::CtStatus, 4))],
        ),
        (
            "-m conntrack --ctorigdst 10.96.0.0/12 --ctdir ORIGINAL",
            &[
                yes(is(Field::CtOrigDaddr, &[net("10.96.0.0", "255.240.0.0")])),
                yes(is(Field::CtDirection, &[Value::Number(0)])),
            ],
        ),
        (
            "-m owner ! --uid-owner 1337",
            &[no(is(Field::SocketUid, &[Value::Number(1337)]))],
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(tests(&rule(&format!("{line} -j A"))), *expected, "{line}");
    }
}

#[test]
fn address_types() {
    let local = |field| is(field, &[Value::Type(AddrType::Local)]);
    let both = rule("-m addrtype ! --src-type LOCAL ! --dst-type LOCAL -j A");
    let expected = [
        no(local(Field::SrcType(AddrTypeOf::Any))),
        no(local(Field::DstType(AddrTypeOf::Any))),
    ];
    assert_eq!(tests(&both), expected);
    let limited = rule(
        "-o tunl0 -m addrtype ! --src-type LOCAL --limit-iface-out -m addrtype --src-type LOCAL -j A",
    );
    let expected = [
        no(local(Field::SrcType(AddrTypeOf::Oif))),
        yes(local(Field::SrcType(AddrTypeOf::Any))),
    ];
    assert_eq!(tests(&limited)[1..], expected);
}

#[test]
fn chance_is_not_predicted_and_what_is_unknown_keeps_its_text() {
    for text in [
        "-m statistic --mode random --probability 0.33333333349",
        "-m statistic --mode nth --every 2 --packet 0",
        "-m limit --limit 3/min --limit-burst 7",
        "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-1 --mask 255.255.255.255 --rsource",
    ] {
        assert_eq!(
            tests(&rule(&format!("{text} -j A"))),
            [yes(Condition::Chance(text.into()))]
        );
    }
    let ports = Condition::Compare {
        field: Field::Phys,
        op: Op::HasAny,
        values: vec![Value::Number(1)],
    };
    assert_eq!(
        tests(&rule("-m physdev ! --physdev-is-in -j A")),
        [Test {
            negated: true,
            condition: ports
        }]
    );
    for text in [
        "-m u32 --u32 \"0x6&0xff=0x6\"",
        "-m bpf --bytecode \"4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0\"",
        "-m socket --transparent",
        "-m policy --dir out --pol ipsec",
        "-m set --match-set gone dst",
        "-m newmatch",
        "-m conntrack --ctreplsrc 10.0.0.1",
        "-m mark ! --mark nonsense",
    ] {
        assert_eq!(
            tests(&rule(&format!("{text} -j A"))),
            [yes(Condition::Unknown(text.into()))]
        );
    }
    assert_eq!(
        tests(&rule(
            "-m recent --set --name X --mask 255.255.255.255 --rsource -j A"
        )),
        []
    );
}

fn nat(kind: NatKind, addrs: &[(&str, &str)], ports: Option<(u16, u16)>, random: bool) -> Action {
    let addrs = addrs
        .iter()
        .map(|(from, to)| Value::Addrs(ip(from), ip(to)))
        .collect();
    Action::Nat(Nat {
        kind,
        addrs,
        ports,
        map: None,
        random,
    })
}

#[test]
fn translations() {
    let rows = [
        ("-j MASQUERADE", nat(NatKind::Masquerade, &[], None, false)),
        (
            "-j MASQUERADE --random-fully",
            nat(NatKind::Masquerade, &[], None, true),
        ),
        (
            "-p tcp -j MASQUERADE --to-ports 32768-60999",
            nat(NatKind::Masquerade, &[], Some((32768, 60999)), false),
        ),
        (
            "-p tcp -j SNAT --to-source 10.0.0.60-10.0.0.63:20000-29999 --random-fully --persistent",
            nat(
                NatKind::Snat,
                &[("10.0.0.60", "10.0.0.63")],
                Some((20000, 29999)),
                true,
            ),
        ),
        (
            "-j DNAT --to-destination 10.77.1.10:8080",
            nat(
                NatKind::Dnat,
                &[("10.77.1.10", "10.77.1.10")],
                Some((8080, 8080)),
                false,
            ),
        ),
        (
            "-j DNAT --to-destination :53",
            nat(NatKind::Dnat, &[], Some((53, 53)), false),
        ),
        (
            "-p tcp -j REDIRECT --to-ports 15001 --random",
            nat(NatKind::Redirect, &[], Some((15001, 15001)), true),
        ),
        (
            "-j SNAT --to-source [fd77::1]:1024-2047",
            nat(
                NatKind::Snat,
                &[("fd77::1", "fd77::1")],
                Some((1024, 2047)),
                false,
            ),
        ),
        (
            "-j SNAT --to-source fd77::1-fd77::9",
            nat(NatKind::Snat, &[("fd77::1", "fd77::9")], None, false),
        ),
        (
            "-j NETMAP --to 10.200.7.0/24",
            Action::Nat(Nat {
                kind: NatKind::Netmap,
                addrs: vec![net("10.200.7.0", "255.255.255.0")],
                ports: None,
                map: None,
                random: false,
            }),
        ),
        (
            "-j MASQUERADE --new-flag",
            Action::Unknown("-j MASQUERADE --new-flag".into()),
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(actions(&rule(line)), [expected], "{line}");
    }
    let agent = rule(
        "-j MASQUERADE --random-fully -p tcp -m statistic --mode random --probability 0.5 --to-ports 1024-20000",
    );
    assert_eq!(
        actions(&agent),
        [nat(NatKind::Masquerade, &[], Some((1024, 20000)), true)]
    );
    assert_eq!(tests(&agent).len(), 2);
}

#[test]
fn targets_that_mark_hand_over_and_pass() {
    let set = |and, xor| Action::SetMark { and, xor };
    let verdict = |verdict| Action::Verdict(verdict);
    let rows: &[(&str, &[Action])] = &[
        ("-j MARK --set-xmark 0x4000/0x4000", &[set(!0x4000, 0x4000)]),
        ("-j MARK --set-xmark 0x4000/0x0", &[set(!0, 0x4000)]),
        ("-j MARK --set-xmark 0x0/0x4000", &[set(!0x4000, 0)]),
        ("-j MARK --or-mark 0x4000", &[set(!0x4000, 0x4000)]),
        ("-j MARK --and-mark 0xffffbfff", &[set(0xffff_bfff, 0)]),
        ("-j MARK --set-mark 0x200/0xf00", &[set(!0xf00, 0x200)]),
        (
            "-j CONNMARK --set-xmark 0x80/0x80",
            &[Action::SetCtMark {
                and: !0x80,
                xor: 0x80,
            }],
        ),
        (
            "-j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80",
            &[Action::RestoreMark {
                nfmask: 0x80,
                ctmask: 0x80,
            }],
        ),
        (
            "-j CONNMARK --save-mark",
            &[Action::SaveMark {
                nfmask: u32::MAX,
                ctmask: u32::MAX,
            }],
        ),
        ("-j CT --notrack", &[Action::Notrack]),
        ("-j NOTRACK", &[Action::Notrack]),
        ("-j CT --zone 1", &[Action::SetZone(1)]),
        ("-j CT --zone-orig 5", &[Action::SetZone(5)]),
        (
            "-j CT --helper ftp",
            &[Action::Pass("-j CT --helper ftp".into())],
        ),
        (
            "-j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark 0x539/0xffffffff",
            &[set(0, 0x539), Action::Tproxy, verdict(Verdict::Accept)],
        ),
        (
            "-j REJECT --reject-with tcp-reset",
            &[verdict(Verdict::Reject("tcp-reset".into()))],
        ),
        ("-j NFQUEUE --queue-num 1", &[verdict(Verdict::Queue)]),
        (
            "-j LOG --log-prefix \"masq? \\\"x\\\": \" --log-level 7",
            &[Action::Pass(
                "-j LOG --log-prefix \"masq? \\\"x\\\": \" --log-level 7".into(),
            )],
        ),
        (
            "-j HMARK --hmark-mod 5",
            &[Action::Unknown("-j HMARK --hmark-mod 5".into())],
        ),
    ];
    for (line, expected) in rows {
        assert_eq!(actions(&rule(line)), *expected, "{line}");
    }
}
