//! What expressions of `nft -j` look at.

use super::super::words::Vocabulary;
use super::super::{AddrTypeOf, Condition, Family, Field, Op, Test, Value};
use super::kind::{Kind, number};
use serde_json::Value as Json;

/// Fields that an expression reads, and what must hold for them to be there: `tcp dport` looks at
/// TCP packets only, which `nft` does not print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// Tests that nft puts before.
    pub(super) needs: Vec<Test>,
    /// What is read, and how its values are written.
    pub(super) fields: Vec<(Field, Kind)>,
    /// Bits that are taken of an address or a state before it is compared.
    pub(super) mask: Option<Json>,
}

/// What an expression is to a rule.
pub(super) enum Left {
    /// Known fields.
    Fields(Look),
    /// Chance: `numgen`, `jhash`, `meta random`.
    Chance,
    /// Not understood.
    Unknown,
}

/// Reads an expression, in a table of this family.
pub(super) fn left(json: &Json, family: Family) -> Left {
    if is_chance(json) {
        return Left::Chance;
    }
    look(json, family).map_or(Left::Unknown, Left::Fields)
}

fn is_chance(json: &Json) -> bool {
    let chance = ["numgen", "jhash", "symhash"]
        .iter()
        .any(|name| json.get(name).is_some());
    chance || key(json, "meta") == Some("random")
}

/// The fields of an expression, or `None`.
pub(super) fn look(json: &Json, family: Family) -> Option<Look> {
    if let Some(parts) = json.get("concat").and_then(Json::as_array) {
        let mut all = Look::default();
        for part in parts {
            let one = look(part, family).filter(|one| one.mask.is_none())?;
            all.needs.extend(one.needs);
            all.fields.extend(one.fields);
        }
        return Some(all);
    }
    for operator in ["&", "|", "^"] {
        if let Some(operands) = json.get(operator).and_then(Json::as_array) {
            let (first, rest) = operands.split_first()?;
            return rest.iter().try_fold(look(first, family)?, |look, with| {
                bits(look, operator, with)
            });
        }
    }
    if let Some(payload) = json.get("payload") {
        return self::payload(payload, family);
    }
    let field = field(json)?;
    let kind = Kind::of_field(&field);
    // `ct original ip saddr` names the entry's family.
    let header = key(json, "ct").and_then(|key| key.split_once(' '));
    let needs = header.and_then(|(protocol, _)| needs(protocol, family));
    Some(Look {
        needs: needs.into_iter().collect(),
        fields: vec![(field, kind)],
        mask: None,
    })
}

/// A bit operation on a field. Marks keep any of them; of others only a mask makes sense here.
fn bits(mut look: Look, operator: &str, with: &Json) -> Option<Look> {
    let [(field, kind)] = look.fields.as_mut_slice() else {
        return None;
    };
    match field {
        Field::Mark { and, xor } | Field::CtMark { and, xor } => {
            let with = u32::try_from(number(with, Vocabulary::Plain)?).ok()?;
            (*and, *xor) = match operator {
                "&" => (*and & with, *xor & with),
                "|" => (*and & !with, *xor & !with | with),
                _ => (*and, *xor ^ with),
            };
        }
        Field::TcpFlags { mask } if operator == "&" => {
            *mask &= u8::try_from(number(with, Vocabulary::TcpFlags)?).ok()?;
        }
        _ if operator == "&" && look.mask.is_none() && *kind != Kind::Raw => {
            look.mask = Some(with.clone());
        }
        _ => return None,
    }
    Some(look)
}

fn key<'a>(json: &'a Json, of: &str) -> Option<&'a str> {
    json.get(of)?.get("key")?.as_str()
}

fn field(json: &Json) -> Option<Field> {
    if let Some(key) = key(json, "meta") {
        return meta(key);
    }
    if let Some(ct) = json.get("ct") {
        return self::ct(
            ct.get("key")?.as_str()?,
            ct.get("dir").and_then(Json::as_str),
        );
    }
    fib(json.get("fib")?)
}

fn meta(key: &str) -> Option<Field> {
    Some(match key {
        "mark" => Field::Mark {
            and: u32::MAX,
            xor: 0,
        },
        "iif" | "iifname" => Field::Iif,
        "oif" | "oifname" => Field::Oif,
        "l4proto" => Field::Proto,
        "nfproto" | "protocol" => Field::Version,
        "skuid" => Field::SocketUid,
        "skgid" => Field::SocketGid,
        "length" => Field::Length,
        _ => return None,
    })
}

