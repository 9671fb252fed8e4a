//! The rules as they would be after an agent took a configuration.

use super::installed::{Installed, Installer};
use super::{Config, Flags};
use crate::ruleset::iptables::{self, Origin};
use crate::ruleset::{
    Backend, Base, Chain, ChainKind, Family, Hook, Policy, Ruleset, Table, TableId,
};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// iptables' priority of source NAT.
const SRCNAT: i32 = 100;

/// The rules with the agent's chain written anew, in every store where it is; where it is in none, in
/// the store of the other chains of such agents, else in that which has a table `nat`.
#[must_use]
pub fn edited(rules: &Ruleset, config: &Config, flags: &Flags) -> Ruleset {
    let mut after = rules.clone();
    for v6 in [false, true] {
        if v6 && !flags.ipv6 {
            continue;
        }
        let found = Installed::find(rules, &flags.chain);
        let of_family = || found.iter().filter(|chain| chain.v6() == v6);
        let own: Vec<TableId> = of_family()
            .filter(|chain| chain.by == Installer::Agent)
            .map(|chain| chain.table.id.clone())
            .collect();
        let homes = match own.as_slice() {
            [] => {
                let beside = of_family().next().map(|chain| chain.table.id.clone());
                vec![beside.unwrap_or_else(|| home(rules, v6))]
            }
            _ => own,
        };
        let nets = config.exempt(v6);
        for id in homes {
            write(&mut after, &id, &nets, flags);
        }
    }
    after
}

fn home(rules: &Ruleset, v6: bool) -> TableId {
    let family = if v6 { Family::Ip6 } else { Family::Ip };
    let is_nat = |table: &&Table| {
        let id = &table.id;
        id.name == "nat" && id.family == family && id.backend != Backend::Nft
    };
    rules.tables.iter().find(is_nat).map_or_else(
        || TableId {
            backend: Backend::IptablesLegacy,
            family,
            name: "nat".to_owned(),
        },
        |table| table.id.clone(),
    )
}

/// Replaces the chain in a table, and adds what is missing around it.
fn write(rules: &mut Ruleset, id: &TableId, nets: &[IpNet], flags: &Flags) {
    let name = &flags.chain;
    let written = parsed(&dump(nets, flags), id, rules);
    let at = rules.tables.iter().position(|table| table.id == *id);
    let at = at.unwrap_or_else(|| {
        rules.tables.push(Table {
            id: id.clone(),
            dormant: false,
            chains: Vec::new(),
        });
        rules.tables.len() - 1
    });
    let table = &mut rules.tables[at];
    let has_jump = Installed::find(
        &Ruleset {
            tables: vec![table.clone()],
            ..Ruleset::default()
        },
        name,
    )
    .iter()
    .any(|chain| chain.chain.name == *name && !chain.jumps.is_empty());
    for chain in written.into_iter().flat_map(|table| table.chains) {
        let at = table
            .chains
            .iter()
            .position(|known| known.name == chain.name);
        match (at, chain.name == *name) {
            (Some(at), true) => keep_tail(&mut table.chains[at], chain),
            (None, true) => table.chains.push(chain),
            (_, false) if has_jump => {}
            (at, false) => add_jump(at, chain, &mut table.chains),
        }
    }
}

/// The exempting rules anew, and what the agent has after them as it is: it is written by flags.
fn keep_tail(known: &mut Chain, new: Chain) {
    let exempts = |rule: &crate::ruleset::Rule| rule.text.ends_with("-j RETURN");
    let tail = known.rules.iter().filter(|rule| {
        let signed = rule
            .comment
            .as_deref()
            .is_some_and(|c| c.starts_with("ip-masq-agent:"));
        signed && !exempts(rule)
    });
    let tail: Vec<_> = tail.cloned().collect();
    let mut rules: Vec<_> = match tail.is_empty() {
        true => new.rules,
        false => new.rules.into_iter().filter(exempts).chain(tail).collect(),
    };
    for (n, rule) in rules.iter_mut().enumerate() {
        rule.index = u32::try_from(n + 1).unwrap_or(u32::MAX);
        rule.handle = None;
    }
    known.rules = rules;
}

/// The jump is appended to POSTROUTING.
fn add_jump(at: Option<usize>, new: Chain, all: &mut Vec<Chain>) {
    let Some(jump) = new.rules.into_iter().next() else {
        return;
    };
    let at = at.unwrap_or_else(|| {
        all.push(Chain {
            name: new.name,
            base: Some(Base {
                kind: ChainKind::Nat,
                hook: Hook::Postrouting,
                priority: SRCNAT,
                policy: Policy::Accept,
                registered: None,
                devices: Vec::new(),
            }),
            rules: Vec::new(),
        });
        all.len() - 1
    });
    let postrouting = &mut all[at];
    let index = u32::try_from(postrouting.rules.len() + 1).unwrap_or(u32::MAX);
    postrouting
        .rules
        .push(crate::ruleset::Rule { index, ..jump });
}

/// The agent's rules as `iptables-save` would print them.
fn dump(nets: &[IpNet], flags: &Flags) -> String {
    let chain = &flags.chain;
    let mut text = format!("*nat\n:POSTROUTING ACCEPT [0:0]\n:{chain} - [0:0]\n");
    let mut line = |rule: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{rule}");
    };
    line(format!(
        "-A POSTROUTING -m comment --comment \"ip-masq-agent: ensure nat POSTROUTING directs all non-LOCAL \
         destination traffic to our custom {chain} chain\" -m addrtype ! --dst-type LOCAL -j {chain}"
    ));
    for net in nets {
        let to = match net.prefix_len() {
            0 => String::new(),
            _ => format!("-d {net} "),
        };
        line(format!(
            "-A {chain} {to}-m comment --comment \"ip-masq-agent: local traffic is not subject to MASQUERADE\" -j RETURN"
        ));
    }
    let random = if flags.random_fully {
        " --random-fully"
    } else {
        ""
    };
    line(format!(
        "-A {chain} -m comment --comment \"ip-masq-agent: outbound traffic is subject to MASQUERADE (must be last \
         in chain)\" -j MASQUERADE{random}"
    ));
    line("COMMIT".to_owned());
    text
}

fn parsed(dump: &str, id: &TableId, rules: &Ruleset) -> Vec<Table> {
    let sets = BTreeMap::new();
    let origin = Origin {
        backend: id.backend,
        family: id.family,
        sets: if rules.sets.is_empty() {
            &sets
        } else {
            &rules.sets
        },
    };
    iptables::parse(dump, &origin).tables
}
