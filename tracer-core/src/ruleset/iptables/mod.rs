//! `iptables-save` and its kin: legacy and nft backend, IPv4 and IPv6 print one format.

mod line;
mod matches;
mod rows;
mod rule;
mod targets;

use super::{
    Backend, Base, Chain, ChainKind, Family, Hook, Policy, Set, SetId, Table, TableId, Unread,
    lines,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a dump is of.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Which of the two stores.
    pub backend: Backend,
    /// [`Family::Ip`] or [`Family::Ip6`].
    pub family: Family,
    /// The namespace's ipsets: their types tell what `--match-set … src,dst` looks at.
    pub sets: &'a BTreeMap<SetId, Set>,
}

/// What a dump holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Its tables, in its order.
    pub tables: Vec<Table>,
    /// Tables that `iptables-nft-save` says it cannot print; only `nft` can.
    pub incompatible: BTreeSet<String>,
    /// ipsets to which rules add (`-j SET`).
    pub written_sets: BTreeSet<String>,
    /// What could not be understood of the dump itself.
    pub unread: Vec<Unread>,
}

/// Reads what `iptables-save` (with or without `-c`) printed. Total: what it does not understand of a
/// rule is kept as unknown, what it does not understand of the dump goes to [`Saved::unread`].
#[must_use]
pub fn parse(dump: &str, origin: &Origin<'_>) -> Saved {
    let mut saved = Saved::default();
    let mut open: Option<Draft<'_>> = None;
    for line in lines::of(dump, true) {
        if line.is_empty() {
        } else if line.starts_with('#') {
            saved.incompatible.extend(incompatible(line));
        } else if let Some(name) = line.strip_prefix('*') {
            close(&mut saved, open.replace(Draft::new(name, origin)), false);
        } else if line == "COMMIT" {
            close(&mut saved, open.take(), true);
        } else if !open.as_mut().is_some_and(|draft| draft.take(line)) {
            saved
                .unread
                .push(unread(origin, format!("cannot read the line {line:?}")));
        }
    }
    close(&mut saved, open, false);
    let incompatible = saved.incompatible.clone();
    saved
        .tables
        .retain(|table| !incompatible.contains(&table.id.name));
    saved
}

/// The table of "# Table `nat' contains incompatible base-chains, use 'nft' tool to list them." and
/// of "# Table `nat' is incompatible, use 'nft' tool."
fn incompatible(comment: &str) -> Option<String> {
    let (name, rest) = comment.strip_prefix("# Table `")?.split_once('\'')?;
    rest.contains("incompatible").then(|| name.to_owned())
}

fn unread(origin: &Origin<'_>, why: String) -> Unread {
    Unread::new(format!("{} {}", origin.backend, origin.family), why)
}

fn close(saved: &mut Saved, draft: Option<Draft<'_>>, complete: bool) {
    let Some(draft) = draft else { return };
    let origin = draft.origin;
    let name = draft.name;
    if !complete {
        saved.unread.push(unread(
            origin,
            format!("the dump of table {name} ends before COMMIT"),
        ));
    }
    let table = draft.finish(&mut saved.written_sets);
    let before = saved.tables.iter_mut().find(|known| known.id == table.id);
    match before {
        Some(known) if *known == table => {}
        Some(known) => {
            saved.unread.push(unread(
                origin,
                format!("table {name} is dumped twice, differently"),
            ));
            *known = table;
        }
        None => saved.tables.push(table),
    }
}

/// A table of which lines are still to come: targets can be told from chains only when all are known.
struct Draft<'a> {
    origin: &'a Origin<'a>,
    name: &'a str,
    chains: Vec<(String, Option<Policy>)>,
    at: BTreeMap<String, usize>,
    rules: Vec<Vec<&'a str>>,
}

impl<'a> Draft<'a> {
    fn new(name: &'a str, origin: &'a Origin<'a>) -> Self {
        let (chains, at, rules) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self {
            origin,
            name,
            chains,
            at,
            rules,
        }
    }

    /// Takes a line in; `false`: not one of a table.
    fn take(&mut self, line: &'a str) -> bool {
        if let Some(chain) = line.strip_prefix(':') {
            return self.declare(chain).is_some();
        }
        let Some(rule) = without_counters(line) else {
            return false;
        };
        let name = line::words(rule).into_iter().nth(1).map(|word| word.text);
        let Some(name) = name.filter(|_| rule.starts_with("-A ")) else {
            return false;
        };
        let chain = self.chain(&name, None);
        self.rules[chain].push(rule);
        true
    }

    /// `NAME POLICY [packets:bytes]`.
    fn declare(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let policy = match words.next()? {
            "ACCEPT" => Some(Policy::Accept),
            "DROP" => Some(Policy::Drop),
            _ => None,
        };
        self.chain(name, policy);
        Some(())
    }

    fn chain(&mut self, name: &str, policy: Option<Policy>) -> usize {
        let next = self.chains.len();
        let at = *self.at.entry(name.to_owned()).or_insert(next);
        if at == next {
            self.chains.push((name.to_owned(), policy));
            self.rules.push(Vec::new());
        }
        at
    }

    fn finish(self, written: &mut BTreeSet<String>) -> Table {
        let names = &self.at;
        let id = TableId {
            backend: self.origin.backend,
            family: self.origin.family,
            name: self.name.to_owned(),
        };
        let chains = self
            .chains
            .iter()
            .zip(&self.rules)
            .map(|((name, policy), lines)| Chain {
                name: name.clone(),
                base: policy.and_then(|policy| base(self.name, name, policy)),
                rules: (1..)
                    .zip(lines)
                    .map(|(index, line)| {
                        rule::read(
                            line,
                            index,
                            &rule::Place {
                                origin: self.origin,
                                chain: name,
                                chains: names,
                            },
                            written,
                        )
                    })
                    .collect(),
            });
        Table {
            chains: chains.collect(),
            id,
            dormant: false,
        }
    }
}

/// The rule behind `[packets:bytes]`, if the counters are there.
fn without_counters(line: &str) -> Option<&str> {
    match line.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(_, rule)| rule.trim_start()),
        None => Some(line),
    }
}

/// Where x_tables hooks a built-in chain (net/ipv4/netfilter/iptable_*.c; linux/netfilter_ipv4.h).
fn base(table: &str, chain: &str, policy: Policy) -> Option<Base> {
    let hook = match chain {
        "PREROUTING" => Hook::Prerouting,
        "INPUT" => Hook::Input,
        "FORWARD" => Hook::Forward,
        "OUTPUT" => Hook::Output,
        "POSTROUTING" => Hook::Postrouting,
        _ => return None,
    };
    let priority = match (table, hook) {
        ("raw", _) => -300,
        ("mangle", _) => -150,
        ("nat", Hook::Prerouting | Hook::Output) => -100,
        ("nat", _) => 100,
        ("security", _) => 50,
        _ => 0,
    };
    let kind = match (table, hook) {
        ("nat", _) => ChainKind::Nat,
        ("mangle", Hook::Output) => ChainKind::Route,
        _ => ChainKind::Filter,
    };
    Some(Base {
        kind,
        hook,
        priority,
        policy,
        registered: None,
        devices: Vec::new(),
    })
}
