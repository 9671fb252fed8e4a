//! Everything that is known when a configuration is compared.

use super::cilium::Pinned;
use super::compare::{Kernel, Timing};
use super::policy::Ranges;
use super::prefixes::same;
use super::{Agent, Flags, Reading};
use crate::report::AgentProcess;
use ipnet::IpNet;

/// A configuration and where it was read.
#[derive(Clone, Debug)]
pub struct Held {
    /// Where, in words.
    pub from: String,
    /// What the agent makes of it.
    pub reading: Reading,
    /// When it changed last, seconds since 1970.
    pub changed: Option<i64>,
}

/// Whether the agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    /// It cannot be told.
    Unknown,
    /// No process of it is there.
    No,
    /// This one.
    Yes(AgentProcess),
}

/// What flows showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Where they were read.
    pub from: String,
    /// Flows whose source was looked at.
    pub flows: u64,
    /// Flows that left otherwise than the rules say, each in words.
    pub other: Vec<String>,
}

/// Everything that is known.
pub struct Scene<'s, 'r> {
    /// Whose reading.
    pub agent: Agent,
    /// Its flags.
    pub flags: &'s Flags,
    /// Whether it runs.
    pub running: &'s Running,
    /// The configuration that was given: a ConfigMap, or a file.
    pub given: Option<&'s Held>,
    /// The file in the agent's pod.
    pub mounted: Option<&'s Held>,
    /// The rules.
    pub kernel: Kernel<'s, 'r>,
    /// Cilium's list in its data path, where it is pinned.
    pub pinned: Option<&'s Pinned>,
    /// What flows showed.
    pub wire: Option<&'s Wire>,
    /// The networks around.
    pub ranges: &'s Ranges,
    /// Now, seconds since 1970.
    pub now: i64,
    /// A time as RFC 3339.
    pub utc: &'s dyn Fn(i64) -> String,
}

/// How long the kubelet may take to copy a changed ConfigMap: its sync period and its cache.
const KUBELET: i64 = 120;

impl Scene<'_, '_> {
    /// Since when a configuration has been there. Once the file is what was given, its time counts.
    pub(super) fn timing(&self, held: &Held) -> Timing {
        let arrived = match (self.given, self.mounted) {
            (Some(given), Some(mounted)) => is_same(&given.reading, &mounted.reading, self.flags),
            _ => true,
        };
        Timing {
            now: self.now,
            changed: self.mounted.filter(|_| arrived).unwrap_or(held).changed,
            on_the_way: if arrived { 0 } else { KUBELET },
        }
    }
}

/// What the agent takes where there is no file.
pub(super) fn defaults(scene: &Scene<'_, '_>) -> Held {
    Held {
        from: "the agent's defaults".to_owned(),
        reading: super::read(scene.agent, &[], scene.flags),
        changed: None,
    }
}

/// What an agent installs of it: IPv6 prefixes only with its flag.
pub(super) fn nets(reading: &Reading, flags: &Flags) -> Vec<IpNet> {
    let families = [false, true].into_iter().filter(|v6| !v6 || flags.ipv6);
    let config = reading.config.as_ref().ok();
    config.map_or(Vec::new(), |config| {
        families.flat_map(|v6| config.exempt(v6)).collect()
    })
}

/// Whether an agent would install the same.
pub(super) fn is_same(a: &Reading, b: &Reading, flags: &Flags) -> bool {
    match (&a.config, &b.config) {
        (Ok(_), Ok(_)) => same(&nets(a, flags), &nets(b, flags)),
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}