fn ct(key: &str, direction: Option<&str>) -> Option<Field> {
    Some(match (key, direction) {
        ("state", None) => Field::CtState,
        ("status", None) => Field::CtStatus,
        ("mark", None) => Field::CtMark {
            and: u32::MAX,
            xor: 0,
        },
        ("direction", None) => Field::CtDirection,
        ("zone", None | Some("original")) => Field::CtZone,
        ("protocol", _) => Field::Proto,
        ("saddr" | "ip saddr" | "ip6 saddr", Some("original")) => Field::CtOrigSaddr,
        ("daddr" | "ip daddr" | "ip6 daddr", Some("original")) => Field::CtOrigDaddr,
        ("proto-src", Some("original")) => Field::CtOrigSport,
        ("proto-dst", Some("original")) => Field::CtOrigDport,
        _ => return None,
    })
}

/// `fib saddr|daddr [. iif|oif] type`.
fn fib(fib: &Json) -> Option<Field> {
    if fib.get("result")?.as_str()? != "type" {
        return None;
    }
    let flags = fib.get("flags")?;
    let flags: Vec<_> = match flags.as_array() {
        Some(list) => list.iter().filter_map(Json::as_str).collect(),
        None => vec![flags.as_str()?],
    };
    let has = |flag| flags.contains(&flag);
    let of = match (has("iif"), has("oif"), has("mark")) {
        (false, false, false) => AddrTypeOf::Any,
        (true, false, false) => AddrTypeOf::Iif,
        (false, true, false) => AddrTypeOf::Oif,
        _ => return None,
    };
    match (has("saddr"), has("daddr")) {
        (true, false) => Some(Field::SrcType(of)),
        (false, true) => Some(Field::DstType(of)),
        _ => None,
    }
}

/// A header's field: protocol, name, what it is, and the kind of its values where that is special.
fn payload(json: &Json, family: Family) -> Option<Look> {
    if let Some(port) = raw_port(json) {
        let kind = Kind::of_field(&port);
        return Some(Look {
            fields: vec![(port, kind)],
            ..Look::default()
        });
    }
    let protocol = json.get("protocol")?.as_str()?;
    let name = json.get("field")?.as_str()?;
    let field = match (protocol, name) {
        ("ip" | "ip6", "saddr") => Field::Saddr,
        ("ip" | "ip6", "daddr") => Field::Daddr,
        ("ip", "protocol") | ("ip6", "nexthdr") => Field::Proto,
        ("ip", "ttl") | ("ip6", "hoplimit") => Field::Ttl,
        ("ip", "length") => Field::Length,
        ("ip", "frag-off") => Field::LaterFragment,
        ("tcp", "flags") => Field::TcpFlags { mask: u8::MAX },
        ("tcp" | "udp" | "udplite" | "sctp" | "dccp" | "th", "sport") => Field::Sport,
        ("tcp" | "udp" | "udplite" | "sctp" | "dccp" | "th", "dport") => Field::Dport,
        ("icmp" | "icmpv6", "type") => Field::IcmpType,
        ("icmp" | "icmpv6", "code") => Field::IcmpCode,
        _ => return None,
    };
    let kind = match (protocol, &field) {
        ("icmp", Field::IcmpType) => Kind::of_type("icmp_type"),
        ("icmpv6", Field::IcmpType) => Kind::of_type("icmpv6_type"),
        (_, field) => Kind::of_field(field),
    };
    let needs = needs(protocol, family).into_iter().collect();
    Some(Look {
        needs,
        fields: vec![(field, kind)],
        mask: None,
    })
}

/// `@th,0,16` and `@th,16,16` are the ports of whatever transport protocol.
fn raw_port(json: &Json) -> Option<Field> {
    let number = |name| json.get(name).and_then(Json::as_u64);
    match (
        json.get("base")?.as_str()?,
        number("offset")?,
        number("len")?,
    ) {
        ("th", 0, 16) => Some(Field::Sport),
        ("th", 16, 16) => Some(Field::Dport),
        _ => None,
    }
}

/// What a packet must be to have a header, where the table does not say so already.
pub(super) fn needs(protocol: &str, family: Family) -> Option<Test> {
    let (field, number) = match protocol {
        "ip" if family != Family::Ip => (Field::Version, 4),
        "ip6" if family != Family::Ip6 => (Field::Version, 6),
        "ip" | "ip6" | "th" => return None,
        transport => (Field::Proto, Vocabulary::Protocol.number(transport)?),
    };
    let condition = Condition::Compare {
        field,
        op: Op::Equal,
        values: vec![Value::Number(number)],
    };
    Some(Test {
        negated: false,
        condition,
    })
}
