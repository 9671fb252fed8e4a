//! Loading made-up rules into the kernel, reading them back by the tools' own output, and the
//! kernel's counters of how often each rule matched.

use super::draft::{Draft, Tool};
use super::iptables::IPSETS;
use super::{six, witness};
use crate::lab::{Lab, netns};
use anyhow::{Context as _, Result, bail};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::process::Command;
use tracer_core::ruleset::{Backend, Dumps, Family, Ruleset, TableId, assemble};

/// How often each rule matched, by table, chain and number.
pub(super) type Counts = BTreeMap<(String, String, u32), u64>;

/// The sets that iptables' rules name.
pub(super) fn load_sets(lab: &Lab, six: bool) -> Result<()> {
    let sets = if six {
        six::text(IPSETS)
    } else {
        IPSETS.to_owned()
    };
    let mut command = Command::new("ipset");
    command.arg("restore");
    lab.in_ns("node", || netns::run_with_input(&mut command, &sets))?
}

/// Loads the rules, one tool after the other.
pub(super) fn load(lab: &Lab, draft: &Draft) -> Result<()> {
    for tool in draft.tools() {
        let mut command = match tool {
            Tool::Legacy => Command::new(iptables(draft, "legacy-restore")),
            Tool::IptablesNft => Command::new(iptables(draft, "nft-restore")),
            Tool::Nft => Command::new("nft"),
        };
        match tool {
            Tool::Legacy => command.args(["-w", "10"]),
            Tool::IptablesNft => &mut command,
            Tool::Nft => command.args(["-f", "-"]),
        };
        let text = draft.text(tool);
        lab.in_ns("node", || netns::run_with_input(&mut command, &text))??;
    }
    Ok(())
}

/// A program of iptables for the draft's family.
fn iptables(draft: &Draft, program: &str) -> String {
    let six = if draft.six { "6" } else { "" };
    format!("ip{six}tables-{program}")
}

/// Takes every rule away, but for the one that switches the trace on.
pub(super) fn clear(lab: &Lab, draft: &Draft) -> Result<()> {
    if draft.tools().contains(&Tool::Legacy) {
        load(lab, &super::iptables::empty(draft.six))?;
    }
    judge(lab)
}

/// Leaves nothing in nftables but the rule that switches the trace on.
pub(super) fn judge(lab: &Lab) -> Result<()> {
    lab.nft("node", &format!("flush ruleset\n{}", witness::RULES))
}

/// What the tools say of the rules.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) ruleset: Ruleset,
    /// The dump, for whoever must look into a difference.
    pub(super) dump: String,
}

/// Reads the rules back.
pub(super) fn read(lab: &Lab, draft: &Draft) -> Result<Reading> {
    let tools = draft.tools();
    let family = family(draft);
    let say = |line: &str| lab.run("node", line);
    let mut dumps = Dumps {
        ipset: Some(say("ipset save")?),
        ..Dumps::default()
    };
    if tools.contains(&Tool::Legacy) {
        dumps.legacy = vec![(family, say(&iptables(draft, "legacy-save"))?)];
    }
    if tools != [Tool::Legacy] {
        dumps.nft_json = Some(say("nft -j -a list ruleset")?);
        dumps.nft_text = Some(say("nft -a list ruleset")?);
    }
    if tools.contains(&Tool::IptablesNft) {
        dumps.nft_save = vec![(family, say(&iptables(draft, "nft-save"))?)];
    }
    let mut ruleset = assemble(&dumps);
    witness::without_judge(&mut ruleset);
    in_order_of_loading(&mut ruleset);
    let dump = format!("{dumps:#?}").replace("\\n", "\n");
    match ruleset.unread.first() {
        Some(unread) => bail!("{}: {}\nthe dump was:\n{dump}", unread.what, unread.why),
        None => Ok(Reading { ruleset, dump }),
    }
}

fn family(draft: &Draft) -> Family {
    if draft.six { Family::Ip6 } else { Family::Ip }
}

/// Not every kernel lists its hooks; here the order is known: first iptables-legacy's (their
/// hooks outlive the rules), then the others as they were loaded in one go.
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
    format!("{} {} {}", id.backend, id.family, id.name)
}

/// What the kernel counted.
pub(super) fn counts(lab: &Lab, draft: &Draft) -> Result<Counts> {
    let mut counts = Counts::new();
    for tool in draft.tools() {
        let more = match tool {
            Tool::Legacy => saved_counts(lab, draft, Backend::IptablesLegacy, "legacy-save -c")?,
            Tool::IptablesNft => saved_counts(lab, draft, Backend::IptablesNft, "nft-save -c")?,
            Tool::Nft => listed_counts(&lab.run("node", "nft -j -a list ruleset")?)?,
        };
        counts.extend(more);
    }
    Ok(counts)
}

/// `[PACKETS:BYTES] -A CHAIN …`.
fn saved_counts(lab: &Lab, draft: &Draft, backend: Backend, program: &str) -> Result<Counts> {
    let dump = lab.run("node", &iptables(draft, program))?;
    let family = family(draft);
    let mut counts = Counts::new();
    let mut table = String::new();
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    for line in dump.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = format!("{backend} {family} {name}");
            numbers.clear();
        }
        let rule = line.strip_prefix('[').and_then(|l| l.split_once(':'));
        let Some((packets, rest)) = rule else {
            continue;
        };
        let chain = rest.split(' ').nth(2).unwrap_or_default();
        let number = numbers.entry(chain).or_insert(0);
        *number += 1;
        let key = (table.clone(), chain.to_owned(), *number);
        counts.insert(key, packets.parse().unwrap_or(u64::MAX));
    }
    Ok(counts)
}

fn listed_counts(json: &str) -> Result<Counts> {
    let whole: Json = serde_json::from_str(json).context("nft's JSON")?;
    let objects = whole["nftables"]
        .as_array()
        .context("no list \"nftables\"")?;
    let mut counts = Counts::new();
    let mut numbers: BTreeMap<(String, String), u32> = BTreeMap::new();
    let rules = objects.iter().filter_map(|object| object.get("rule"));
    for rule in rules.filter(|rule| rule["table"] != witness::TABLE) {
        let word = |key: &str| rule[key].as_str().unwrap_or_default();
        let at = (
            format!("nft {} {}", word("family"), word("table")),
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
