//! The chains of masquerading agents in a namespace's rule stores.

use crate::evaluate::At;
use crate::ruleset::{
    Action, Backend, Chain, Condition, Family, Field, Hook, NatKind, Op, Rule, Ruleset, Step,
    Table, Test, Value, Verdict,
};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A chain as an agent writes it, or a node's boot script.
#[derive(Clone, Debug)]
pub struct Installed<'r> {
    /// Its table.
    pub table: &'r Table,
    /// The chain.
    pub chain: &'r Chain,
    /// Whose it is.
    pub by: Installer,
    /// Rules that jump to it, in chains that a packet meets.
    pub jumps: Vec<At<'r>>,
    /// Destinations that it exempts, in order.
    pub exempt: Vec<(IpNet, &'r Rule)>,
    /// Whether it masquerades what it does not exempt.
    pub masquerades: bool,
    /// Rules that the agent did not write: they vanish when it writes its chain again.
    pub foreign: Vec<&'r Rule>,
}

/// Who wrote a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    /// The agent that is asked about.
    Agent,
    /// Another agent, or the node's boot script: no configuration of the agent changes it.
    Other,
}

/// Comments of the agents' rules begin so; Azure's jump has a quote before it.
const COMMENT: &str = "ip-masq-agent:";
/// Chains of this name, or with such comments, are an agent's or the boot script's.
const NAME: &str = "IP-MASQ";

impl<'r> Installed<'r> {
    /// All of them. `name` is the chain of the agent that is asked about.
    #[must_use]
    pub fn find(rules: &'r Ruleset, name: &str) -> Vec<Self> {
        let tables = rules.tables.iter().filter(|table| {
            let id = &table.id;
            id.name == "nat"
                && id.backend != Backend::Nft
                && matches!(id.family, Family::Ip | Family::Ip6)
        });
        let chains = tables.flat_map(|table| table.chains.iter().map(move |chain| (table, chain)));
        let is_agents = |chain: &Chain| {
            let signed = chain.rules.iter().any(is_signed);
            chain.base.is_none() && (chain.name == name || chain.name.starts_with(NAME) || signed)
        };
        chains
            .filter(|(_, chain)| is_agents(chain))
            .map(|(table, chain)| Self::of(table, chain, name))
            .collect()
    }

    fn of(table: &'r Table, chain: &'r Chain, name: &str) -> Self {
        let by = match chain.name == name {
            true => Installer::Agent,
            false => Installer::Other,
        };
        let mut found = Self {
            table,
            chain,
            by,
            jumps: jumps(table, &chain.name),
            exempt: Vec::new(),
            masquerades: false,
            foreign: Vec::new(),
        };
        let signed = chain.rules.iter().any(is_signed);
        let v6 = table.id.family == Family::Ip6;
        for rule in &chain.rules {
            let shape = Shape::of(rule, v6);
            match shape {
                Shape::Exempts(net) if !found.masquerades => found.exempt.push((net, rule)),
                Shape::Masquerades => found.masquerades = true,
                Shape::SomePorts if is_signed(rule) => {}
                _ => {
                    found.foreign.push(rule);
                    continue;
                }
            }
            if signed && !is_signed(rule) {
                found.foreign.push(rule);
            }
        }
        found
    }

    /// Whether it is for IPv6.
    #[must_use]
    pub fn v6(&self) -> bool {
        self.table.id.family == Family::Ip6
    }

    /// The destinations that it exempts.
    #[must_use]
    pub fn nets(&self) -> Vec<IpNet> {
        self.exempt.iter().map(|(net, _)| *net).collect()
    }

    /// One of its rules, where it stands.
    #[must_use]
    pub fn at(&self, rule: &'r Rule) -> At<'r> {
        At {
            table: self.table,
            chain: self.chain,
            rule,
        }
    }

    /// `iptables-legacy nat/IP-MASQ-AGENT`.
    #[must_use]
    pub fn name(&self) -> String {
        let id = &self.table.id;
        let tool = match (id.backend, id.family) {
            (Backend::IptablesLegacy, Family::Ip6) => "ip6tables-legacy",
            (Backend::IptablesLegacy, _) => "iptables-legacy",
            (_, Family::Ip6) => "ip6tables-nft",
            _ => "iptables-nft",
        };
        format!("{tool} {}/{}", id.name, self.chain.name)
    }

    /// Whether an agent's comments are on its rules.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.chain.rules.iter().any(is_signed)
    }

