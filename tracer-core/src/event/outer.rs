//! The packet that another one is inside of, on a tunnel's way.

use super::Conntrack;
use super::decode::DecodeError;
use crate::packet::Tuple;
use serde::{Deserialize, Serialize};
use std::fmt;
use tracer_common::wrap;

/// What stands between a packet and the one that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Wrap {
    /// VXLAN.
    Vxlan,
    /// Geneve.
    Geneve,
    /// Nothing: IP in IP.
    IpInIp,
    /// GRE.
    Gre,
}

impl Wrap {
    /// Reads the kernel half's number.
    pub(super) fn decode(value: u8) -> Result<Self, DecodeError> {
        match value {
            wrap::VXLAN => Ok(Self::Vxlan),
            wrap::GENEVE => Ok(Self::Geneve),
            wrap::IPIP => Ok(Self::IpInIp),
            wrap::GRE => Ok(Self::Gre),
            _ => Err(DecodeError::Unknown {
                field: "wrap",
                value,
            }),
        }
    }
}

impl fmt::Display for Wrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::IpInIp => "ipip",
            Self::Gre => "gre",
        })
    }
}

/// A packet that carries another one. Both are in one buffer, so that the one is in the other is seen, not
/// concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Outer {
    /// How.
    pub wrap: Wrap,
    /// Its tuple at this tap.
    pub tuple: Tuple,
    /// The conntrack entry that it has: its own, not that of the packet inside.
    pub conntrack: Option<Conntrack>,
}

impl Outer {
    /// Its tuple before the translation of the namespace that made it, where its entry shows one.
    #[must_use]
    pub fn before(&self) -> Option<Tuple> {
        let ct = self.conntrack?;
        let translated = ct.reply.reversed() == self.tuple && ct.orig != self.tuple;
        translated.then_some(ct.orig)
    }
}
