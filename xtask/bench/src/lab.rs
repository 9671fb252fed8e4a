//! The lab that everything is measured on: a pod, a node that masquerades, a peer.

use std::fs;

use anyhow::{Context as _, Result};
use srctrace_tests::lab::cast::{self, RouteBack};
use srctrace_tests::lab::{Agent, Lab};

/// The peer's address: of the range kept for benchmarks, so that no other lab on this machine talks to it.
pub(crate) const PEER: &str = "198.19.77.20";
/// An address that nobody talks to.
pub(crate) const NOBODY: &str = "198.19.77.99";

/// Builds the lab with so many pods: `pod`, `pod2`, `pod3`, …
pub(crate) fn up(name: &str, pods: u8) -> Result<Lab> {
    let mut net = cast::one_pod(name, RouteBack::Known);
    net.addr("peer", "lo", &format!("{PEER}/32"));
    for n in 2..=pods {
        cast::pod(&mut net, &format!("pod{n}"), n + 2);
    }
    let lab = net.up().context("build the benchmark's lab")?;
    let agent = Agent {
        chain: "IP-MASQ-AGENT",
        exempt: &["10.0.0.0/8"],
    };
    lab.restore("node", "iptables-legacy-restore", &agent.restore_script())?;
    Ok(lab)
}

/// Packets that went through the node's `eth0` either way, as its own counters say (segments that travel as one
/// buffer count once, as they do for the programs).
pub(crate) fn forwarded(lab: &Lab) -> Result<u64> {
    let text = lab
        .in_ns("node", || fs::read_to_string("/proc/thread-self/net/dev"))?
        .context("read the node's interface counters")?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth0:"))
        .context("the node has no eth0")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let (received, sent) = (fields.get(1), fields.get(9));
    Ok(received.copied().unwrap_or(0) + sent.copied().unwrap_or(0))
}