    /// Whether Azure's agent wrote the jump: its comment carries the quotes of a shell.
    #[must_use]
    pub fn is_azures(&self) -> bool {
        let comments = self
            .jumps
            .iter()
            .filter_map(|at| at.rule.comment.as_deref());
        comments
            .into_iter()
            .any(|text| text.starts_with("\"ip-masq-agent"))
    }
}

fn is_signed(rule: &Rule) -> bool {
    let comment = rule.comment.as_deref().unwrap_or_default();
    comment.trim_start_matches('"').starts_with(COMMENT)
}

/// What a rule is in an agent's chain.
enum Shape {
    /// `-d PREFIX -j RETURN`.
    Exempts(IpNet),
    /// `-j MASQUERADE`.
    Masquerades,
    /// `-j MASQUERADE --to-ports`, for one protocol and perhaps by chance.
    SomePorts,
    /// Something else.
    Other,
}

impl Shape {
    fn of(rule: &Rule, v6: bool) -> Self {
        let tests: Vec<&Test> = tests(rule).collect();
        let actions = rule.steps.iter().filter_map(|step| match step {
            Step::Do(Action::Pass(_)) | Step::Test(_) => None,
            Step::Do(action) => Some(action),
        });
        let actions: Vec<&Action> = actions.collect();
        match (tests.as_slice(), actions.as_slice()) {
            ([], [Action::Verdict(Verdict::Return)]) => {
                everything(v6).map_or(Self::Other, Self::Exempts)
            }
            ([test], [Action::Verdict(Verdict::Return)]) => {
                destination(test).map_or(Self::Other, Self::Exempts)
            }
            (tests, [Action::Nat(nat)]) if nat.kind == NatKind::Masquerade => match tests {
                [] => Self::Masquerades,
                _ if nat.ports.is_some() => Self::SomePorts,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

fn tests(rule: &Rule) -> impl Iterator<Item = &Test> {
    rule.steps.iter().filter_map(|step| match step {
        Step::Test(test) => Some(test),
        Step::Do(_) => None,
    })
}

fn everything(v6: bool) -> Option<IpNet> {
    if v6 { "::/0" } else { "0.0.0.0/0" }.parse().ok()
}

fn destination(test: &Test) -> Option<IpNet> {
    let Condition::Compare { field, op, values } = &test.condition else {
        return None;
    };
    match values.as_slice() {
        [Value::Masked { addr, mask }]
            if !test.negated && *field == Field::Daddr && *op == Op::Equal =>
        {
            IpNet::with_netmask(*addr, *mask).ok()
        }
        [Value::Addrs(first, last)]
            if !test.negated && *field == Field::Daddr && *op == Op::Equal && first == last =>
        {
            Some(IpNet::from(*first))
        }
        _ => None,
    }
}

/// Rules that lead into a chain, in chains that postrouting's NAT reaches.
fn jumps<'r>(table: &'r Table, to: &str) -> Vec<At<'r>> {
    let callee = |rule: &'r Rule| {
        rule.steps.iter().find_map(|step| match step {
            Step::Do(Action::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain))) => {
                Some(chain.as_str())
            }
            _ => None,
        })
    };
    let is_base = |chain: &&Chain| {
        chain
            .base
            .as_ref()
            .is_some_and(|base| base.hook == Hook::Postrouting)
    };
    let mut open: Vec<&'r Chain> = table.chains.iter().filter(is_base).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(chain) = open.pop() {
        if !seen.insert(chain.name.as_str()) {
            continue;
        }
        for rule in &chain.rules {
            match callee(rule) {
                Some(name) if name == to => found.push(At { table, chain, rule }),
                Some(name) => open.extend(table.chain(name)),
                None => {}
            }
        }
    }
    found
}

/// Whether an address is of the family.
#[must_use]
pub(super) fn is_of(addr: IpAddr, v6: bool) -> bool {
    addr.is_ipv6() == v6
}
