//! The table of options that are understood, each with what it tests.

use super::super::words::{self, Vocabulary};
use super::super::{Condition, Family, Field, Op, Test, Value};
use super::Origin;
use super::line::Opt;
use super::matches::{equal, plain};

/// Reads an option as tests that must all hold, `!` not regarded.
type Reader = fn(&Opt, &Origin<'_>) -> Option<Vec<Test>>;

/// Matches (the empty one: the rule itself), options, and their reader.
type Row = (&'static [&'static str], &'static [&'static str], Reader);

const RULE: &[&str] = &[""];
const PORTED: &[&str] = &["tcp", "udp", "udplite", "sctp", "dccp"];
const PHYSDEV: &[&str] = &["physdev"];
const CONNTRACK: &[&str] = &["conntrack"];

const ROWS: &[Row] = &[
    (RULE, &["-s"], |o, _| {
        one(Field::Saddr, words::network(o.arg()))
    }),
    (RULE, &["-d"], |o, _| {
        one(Field::Daddr, words::network(o.arg()))
    }),
    (RULE, &["-i"], |o, _| one(Field::Iif, device(o.arg()))),
    (RULE, &["-o"], |o, _| one(Field::Oif, device(o.arg()))),
    (PHYSDEV, &["--physdev-in"], |o, _| {
        one(Field::PhysIn, device(o.arg()))
    }),
    (PHYSDEV, &["--physdev-out"], |o, _| {
        one(Field::PhysOut, device(o.arg()))
    }),
    (PHYSDEV, &["--physdev-is-in"], |_, _| {
        has_any(Field::Phys, Some(1))
    }),
    // Whether it is bridged is whether it has a port to go out by (net/netfilter/xt_physdev.c).
    (
        PHYSDEV,
        &["--physdev-is-out", "--physdev-is-bridged"],
        |_, _| has_any(Field::Phys, Some(2)),
    ),
    (RULE, &["-p"], |o, _| protocol(o.arg())),
    (RULE, &["-f"], |_, _| {
        one(Field::LaterFragment, Some(Value::Number(1)))
    }),
    (PORTED, &["--sport", "--source-port"], |o, _| {
        port(Field::Sport, o.arg())
    }),
    (PORTED, &["--dport", "--destination-port"], |o, _| {
        port(Field::Dport, o.arg())
    }),
    (&["multiport"], &["--sports", "--source-ports"], |o, _| {
        ports(Field::Sport, o.arg())
    }),
    (
        &["multiport"],
        &["--dports", "--destination-ports"],
        |o, _| ports(Field::Dport, o.arg()),
    ),
    (&["multiport"], &["--ports"], |o, _| either_port(o.arg())),
    (&["tcp"], &["--tcp-flags"], |o, _| tcp_flags(o)),
    (&["icmp", "icmp6"], &["--icmp-type", "--icmpv6-type"], icmp),
    (&["mark"], &["--mark"], |o, _| {
        mark(o.arg(), |and| Field::Mark { and, xor: 0 })
    }),
    (&["connmark"], &["--mark"], |o, _| {
        mark(o.arg(), |and| Field::CtMark { and, xor: 0 })
    }),
    (CONNTRACK, &["--ctstate", "--state"], |o, _| state(o.arg())),
    (CONNTRACK, &["--ctstatus"], |o, _| {
        has_any(Field::CtStatus, Vocabulary::CtStatus.bits(o.arg()))
    }),
    (CONNTRACK, &["--ctproto"], |o, _| protocol(o.arg())),
    (CONNTRACK, &["--ctorigsrc"], |o, _| {
        one(Field::CtOrigSaddr, words::network(o.arg()))
    }),
    (CONNTRACK, &["--ctorigdst"], |o, _| {
        one(Field::CtOrigDaddr, words::network(o.arg()))
    }),
    (CONNTRACK, &["--ctorigsrcport"], |o, _| {
        port(Field::CtOrigSport, o.arg())
    }),
    (CONNTRACK, &["--ctorigdstport"], |o, _| {
        port(Field::CtOrigDport, o.arg())
    }),
    (CONNTRACK, &["--ctdir"], |o, _| {
        number(Field::CtDirection, Vocabulary::CtDirection, o.arg())
    }),
    (&["iprange"], &["--src-range"], |o, _| {
        one(Field::Saddr, words::addresses(o.arg()))
    }),
    (&["iprange"], &["--dst-range"], |o, _| {
        one(Field::Daddr, words::addresses(o.arg()))
    }),
    (&["owner"], &["--uid-owner"], |o, _| {
        one(
            Field::SocketUid,
            words::span(o.arg(), '-', Vocabulary::User),
        )
    }),
    (&["owner"], &["--gid-owner"], |o, _| {
        one(
            Field::SocketGid,
            words::span(o.arg(), '-', Vocabulary::User),
        )
    }),
    (&["length"], &["--length"], |o, _| {
        port(Field::Length, o.arg())
    }),
    (&["ttl", "hl"], &["--ttl-eq", "--ttl", "--hl-eq"], |o, _| {
        ttl(Op::Equal, o.arg())
    }),
    (&["ttl", "hl"], &["--ttl-lt", "--hl-lt"], |o, _| {
        ttl(Op::Less, o.arg())
    }),
    (&["ttl", "hl"], &["--ttl-gt", "--hl-gt"], |o, _| {
        ttl(Op::Greater, o.arg())
    }),
];

