//! What a comparison says to a person on call.

use super::compare::{Comparison, Half};
use super::installed::Installed;
use super::prefixes::listed;
use super::scene::Running;
use super::traps::{Trap, TrapKind};
use super::{Agent, Flags, Invalid, Reading, Refusal};
use crate::attribute::view;
use crate::evaluate::At;
use crate::report::{Code, ConfigState as State, Finding, Rule, RuleEvidence, Severity};
use crate::verdict::{finding, rules};
use ipnet::IpNet;
use serde_json::json;

/// What the findings are about.
pub(super) struct About<'a, 'r> {
    pub(super) agent: Agent,
    pub(super) flags: &'a Flags,
    pub(super) running: &'a Running,
    pub(super) comparison: &'a Comparison<'r>,
    /// Where the configuration was read; `None`: there is none.
    pub(super) from: Option<&'a str>,
    pub(super) reading: Option<&'a Reading>,
    /// Whether the file in the agent's pod is not this configuration.
    pub(super) behind: bool,
}

/// All findings of a comparison.
pub(super) fn of(about: &About<'_, '_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(reading) = about.reading {
        found.extend(
            reading
                .config
                .as_ref()
                .err()
                .map(|invalid| about.invalid(invalid)),
        );
        found.extend(reading.traps.iter().map(trap));
    }
    for half in &about.comparison.halves {
        found.extend(about.from.and_then(|from| about.state(half, from)));
        found.extend(about.foreign(half));
        found.extend(two_stores(half));
    }
    found.extend(about.left_over());
    found
}

fn trap(trap: &Trap) -> Finding {
    let code = match trap.kind {
        TrapKind::WrongKey | TrapKind::WrongPlace => Code::ConfigNotRead,
        _ => Code::ConfigTrap,
    };
    let severity = match trap.kind.misleads() {
        true => Severity::Warning,
        false => Severity::Info,
    };
    let line = trap
        .line
        .map_or_else(String::new, |line| format!("line {line}: "));
    Finding {
        text: format!("{line}{}", trap.text),
        fix: trap.fix.clone(),
        data: json!({ "trap": trap.kind.word(), "line": trap.line }),
        ..finding(code, severity)
    }
}

impl About<'_, '_> {
    fn invalid(&self, invalid: &Invalid) -> Finding {
        let effect = match (invalid.by, self.agent) {
            (Refusal::Iptables, _) => {
                "the agent tries again every time and fails: its rules of before stay, and are not healed"
            }
            (_, Agent::Azure) => {
                "the agent's process ends over it, again and again: its rules of before stay"
            }
            (_, Agent::Cilium) => "Cilium keeps the map of before",
            (_, Agent::Upstream) => {
                "the agent takes nothing of the file, only its log says so: its rules of before stay and are not healed, \
                 and one that starts with it installs none"
            }
        };
        Finding {
            text: format!("{invalid}; {effect}"),
            fix: Some("correct the line; the agent reads it again by itself".to_owned()),
            data: json!({ "line": invalid.line, "key": invalid.key, "why": invalid.why }),
            ..finding(Code::ConfigInvalid, Severity::Error)
        }
    }

    fn state(&self, half: &Half<'_>, from: &str) -> Option<Finding> {
        let name = half.chain().map(Installed::name).unwrap_or_default();
        let family = if half.v6 { "IPv6" } else { "IPv4" };
        match half.state {
            State::Agrees | State::Invalid => None,
            State::ChainMissing => Some(self.missing(half.v6, from)),
            State::JumpMissing => Some(Finding {
                text: format!(
                    "nothing jumps to {name}: its rules do nothing, and {family} packets of pods leave as they are"
                ),
                fix: Some("restart the agent on this node: it adds the jump when it writes its rules".to_owned()),
                ..finding(Code::AgentMissing, Severity::Error)
            }),
            State::Shadowed => half.shadow.map(|(at, dst)| shadowed(at, &dst.to_string(), &name)),
            State::NotRead => Some(Finding {
                text: format!("{name} holds the agent's defaults: it did not read {from}"),
                fix: Some(
                    "look whether the ConfigMap is kube-system/ip-masq-agent and its key config, and at the agent's log".to_owned(),
                ),
                data: drift(half),
                ..finding(Code::ConfigNotRead, Severity::Error)
            }),
            State::Differs | State::Lagging => Some(self.differs(half, from, &name)),
        }
    }

    fn missing(&self, v6: bool, from: &str) -> Finding {
        let chain = &self.flags.chain;
        let (which, table) = match v6 {
            true => ("the IPv6 half is missing: ", "ip6tables"),
            false => ("", "iptables"),
        };
        let who = match self.running {
            Running::Yes(process) => format!(
                "the agent runs (process {}) and has not written it",
                process.pid
            ),
            Running::No => "no agent runs on this node".to_owned(),
            Running::Unknown => "whether an agent runs here cannot be seen".to_owned(),
        };
        let asks = match self.reading.is_some_and(|reading| reading.config.is_err()) {
            true => format!("an agent that starts with {from}, which it refuses, writes no rules"),
            false => format!("{from} asks for masquerade"),
        };
        Finding {
            text: format!("{which}{asks}, and {table} has no chain {chain} in any store; {who}"),
            fix: Some(
                "kubectl -n kube-system get pods -o wide -l k8s-app=ip-masq-agent: is one on this node? (taints, node selector), and its log".to_owned(),
            ),
            data: json!({ "chain": chain, "ipv6": v6 }),
            ..finding(Code::AgentMissing, Severity::Error)
        }
    }

