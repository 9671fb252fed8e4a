//! Constants of `nft -j`: how a value is written depends on what it is compared with.

use super::super::words::{self, Vocabulary};
use super::super::{Field, Value};
use serde_json::Value as Json;
use std::net::IpAddr;

/// What sort of values a field or a part of a set's key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Addresses.
    Addr,
    /// Device names.
    Name,
    /// Address types.
    Type,
    /// Numbers of so many bits, with the words for them.
    Number(Vocabulary, u32),
    /// Not known: kept as it is printed.
    Raw,
}

impl Kind {
    /// The kind of a set's type name.
    pub(super) fn of_type(name: &str) -> Self {
        match name {
            "ipv4_addr" | "ipv6_addr" => Self::Addr,
            "ifname" | "iface_index" => Self::Name,
            "fib_addrtype" => Self::Type,
            "inet_proto" => Self::Number(Vocabulary::Protocol, 8),
            "inet_service" => Self::Number(Vocabulary::Plain, 16),
            "mark" => Self::Number(Vocabulary::Plain, 32),
            "icmp_type" => Self::Number(Vocabulary::Icmp, 8),
            "icmpv6_type" => Self::Number(Vocabulary::Icmp6, 8),
            "icmp_code" | "icmpv6_code" => Self::Number(Vocabulary::Plain, 8),
            "ct_state" => Self::Number(Vocabulary::CtState, 32),
            "ct_status" => Self::Number(Vocabulary::CtStatus, 32),
            "ct_dir" => Self::Number(Vocabulary::CtDirection, 8),
            "tcp_flag" => Self::Number(Vocabulary::TcpFlags, 8),
            "uid" | "gid" => Self::Number(Vocabulary::User, 32),
            "nf_proto" | "ether_type" => Self::Number(Vocabulary::Version, 16),
            _ => Self::Raw,
        }
    }

    /// The kind that a field takes.
    pub(super) fn of_field(field: &Field) -> Self {
        match field {
            Field::Saddr | Field::Daddr | Field::CtOrigSaddr | Field::CtOrigDaddr => Self::Addr,
            Field::Iif | Field::Oif | Field::PhysIn | Field::PhysOut => Self::Name,
            Field::SrcType(_) | Field::DstType(_) => Self::Type,
            Field::Proto => Self::Number(Vocabulary::Protocol, 8),
            Field::Version => Self::Number(Vocabulary::Version, 16),
            Field::CtState => Self::Number(Vocabulary::CtState, 32),
            Field::CtStatus => Self::Number(Vocabulary::CtStatus, 32),
            Field::CtDirection => Self::Number(Vocabulary::CtDirection, 8),
            Field::TcpFlags { .. } => Self::Number(Vocabulary::TcpFlags, 8),
            Field::SocketUid | Field::SocketGid => Self::Number(Vocabulary::User, 32),
            Field::Mark { .. } | Field::CtMark { .. } | Field::Phys => {
                Self::Number(Vocabulary::Plain, 32)
            }
            Field::IcmpType | Field::IcmpCode | Field::Ttl | Field::LaterFragment => {
                Self::Number(Vocabulary::Plain, 8)
            }
            Field::Sport
            | Field::Dport
            | Field::CtOrigSport
            | Field::CtOrigDport
            | Field::CtZone
            | Field::Length => Self::Number(Vocabulary::Plain, 16),
        }
    }

    /// A constant, a range or a prefix.
    pub(super) fn value(self, json: &Json) -> Option<Value> {
        if let Some(prefix) = json.get("prefix") {
            return self.prefix(prefix.get("addr")?, prefix.get("len")?.as_u64()?);
        }
        if let Some(range) = json.get("range").and_then(Json::as_array) {
            let [low, high] = range.as_slice() else {
                return None;
            };
            return self.range(low, high);
        }
        match self {
            Self::Addr => words::network(json.as_str()?),
            Self::Name => Some(device(json.as_str()?)),
            Self::Type => words::addr_type(json.as_str()?).map(Value::Type),
            Self::Number(vocabulary, _) => number(json, vocabulary).map(Value::Number),
            Self::Raw => Some(match json.as_u64() {
                Some(number) => Value::Number(number),
                None => Value::Name(
                    json.as_str()
                        .map_or_else(|| json.to_string(), str::to_owned),
                ),
            }),
        }
    }

    /// What is written or chosen, not compared: one address is the range of itself.
    pub(super) fn chosen(self, json: &Json) -> Option<Value> {
        match self.value(json)? {
            Value::Masked { addr, .. } if json.is_string() => Some(Value::Addrs(addr, addr)),
            value => Some(value),
        }
    }

    fn prefix(self, addr: &Json, length: u64) -> Option<Value> {
        let length = u32::try_from(length).ok()?;
        match self {
            Self::Number(vocabulary, bits) => {
                let host = u64::MAX
                    .checked_shl(bits.checked_sub(length)?)
                    .map_or(u64::MAX, |m| !m);
                let low = number(addr, vocabulary)? & !host;
                Some(Value::Numbers(low, low | host))
            }
            _ => {
                let addr: IpAddr = addr.as_str()?.parse().ok()?;
                words::masked(addr, words::prefix_mask(addr, length)?)
            }
        }
    }

    fn range(self, low: &Json, high: &Json) -> Option<Value> {
        match self {
            Self::Number(vocabulary, _) => Some(Value::Numbers(
                number(low, vocabulary)?,
                number(high, vocabulary)?,
            )),
            Self::Addr => words::between(low.as_str()?.parse().ok()?, high.as_str()?.parse().ok()?),
            _ => None,
        }
    }
}

/// `"eth*"` takes every name that begins so; `"eth\\*"` is a name that ends with a star.
fn device(name: &str) -> Value {
    match name.strip_suffix('*') {
        Some(literal) if literal.ends_with('\\') => {
            Value::Name(format!("{}*", &literal[..literal.len() - 1]))
        }
        Some(beginning) => Value::NamePrefix(beginning.to_owned()),
        None => Value::Name(name.to_owned()),
    }
}

/// A number: digits, a word, or several bits joined (`["syn", "ack"]`, `{"|": […]}`).
pub(super) fn number(json: &Json, vocabulary: Vocabulary) -> Option<u64> {
    let all = |list: &[Json]| {
        list.iter()
            .try_fold(0, |bits, one| Some(bits | number(one, vocabulary)?))
    };
    match json {
        Json::Number(number) => version(number.as_u64()?, vocabulary),
        Json::String(word) => vocabulary.number(word).and_then(|n| version(n, vocabulary)),
        Json::Array(list) => all(list),
        Json::Object(_) => all(json.get("|")?.as_array()?),
        _ => None,
    }
}

/// IP versions are also written as ethertypes and protocol families (uapi linux/if_ether.h,
/// linux/netfilter.h).
fn version(number: u64, vocabulary: Vocabulary) -> Option<u64> {
    if vocabulary != Vocabulary::Version {
        return Some(number);
    }
    match number {
        2 | 4 | 0x0800 => Some(4),
        6 | 10 | 0x86dd => Some(6),
        _ => None,
    }
}
