//! What an agent that installs masquerade rules was told, read as that agent reads it.
//!
//! The agents take a file for granted where it is not: a key that is written wrong is no error, an empty
//! list is not an absent one, one bad entry throws the whole file away and leaves the old rules. So the
//! text is read here by their rules, and what they would not say is said ([`Trap`]).
//!
//! Sources relied on: kubernetes-sigs/ip-masq-agent `cmd/ip-masq-agent/ip-masq-agent.go` (2026),
//! Azure/ip-masq-agent-v2 `cmd/ip-masq-agent-v2/ip-masq-agent.go` (2025), cilium `pkg/ipmasq/ipmasq.go`
//! (2023), Go's `encoding/json`, `net.ParseCIDR` and `time.ParseDuration`, go.yaml.in/yaml/v2.

mod agents;
mod cidr;
mod cilium;
mod compare;
mod configmap;
mod decode;
mod duration;
mod edit;
mod findings;
mod flags;
mod installed;
mod policy;
pub mod prefixes;
mod scalar;
mod scene;
mod sentence;
mod steps;
mod told;
mod traps;
mod wants;
mod yaml;

#[cfg(test)]
mod tests;

pub use agents::{File, read};
pub use cilium::Pinned;
pub use compare::{Compared, Comparison, Half, Kernel, Timing, compare, way_out};
pub use configmap::{ConfigMap, Given, recognise};
pub use duration::Span;
pub use edit::edited;
pub use flags::Flags;
pub use installed::{Installed, Installer};
pub use policy::{Ranges, warnings};
pub use scene::{Held, Running, Scene, Wire};
pub use told::tell;
pub use traps::{Trap, TrapKind};
pub use wants::{Change, Edit, Want, edit, yaml};

use ipnet::IpNet;

/// Whose reading of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    /// kubernetes-sigs/ip-masq-agent.
    #[default]
    Upstream,
    /// Azure/ip-masq-agent-v2.
    Azure,
    /// Cilium's built-in one, whose state is a BPF map.
    Cilium,
}

impl Agent {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upstream => "ip-masq-agent",
            Self::Azure => "ip-masq-agent-v2",
            Self::Cilium => "cilium",
        }
    }
}

/// What an agent makes of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Which agent.
    pub agent: Agent,
    /// Whether there is a file; without one it takes its defaults.
    pub found: bool,
    /// What it will install; or why it installs nothing of this, and its old rules stay.
    pub config: Result<Config, Invalid>,
    /// What it does not say and a person should know.
    pub traps: Vec<Trap>,
}

/// A configuration that an agent accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Destinations that keep their source, in the order in which they are installed, without the link-local ones.
    pub entries: Vec<Entry>,
    /// Whether `entries` are the agent's own, because no list was given.
    pub defaults: bool,
    /// Most entries that it takes.
    pub cidr_limit: i64,
    /// Whether IPv4 link-local destinations are masqueraded too.
    pub masq_link_local: bool,
    /// Whether IPv6 link-local destinations are masqueraded too.
    pub masq_link_local_v6: bool,
    /// How often it looks at file and rules again; `None`: at once when the file changes.
    pub resync: Option<Span>,
}

/// A destination that keeps its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The prefix.
    pub net: IpNet,
    /// Line of the file; `None`: one of the agent's own.
    pub line: Option<usize>,
}

impl Entry {
    /// One of an agent's own.
    #[must_use]
    pub fn own(net: IpNet) -> Self {
        Self { net, line: None }
    }
}

const LINK_LOCAL: [&str; 2] = ["169.254.0.0/16", "fe80::/10"];

impl Config {
    /// The destinations that are exempt in one family, in the order in which the agent writes them:
    /// link-local first.
    #[must_use]
    pub fn exempt(&self, v6: bool) -> Vec<IpNet> {
        let masqueraded = if v6 {
            self.masq_link_local_v6
        } else {
            self.masq_link_local
        };
        let own = LINK_LOCAL[usize::from(v6)].parse();
        let listed = self.entries.iter().map(|entry| entry.net);
        own.ok()
            .filter(|_| !masqueraded)
            .into_iter()
            .chain(listed.filter(|net| net.addr().is_ipv6() == v6))
            .collect()
    }
}

/// Why an agent takes nothing of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Line of the file, from 1.
    pub line: Option<usize>,
    /// The key.
    pub key: Option<String>,
    /// What is wrong.
    pub why: String,
    /// Who refuses.
    pub by: Refusal,
}

/// Who refuses a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The agent: nothing of the file is taken.
    Agent,
    /// iptables: the agent takes the file, and cannot write its rules.
    Iptables,
}

impl Invalid {
    fn of(key: &str, line: Option<usize>, why: impl Into<String>) -> Self {
        Self {
            line,
            key: Some(key.to_owned()),
            why: why.into(),
            by: Refusal::Agent,
        }
    }
}

/// `line 3: nonMasqueradeCIDRs: "10.11.3.7/16" is not aligned, …`
impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.why)
    }
}
