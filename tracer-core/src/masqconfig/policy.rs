//! What a configuration means for the networks around: who is exempt that should not be, and the reverse.

use super::agents::{PRIVATE, RESERVED};
use super::prefixes::{covers, difference, listed, minus};
use super::{Config, Flags, LINK_LOCAL};
use crate::report::{Code, Finding, Severity};
use crate::verdict::finding;
use ipnet::IpNet;
use serde_json::json;

/// The networks around.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Of the pods here.
    pub pods: Vec<IpNet>,
    /// Of the nodes.
    pub nodes: Vec<IpNet>,
    /// What `--onprem` names: prefixes that route pods' addresses back.
    pub onprem: Vec<IpNet>,
}

impl Ranges {
    fn of(nets: &[IpNet], v6: bool) -> Vec<IpNet> {
        nets.iter()
            .copied()
            .filter(|net| net.addr().is_ipv6() == v6)
            .collect()
    }

    fn all(&self, v6: bool) -> Vec<IpNet> {
        let all = [&self.pods[..], &self.nodes, &self.onprem].concat();
        Self::of(&all, v6)
    }
}

/// What is to be said of a configuration.
#[must_use]
pub fn warnings(config: &Config, flags: &Flags, ranges: &Ranges) -> Vec<Finding> {
    let mut found = Vec::new();
    for v6 in [false, true] {
        if v6 && !flags.ipv6 {
            continue;
        }
        let exempt = config.exempt(v6);
        let family = if v6 { "IPv6" } else { "IPv4" };
        if covers(&exempt, all(v6)) {
            found.push(nothing(family, v6));
            continue;
        }
        let listed_here = config
            .entries
            .iter()
            .any(|entry| entry.net.addr().is_ipv6() == v6);
        if !listed_here && !v6 {
            found.push(everything(&exempt));
        }
        if !Ranges::of(&ranges.onprem, v6).is_empty() {
            found.extend(wide(config, ranges, v6));
        } else if !v6 {
            found.extend(public(config, ranges));
        }
        if listed_here || v6 {
            found.extend(missing(&exempt, ranges, v6));
        }
    }
    found
}

fn all(v6: bool) -> IpNet {
    let all = if v6 { "::/0" } else { "0.0.0.0/0" };
    all.parse().unwrap_or_default()
}

fn nothing(family: &str, v6: bool) -> Finding {
    Finding {
        text: format!(
            "every {family} destination is exempt: nothing is masqueraded, and pods' addresses leave to the internet, where nobody answers them"
        ),
        fix: Some(format!("take {} out of nonMasqueradeCIDRs", all(v6))),
        data: json!({ "prefix": all(v6) }),
        ..finding(Code::MasqueradeNothing, Severity::Error)
    }
}

fn everything(exempt: &[IpNet]) -> Finding {
    let but = match exempt {
        [] => String::new(),
        nets => format!(" but {}", listed(nets)),
    };
    Finding {
        text: format!(
            "the list is empty: every destination{but} is masqueraded, pods of other nodes and inbound clients too, \
             whose addresses are then no longer seen"
        ),
        fix: Some("list the prefixes of pods and nodes in nonMasqueradeCIDRs".to_owned()),
        data: json!({ "exempt": exempt }),
        ..finding(Code::MasqueradeEverything, Severity::Error)
    }
}

/// Entries that hold more than pods, nodes and what was named.
fn wide<'c>(
    config: &'c Config,
    ranges: &'c Ranges,
    v6: bool,
) -> impl Iterator<Item = Finding> + 'c {
    let known = ranges.all(v6);
    let entries = config
        .entries
        .iter()
        .filter(move |entry| entry.net.addr().is_ipv6() == v6);
    entries.filter_map(move |entry| {
        let extra = difference(&minus(entry.net, &[]), &known);
        (!extra.is_empty()).then(|| Finding {
            text: format!(
                "{} is wider than pods, nodes and --onprem: {} leave with the pod's address too, where nobody may know the way back",
                entry.net,
                listed(&extra)
            ),
            fix: Some("list only the prefixes that route pods' addresses back, or name the rest with --onprem".to_owned()),
            data: json!({ "entry": entry.net, "line": entry.line, "extra": extra }),
            ..finding(Code::WideExemption, Severity::Warning)
        })
    })
}

/// Entries with addresses of the internet, while pods' addresses are private. Where `--onprem` is given, [`wide`] has them.
fn public<'c>(config: &'c Config, ranges: &'c Ranges) -> impl Iterator<Item = Finding> + 'c {
    let own = PRIVATE.iter().chain(RESERVED).chain(&LINK_LOCAL[..1]);
    let private: Vec<IpNet> = own.filter_map(|net| net.parse().ok()).collect();
    let pods = Ranges::of(&ranges.pods, false);
    let are_private = pods.iter().all(|net| covers(&private, *net));
    let known = [private, ranges.all(false)].concat();
    let listed_here = config
        .entries
        .iter()
        .filter(move |entry| are_private && entry.net.addr().is_ipv4());
    listed_here.filter_map(move |entry| {
        let extra = difference(&minus(entry.net, &[]), &known);
        (!extra.is_empty()).then(|| Finding {
            text: format!(
                "{} holds public addresses: to {} pods' private addresses leave as they are, where nobody knows the way back",
                entry.net,
                listed(&extra)
            ),
            fix: Some(format!(
                "take {} out, or name it with --onprem if it routes pods' addresses back",
                entry.net
            )),
            data: json!({ "entry": entry.net, "line": entry.line, "extra": extra }),
            ..finding(Code::WideExemption, Severity::Warning)
        })
    })
}

/// Prefixes that should keep their source and are not exempt.
fn missing<'c>(
    exempt: &'c [IpNet],
    ranges: &'c Ranges,
    v6: bool,
) -> impl Iterator<Item = Finding> + 'c {
    let kinds = [
        (
            "the pods' range",
            &ranges.pods,
            "pods that they reach on other nodes see this node's address, and policies for pods do not match",
        ),
        (
            "the nodes' subnet",
            &ranges.nodes,
            "other nodes see this node's address instead of the pod's",
        ),
        (
            "--onprem",
            &ranges.onprem,
            "hosts there see this node's address",
        ),
    ];
    kinds.into_iter().flat_map(move |(what, nets, effect)| {
        let nets = Ranges::of(nets, v6).into_iter();
        nets.filter_map(move |net| {
            let lacking = minus(net, exempt);
            (!lacking.is_empty()).then(|| Finding {
                text: format!(
                    "the list lacks {what} {net}{}: traffic of pods to it is masqueraded; {effect}",
                    match lacking.as_slice() {
                        [all] if *all == net => String::new(),
                        some => format!(" ({} of it)", listed(some)),
                    }
                ),
                fix: Some(format!("add {net} to nonMasqueradeCIDRs")),
                data: json!({ "prefix": net, "lacking": lacking, "range": what }),
                ..finding(Code::MissingExemption, Severity::Warning)
            })
        })
    })
}
