//! Conditions in words, for what an answer depends on.

use crate::ruleset::{AddrType, AddrTypeOf, Condition, Field, Op, SetId, Test, Value};
use std::net::IpAddr;

/// A test in words: `out-device is "eth0"`.
#[must_use]
pub fn test(test: &Test) -> String {
    let text = condition(&test.condition);
    if test.negated {
        format!("not: {text}")
    } else {
        text
    }
}

/// A condition in words.
#[must_use]
pub fn condition(condition: &Condition) -> String {
    match condition {
        Condition::Compare { field, op, values } => {
            let text = match field {
                Field::Mark { .. } | Field::CtMark { .. } => in_hex,
                _ => value,
            };
            let values: Vec<String> = values.iter().map(text).collect();
            format!(
                "{} {} {}",
                self::field(field),
                operator(*op),
                values.join(", ")
            )
        }
        Condition::Member { fields, set } => {
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{} in {}", fields.join(" and "), self::set(set))
        }
        Condition::AnyOf(tests) => {
            let tests: Vec<String> = tests.iter().map(test).collect();
            tests.join(" or ")
        }
        Condition::Chance(text) | Condition::Unknown(text) => text.clone(),
    }
}

/// A set's name.
#[must_use]
pub fn set(set: &SetId) -> String {
    match set {
        SetId::Ipset(name) => format!("set {name}"),
        SetId::Named(table, name) => format!("set {name} of table {} {}", table.family, table.name),
        SetId::Anonymous(table, _) => {
            format!("an unnamed set of table {} {}", table.family, table.name)
        }
    }
}

fn operator(op: Op) -> &'static str {
    match op {
        Op::Equal => "is",
        Op::Less => "is less than",
        Op::AtMost => "is at most",
        Op::Greater => "is greater than",
        Op::AtLeast => "is at least",
        Op::HasAny => "has one of",
    }
}

/// What a rule looks at, in words.
#[must_use]
pub fn field(field: &Field) -> String {
    let text = match field {
        Field::Saddr => "source address",
        Field::Daddr => "destination address",
        Field::Sport => "source port",
        Field::Dport => "destination port",
        Field::Proto => "protocol",
        Field::Version => "IP version",
        Field::Iif => "in-device",
        Field::Oif => "out-device",
        Field::Mark { and, xor } => return masked("mark", *and, *xor),
        Field::CtMark { and, xor } => return masked("conntrack mark", *and, *xor),
        Field::CtState => "conntrack state",
        Field::CtStatus => "conntrack status",
        Field::CtDirection => "conntrack direction",
        Field::CtZone => "conntrack zone",
        Field::CtOrigSaddr => "original source address",
        Field::CtOrigDaddr => "original destination address",
        Field::CtOrigSport => "original source port",
        Field::CtOrigDport => "original destination port",
        Field::SrcType(of) => return typed("source", *of),
        Field::DstType(of) => return typed("destination", *of),
        Field::TcpFlags { .. } => "TCP flags",
        Field::IcmpType => "ICMP type",
        Field::IcmpCode => "ICMP code",
        Field::LaterFragment => "fragment",
        Field::Length => "packet length",
        Field::Ttl => "TTL",
        Field::PhysIn => "bridge's port in",
        Field::PhysOut => "bridge's port out",
        Field::Phys => "bridge's ports",
        Field::SocketUid => "socket's user",
        Field::SocketGid => "socket's group",
    };
    text.to_owned()
}

fn masked(what: &str, and: u32, xor: u32) -> String {
    match (and, xor) {
        (u32::MAX, 0) => what.to_owned(),
        (and, 0) => format!("{what} & {and:#x}"),
        (and, xor) => format!("{what} & {and:#x} ^ {xor:#x}"),
    }
}

fn typed(what: &str, of: AddrTypeOf) -> String {
    match of {
        AddrTypeOf::Any => format!("{what} address type"),
        AddrTypeOf::Iif => format!("{what} address type on the in-device"),
        AddrTypeOf::Oif => format!("{what} address type on the out-device"),
    }
}

/// A value as rules write it.
#[must_use]
pub fn value(value: &Value) -> String {
    match value {
        Value::Number(n) => n.to_string(),
        Value::Numbers(low, high) => format!("{low}-{high}"),
        Value::Masked { addr, mask } => match prefix_len(*mask) {
            Some(len) => format!("{addr}/{len}"),
            None => format!("{addr}/{mask}"),
        },
        Value::Addrs(low, high) if low == high => low.to_string(),
        Value::Addrs(low, high) => format!("{low}-{high}"),
        Value::Name(name) => format!("{name:?}"),
        Value::NamePrefix(prefix) => format!("{:?}", format!("{prefix}*")),
        Value::Type(kind) => addr_type(*kind).to_owned(),
    }
}

/// Marks are written in hexadecimal.
fn in_hex(mark: &Value) -> String {
    match mark {
        Value::Number(n) => format!("{n:#x}"),
        Value::Numbers(low, high) => format!("{low:#x}-{high:#x}"),
        other => value(other),
    }
}

fn addr_type(kind: AddrType) -> &'static str {
    match kind {
        AddrType::Local => "local",
        AddrType::Unicast => "unicast",
        AddrType::Broadcast => "broadcast",
        AddrType::Multicast => "multicast",
        AddrType::Blackhole => "blackhole",
        AddrType::Unreachable => "unreachable",
        AddrType::Prohibit => "prohibit",
        AddrType::Unspec => "unspecified",
        AddrType::Anycast => "anycast",
    }
}

/// The length of a mask without gaps.
fn prefix_len(mask: IpAddr) -> Option<u32> {
    let (bits, width) = match mask {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let len = bits.leading_ones();
    let whole = len == 0 && bits == 0 || len > 0 && bits << (len - 1) << 1 == 0;
    (whole && len <= width).then_some(len)
}