    fn differs(&self, half: &Half<'_>, from: &str, name: &str) -> Finding {
        let (missing, extra) = lists(half);
        let mut parts = Vec::new();
        if !missing.is_empty() {
            parts.push(format!(
                "lacks {} (masqueraded, and should not be)",
                listed(&missing)
            ));
        }
        if !extra.is_empty() {
            parts.push(format!(
                "exempts {}, which is not asked for",
                listed(&extra)
            ));
        }
        if half.chain().is_some_and(|chain| !chain.masquerades) {
            parts.push("masquerades nothing: its last rule is missing".to_owned());
        }
        let lagging = half.state == State::Lagging;
        Finding {
        text: format!(
            "{name} is not what {from} asks for: it {}",
            parts.join(", and ")
        ),
        fix: Some(
            match (lagging, self.behind) {
                (true, _) => "wait for the agent's next look",
                (_, true) => "the agent writes what its file says: see there",
                _ if *self.running == Running::No => {
                    "no agent runs on this node that would write it: see why, below"
                }
                _ => "look at the agent, not at the network: its log says why it does not write this",
            }
            .to_owned(),
        ),
        data: drift(half),
        ..finding(
            Code::ConfigDrift,
            if lagging {
                Severity::Info
            } else {
                Severity::Error
            },
        )
    }
    }

    /// Rules in the agent's chain that the agent did not write.
    fn foreign(&self, half: &Half<'_>) -> Vec<Finding> {
        let resync = self
            .reading
            .and_then(|reading| reading.config.as_ref().ok());
        let every = resync.and_then(|config| config.resync);
        let every = every.map_or(String::new(), |span| format!(", every {span}"));
        let one = |chain: &Installed<'_>| -> Vec<Finding> {
            let rules = chain.foreign.iter();
            rules
                .map(|rule| {
                    let rule = shown(chain.at(rule));
                    Finding {
                        text: format!(
                            "{} was not written by the agent whose chain this is: it vanishes when the agent writes its chain again{every}",
                            rule.name()
                        ),
                        fix: Some(
                            "say it in the agent's configuration, or put the rule into a chain of its own before the agent's jump".to_owned(),
                        ),
                        rule: Some(rule),
                        ..finding(Code::UnownedRule, Severity::Warning)
                    }
                })
                .collect()
        };
        half.chains.iter().flat_map(one).collect()
    }

    /// Rules of an agent that does not run.
    fn left_over(&self) -> Option<Finding> {
        let chains: Vec<String> = self
            .comparison
            .halves
            .iter()
            .flat_map(|half| &half.chains)
            .map(Installed::name)
            .collect();
        let none = *self.running == Running::No;
        (none && !chains.is_empty()).then(|| Finding {
            text: format!(
                "{} is there, and no agent that writes it runs on this node: the rules are left over, nobody heals them or reads an edit",
                chains.join(" and ")
            ),
            fix: Some(
                "kubectl -n kube-system get ds ip-masq-agent: does it tolerate this node's taints, does its node selector fit?".to_owned(),
            ),
            data: json!({ "chains": chains }),
            ..finding(Code::AgentNotRunning, Severity::Warning)
        })
    }
}

fn shown(at: At<'_>) -> Rule {
    view(at, &[at], RuleEvidence::Replayed)
}

fn shadowed(at: At<'_>, dst: &str, chain: &str) -> Finding {
    let rule = shown(at);
    let whose = match rule.chain.starts_with("IP-MASQ") {
        true => {
            "; that chain is a boot script's or another agent's: no edit of this configuration changes it"
        }
        false => "",
    };
    Finding {
        text: format!(
            "{} decides before {chain} is reached (tried with a packet to {dst}){whose}",
            rules::name(&rule)
        ),
        fix: Some(
            "take that rule away, or have it leave these destinations to the agent's chain"
                .to_owned(),
        ),
        data: json!({ "dest": dst }),
        rule: Some(rule),
        ..finding(Code::AgentShadowed, Severity::Error)
    }
}

fn lists(half: &Half<'_>) -> (Vec<IpNet>, Vec<IpNet>) {
    let of = |wanted: bool| {
        let entries = half
            .entries
            .iter()
            .filter(|e| e.matters && e.wanted == wanted);
        entries.map(|entry| entry.net).collect::<Vec<_>>()
    };
    (of(true), of(false))
}

fn drift(half: &Half<'_>) -> serde_json::Value {
    let (missing, extra) = lists(half);
    json!({ "ipv6": half.v6, "missing": missing, "extra": extra })
}

fn two_stores(half: &Half<'_>) -> Option<Finding> {
    let stores: Vec<String> = half.stores().iter().map(ToString::to_string).collect();
    (stores.len() > 1).then(|| Finding {
        text: format!(
            "the agent's chain is in two rule stores ({}): one of them is left over, and what it masquerades the other cannot exempt",
            stores.join(" and ")
        ),
        fix: Some("delete the chain, and the jump to it, in the store that the agent does not use".to_owned()),
        data: json!({ "stores": stores }),
        ..finding(Code::TwoBackends, Severity::Warning)
    })
}
