//! The terms of a contract, as values.

use crate::expect::Source;
use crate::packet::Proto;
use crate::report::Flow;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Which source is agreed to leave toward which destination.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// Its entries, in the order of the file. Of those that fit a flow the first one counts.
    pub terms: Vec<Terms>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Its line in the file, from 1.
    pub line: usize,
    /// To where.
    pub dest: Dest,
    /// Where a probe goes, one address of `dest`; `None`: to `dest`, where that is one address.
    #[serde(default)]
    pub probe: Option<Dest>,
    /// By which protocol; `None`: any.
    pub proto: Option<Proto>,
    /// From whom.
    pub from: Senders,
    /// The source that must leave.
    pub source: Source,
    /// The prefix to which replies return: the source must lie in it.
    pub replies_to: IpNet,
    /// Where the far side learns who the client is.
    pub identity: Identity,
    /// Who agreed, and when.
    pub agreed: Agreed,
    /// Anything else.
    pub note: Option<String>,
}

/// A destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dest {
    /// Its addresses.
    pub net: IpNet,
    /// Its port; `None`: any.
    pub port: Option<u16>,
}

/// Who sends; empty: anyone. It is enough to be in one of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Senders {
    /// Pods as `namespace/name`; a `*` at the end stands for any ending.
    pub pods: Vec<String>,
    /// Namespaces of pods.
    pub namespaces: Vec<String>,
    /// Network namespaces by name.
    pub netns: Vec<String>,
    /// Addresses as the origin sends them.
    pub cidrs: Vec<IpNet>,
}

/// Somebody who sends.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// `namespace/name` of its pod.
    pub pod: Option<&'a str>,
    /// The name of its network namespace.
    pub netns: Option<&'a str>,
    /// Its addresses.
    pub addrs: &'a [IpAddr],
}

/// Where the far side learns who the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// From the source address.
    Source,
    /// From a PROXY protocol header.
    ProxyProtocol,
    /// From what the application says: a certificate, a token, a header.
    Application,
    /// It does not.
    None,
}

/// Who agreed, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreed {
    /// Who.
    pub by: String,
    /// The date: 2026-11-20.
    pub on: String,
}

impl Terms {
    /// Where a probe goes; `None`: `dest` is a prefix, and no address of it is named.
    #[must_use]
    pub fn probed(&self) -> Option<(IpAddr, Option<u16>)> {
        let to = self.probe.unwrap_or(self.dest);
        to.is_single()
            .then(|| (to.net.addr(), to.port.or(self.dest.port)))
    }

    /// Whether it is about this flow's destination.
    #[must_use]
    pub fn is_for(&self, flow: &Flow) -> bool {
        let tuple = &flow.flow.tuple;
        let proto = flow.flow.proto.0;
        let icmp = |proto: Proto| proto.is_icmp();
        self.dest.net.contains(&tuple.dst)
            && self.dest.port.is_none_or(|port| port == tuple.dport)
            && self
                .proto
                .is_none_or(|own| own == proto || (icmp(own) && icmp(proto)))
    }

    /// Whether it is about this flow's sender.
    #[must_use]
    pub fn is_from(&self, flow: &Flow) -> bool {
        self.from.is_anyone() || self.from.name(&Sender::of(flow))
    }
}

impl Senders {
    /// Whether it names nobody, so that anyone may send.
    #[must_use]
    pub fn is_anyone(&self) -> bool {
        self.pods.is_empty()
            && self.namespaces.is_empty()
            && self.netns.is_empty()
            && self.cidrs.is_empty()
    }

    /// Whether it names this one.
    #[must_use]
    pub fn name(&self, sender: &Sender<'_>) -> bool {
        let space = sender.pod.and_then(|pod| pod.split_once('/'));
        let own = |names: &[String], own: &str| names.iter().any(|name| name == own);
        sender
            .pod
            .is_some_and(|pod| self.pods.iter().any(|pattern| fits(pattern, pod)))
            || space.is_some_and(|(space, _)| own(&self.namespaces, space))
            || sender.netns.is_some_and(|netns| own(&self.netns, netns))
            || sender
                .addrs
                .iter()
                .any(|addr| self.cidrs.iter().any(|net| net.contains(addr)))
    }
}

impl<'a> Sender<'a> {
    fn of(flow: &'a Flow) -> Self {
        Self {
            pod: flow.origin.pod.as_deref(),
            netns: flow.origin.netns_name.as_deref(),
            addrs: std::slice::from_ref(&flow.flow.tuple.src),
        }
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

impl Dest {
    /// Whether it is one address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.net.prefix_len() == self.net.max_prefix_len()
    }
}

impl fmt::Display for Dest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_single(), self.port) {
            (true, Some(port)) => write!(f, "{}", SocketAddr::new(self.net.addr(), port)),
            (true, None) => write!(f, "{}", self.net.addr()),
            (false, Some(port)) => write!(f, "{} port {port}", self.net),
            (false, None) => write!(f, "{}", self.net),
        }
    }
}

impl fmt::Display for Senders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_anyone() {
            return f.write_str("anyone");
        }
        let spaces = self.namespaces.iter().map(|ns| format!("{ns}/*"));
        let netns = self.netns.iter().map(|name| format!("netns {name}"));
        let nets = self.cidrs.iter().map(ToString::to_string);
        let all: Vec<String> = self
            .pods
            .iter()
            .cloned()
            .chain(spaces)
            .chain(netns)
            .chain(nets)
            .collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::ProxyProtocol => "proxy-protocol",
            Self::Application => "application",
            Self::None => "none",
        })
    }
}