/// Whether a match has rows.
pub(super) fn knows(module: &str) -> bool {
    ROWS.iter().any(|(modules, ..)| modules.contains(&module))
}

/// The tests of an option, or `None` where it is not understood.
pub(super) fn read(module: &str, option: &Opt, origin: &Origin<'_>) -> Option<Vec<Test>> {
    let name = option.name.as_str();
    let row = ROWS
        .iter()
        .find(|(m, o, _)| m.contains(&module) && o.contains(&name));
    row.and_then(|(_, _, reader)| reader(option, origin))
}

fn one(field: Field, value: Option<Value>) -> Option<Vec<Test>> {
    Some(vec![equal(field, vec![value?])])
}

/// `eth0`, or `eth+` for every name that begins so.
fn device(name: &str) -> Option<Value> {
    Some(match name.strip_suffix('+') {
        Some(beginning) => Value::NamePrefix(beginning.to_owned()),
        None => Value::Name(name.to_owned()),
    })
}

/// `-p all` and `-p 0` take every protocol.
fn protocol(name: &str) -> Option<Vec<Test>> {
    if matches!(name, "all" | "ip" | "0") {
        return Some(Vec::new());
    }
    number(Field::Proto, Vocabulary::Protocol, name)
}

fn number(field: Field, vocabulary: Vocabulary, word: &str) -> Option<Vec<Test>> {
    one(field, vocabulary.number(word).map(Value::Number))
}

fn port(field: Field, span: &str) -> Option<Vec<Test>> {
    one(field, words::span(span, ':', Vocabulary::Plain))
}

fn spans(list: &str) -> Option<Vec<Value>> {
    list.split(',')
        .map(|span| words::span(span, ':', Vocabulary::Plain))
        .collect()
}

fn ports(field: Field, list: &str) -> Option<Vec<Test>> {
    Some(vec![equal(field, spans(list)?)])
}

fn either_port(list: &str) -> Option<Vec<Test>> {
    let values = spans(list)?;
    let either = vec![
        equal(Field::Sport, values.clone()),
        equal(Field::Dport, values),
    ];
    Some(vec![plain(Condition::AnyOf(either))])
}

fn tcp_flags(option: &Opt) -> Option<Vec<Test>> {
    let [mask, flags] = option.args.as_slice() else {
        return None;
    };
    let mask = u8::try_from(Vocabulary::TcpFlags.bits(mask)?).ok()?;
    let flags = Vocabulary::TcpFlags.bits(flags)?;
    one(Field::TcpFlags { mask }, Some(Value::Number(flags)))
}

/// `any`, `TYPE` or `TYPE/CODE`.
fn icmp(option: &Opt, origin: &Origin<'_>) -> Option<Vec<Test>> {
    if option.arg() == "any" {
        return Some(Vec::new());
    }
    let types = match origin.family {
        Family::Ip6 => Vocabulary::Icmp6,
        _ => Vocabulary::Icmp,
    };
    let (kind, code) = option
        .arg()
        .split_once('/')
        .map_or((option.arg(), None), |(t, c)| (t, Some(c)));
    let mut tests = number(Field::IcmpType, types, kind)?;
    if let Some(code) = code {
        tests.extend(number(Field::IcmpCode, Vocabulary::Plain, code)?);
    }
    Some(tests)
}

/// The kernel's comparison is `(mark & mask) == value`, so a value outside its mask never fits.
fn mark(text: &str, field: fn(u32) -> Field) -> Option<Vec<Test>> {
    let (value, mask) = words::masked32(text)?;
    one(field(mask), Some(Value::Number(value.into())))
}

fn has_any(field: Field, bits: Option<u64>) -> Option<Vec<Test>> {
    let values = vec![Value::Number(bits?)];
    Some(vec![plain(Condition::Compare {
        field,
        op: Op::HasAny,
        values,
    })])
}

/// `SNAT` and `DNAT` are no states, but bits of the status, and any of the words is enough.
fn state(list: &str) -> Option<Vec<Test>> {
    let is_status = |word: &&str| matches!(*word, "SNAT" | "DNAT");
    let (status, states): (Vec<_>, Vec<_>) = list.split(',').partition(is_status);
    if status.is_empty() {
        return has_any(Field::CtState, Vocabulary::CtState.bits(list));
    }
    let mut any = has_any(
        Field::CtStatus,
        Vocabulary::CtStatus.bits(&status.join(",")),
    )?;
    if !states.is_empty() {
        any.extend(has_any(
            Field::CtState,
            Vocabulary::CtState.bits(&states.join(",")),
        )?);
    }
    Some(vec![plain(Condition::AnyOf(any))])
}

fn ttl(op: Op, text: &str) -> Option<Vec<Test>> {
    let values = vec![Value::Number(words::digits(text)?)];
    Some(vec![plain(Condition::Compare {
        field: Field::Ttl,
        op,
        values,
    })])
}
