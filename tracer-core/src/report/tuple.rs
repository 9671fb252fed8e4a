//! Tuples as the report shows them.

use crate::packet::{Proto, Tuple};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::IpAddr;

/// A tuple with its protocol's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProtoTuple {
    /// tcp, udp, icmp, icmpv6, sctp, or the number.
    pub proto: ProtoName,
    /// The addresses and ports.
    #[serde(flatten)]
    pub tuple: TupleView,
}

impl From<Tuple> for ProtoTuple {
    fn from(tuple: Tuple) -> Self {
        Self {
            proto: ProtoName(tuple.proto),
            tuple: tuple.into(),
        }
    }
}

/// A protocol as the report prints it: its name, or its number where srctrace has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtoName(pub Proto);

impl JsonSchema for ProtoName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProtoName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A protocol by name, or by number where srctrace has no name.",
            "type": "string",
            "pattern": "^(tcp|udp|icmp|icmpv6|sctp|[0-9]{1,3})$",
        })
    }
}

impl Serialize for ProtoName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProtoName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let proto = match text.as_str() {
            "tcp" => Proto::TCP,
            "udp" => Proto::UDP,
            "icmp" => Proto::ICMP,
            "icmpv6" => Proto::ICMPV6,
            "sctp" => Proto::SCTP,
            number => Proto(number.parse().map_err(serde::de::Error::custom)?),
        };
        Ok(Self(proto))
    }
}

/// Addresses and ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TupleView {
    /// Source address.
    pub src: IpAddr,
    /// Source port; ICMP identifier.
    pub sport: u16,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination port; 0 for ICMP.
    pub dport: u16,
}

impl From<Tuple> for TupleView {
    fn from(t: Tuple) -> Self {
        Self {
            src: t.src,
            sport: t.sport,
            dst: t.dst,
            dport: t.dport,
        }
    }
}
