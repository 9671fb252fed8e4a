//! Explicit capture points in the report.

use crate::event::Dir;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What one explicit capture point saw of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PointView {
    /// Its name.
    pub name: String,
    /// Which machine.
    pub host: String,
    /// The name of its device's namespace.
    pub netns_name: Option<String>,
    /// Its device.
    pub ifname: String,
    /// The direction that it looks at; `None`: both.
    pub dir: Option<Dir>,
    /// What of the flow crossed it.
    pub seen: PointSeen,
    /// The number of the hop at which the request was there.
    pub hop: Option<u32>,
    /// The request's source there.
    pub source: Option<IpAddr>,
}

/// What of a flow crossed a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PointSeen {
    /// Requests only.
    Request,
    /// Replies (or an ICMP error) only.
    Reply,
    /// Both.
    Both,
    /// Nothing.
    Never,
}

impl PointSeen {
    /// Of what crossed it.
    #[must_use]
    pub fn of(request: bool, reply: bool) -> Self {
        match (request, reply) {
            (true, true) => Self::Both,
            (true, false) => Self::Request,
            (false, true) => Self::Reply,
            (false, false) => Self::Never,
        }
    }
}

/// How many flows an explicit capture point saw in all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PointSum {
    /// Its name.
    pub name: String,
    /// Which machine.
    pub host: String,
    /// The name of its device's namespace.
    pub netns_name: Option<String>,
    /// Its device.
    pub ifname: String,
    /// The direction that it looks at; `None`: both.
    pub dir: Option<Dir>,
    /// Reported flows that crossed it.
    pub saw: u64,
    /// Reported flows of which it never saw a packet.
    pub never: u64,
}

impl PointSum {
    /// Of no flow yet.
    #[must_use]
    pub fn of(point: &PointView) -> Self {
        Self {
            name: point.name.clone(),
            host: point.host.clone(),
            netns_name: point.netns_name.clone(),
            ifname: point.ifname.clone(),
            dir: point.dir,
            saw: 0,
            never: 0,
        }
    }
}
