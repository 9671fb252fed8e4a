//! What is handed over to the team of the other side.

use super::{DeliveryCode, ProtoName};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Requests with one source to one destination, as they were on the wire where they left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sheet {
    /// The protocol.
    pub proto: ProtoName,
    /// The source that left.
    pub source: IpAddr,
    /// The source port (ICMP: identifier) of the first of them.
    pub sport: u16,
    /// Whether that is the sender's own address.
    pub kept: bool,
    /// The destination that left.
    pub dst: IpAddr,
    /// Its port; 0 for ICMP.
    pub dport: u16,
    /// Which machine it left.
    pub host: String,
    /// By which device.
    pub ifname: Option<String>,
    /// How many flows.
    pub flows: u64,
    /// When the first of them began, RFC 3339 UTC.
    pub first: String,
    /// When the last of them began.
    pub last: String,
    /// What became of them.
    pub deliveries: Vec<DeliveryCode>,
    /// The range that has to be routed back.
    pub route_back: String,
    /// How that range is known.
    pub known_by: String,
    /// The addresses that would be seen if this side masqueraded instead; empty: not known, or it does.
    pub or_masquerade: Vec<String>,
}

impl Sheet {
    /// Whether nothing, or not enough, came back to any of them.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.deliveries
            .iter()
            .any(|code| *code != DeliveryCode::Completed)
    }
}
