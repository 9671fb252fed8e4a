//! Loading made-up rules into the kernel, reading them back by the tools' own output, and the
//! kernel's counters of how often each rule matched.

use super::draft::{Draft, Tool};
use super::iptables::IPSETS;
use crate::lab::{Lab, netns};
use anyhow::{Context as _, Result, bail};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::process::Command;
use tracer_core::ruleset::{Backend, Dumps, Family, Ruleset, TableId, assemble};

/// How often each rule matched, by table, chain and number.
pub(super) type Counts = BTreeMap<(String, String, u32), u64>;

/// The sets that iptables' rules name.
pub(super) fn load_sets(lab: &Lab) -> Result<()> {
    let mut command = Command::new("ipset");
    command.arg("restore");
    lab.in_ns("node", || netns::run_with_input(&mut command, IPSETS))?
}

/// Puts the rules in the place of those that are there.
pub(super) fn load(lab: &Lab, draft: &Draft) -> Result<()> {
    let mut command = match draft.tool {
        Tool::Legacy => Command::new("iptables-legacy-restore"),
        Tool::IptablesNft => Command::new("iptables-nft-restore"),
        Tool::Nft => Command::new("nft"),
    };
    match draft.tool {
        Tool::Legacy => command.args(["-w", "10"]),
        Tool::IptablesNft => &mut command,
        Tool::Nft => command.args(["-f", "-"]),
    };
    lab.in_ns("node", || {
        netns::run_with_input(&mut command, &draft.text())
    })?
}

/// Takes every rule of the tool's stores away.
pub(super) fn clear(lab: &Lab, tool: Tool) -> Result<()> {
    if tool == Tool::Legacy {
        let empty = super::iptables::empty();
        let mut command = Command::new("iptables-legacy-restore");
        return lab.in_ns("node", || {
            netns::run_with_input(&mut command, &empty.text())
        })?;
    }
    lab.run("node", "nft flush ruleset").map(drop)
}

/// What the tools say of the rules.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) ruleset: Ruleset,
    /// The dump, for whoever must look into a difference.
    pub(super) dump: String,
}

/// Reads the rules back.
pub(super) fn read(lab: &Lab, tool: Tool) -> Result<Reading> {
    let say = |line: &str| lab.run("node", line);
    let mut dumps = Dumps {
        ipset: Some(say("ipset save")?),
        ..Dumps::default()
    };
    if tool == Tool::Legacy {
        dumps.legacy = vec![(Family::Ip, say("iptables-legacy-save")?)];
    } else {
        dumps.nft_json = Some(say("nft -j -a list ruleset")?);
        dumps.nft_text = Some(say("nft -a list ruleset")?);
        dumps.hooks = Some(say("nft list hooks")?);
    }
    if tool == Tool::IptablesNft {
        dumps.nft_save = vec![(Family::Ip, say("iptables-nft-save")?)];
    }
    let mut ruleset = assemble(&dumps);
    in_order_of_loading(&mut ruleset);
    let dump = format!("{dumps:#?}").replace("\\n", "\n");
    match ruleset.unread.first() {
        Some(unread) => bail!("{}: {}\nthe dump was:\n{dump}", unread.what, unread.why),
        None => Ok(Reading { ruleset, dump }),
    }
}

/// Not every kernel lists its hooks; here the order is known: the draft's, loaded in one go. Tables
/// of iptables-legacy are alone.
fn in_order_of_loading(ruleset: &mut Ruleset) {
    let chains = ruleset
        .tables
        .iter_mut()
        .flat_map(|table| &mut table.chains);
    for (n, base) in (0..).zip(chains.filter_map(|chain| chain.base.as_mut())) {
        base.registered = Some(n);
    }
}

/// A table's name in [`Counts`].
pub(super) fn table_key(id: &TableId) -> String {
    match id.backend {
        Backend::Nft => format!("{} {}", id.family, id.name),
        _ => id.name.clone(),
    }
}

/// What the kernel counted.
pub(super) fn counts(lab: &Lab, tool: Tool) -> Result<Counts> {
    match tool {
        Tool::Legacy => Ok(saved_counts(&lab.run("node", "iptables-legacy-save -c")?)),
        Tool::IptablesNft => Ok(saved_counts(&lab.run("node", "iptables-nft-save -c")?)),
        Tool::Nft => listed_counts(&lab.run("node", "nft -j -a list ruleset")?),
    }
}

/// `[PACKETS:BYTES] -A CHAIN …`.
fn saved_counts(dump: &str) -> Counts {
    let mut counts = Counts::new();
    let mut table = "";
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
            numbers.clear();
        }
        let rule = line.strip_prefix('[').and_then(|l| l.split_once(':'));
        let Some((packets, rest)) = rule else {
            continue;
        };
        let chain = rest.split(' ').nth(2).unwrap_or_default();
        let number = numbers.entry(chain).or_insert(0);
        *number += 1;
        let key = (table.to_owned(), chain.to_owned(), *number);
        counts.insert(key, packets.parse().unwrap_or(u64::MAX));
    }
    counts
}

fn listed_counts(json: &str) -> Result<Counts> {
    let whole: Json = serde_json::from_str(json).context("nft's JSON")?;
    let objects = whole["nftables"]
        .as_array()
        .context("no list \"nftables\"")?;
    let mut counts = Counts::new();
    let mut numbers: BTreeMap<(String, String), u32> = BTreeMap::new();
    for rule in objects.iter().filter_map(|object| object.get("rule")) {
        let word = |key: &str| rule[key].as_str().unwrap_or_default();
        let at = (
            format!("{} {}", word("family"), word("table")),
            word("chain").to_owned(),
        );
        let number = numbers.entry(at.clone()).or_insert(0);
        *number += 1;
        let parts = rule["expr"].as_array().context("a rule without parts")?;
        let counter = parts.iter().find_map(|part| part.get("counter"));
        let packets = counter.and_then(|c| c["packets"].as_u64());
        counts.insert((at.0, at.1, *number), packets.unwrap_or(u64::MAX));
    }
    Ok(counts)
}
