//! `nft -a list ruleset` as text: what `nft -j` leaves out or prints wrongly (1.0.6 prints another
//! table's name for `flags dormant`, and no devices), and the rules' own text.

use std::collections::BTreeMap;

/// The text listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Tables by family and name.
    pub(super) tables: BTreeMap<(String, String), Listed>,
}

/// A table in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// `flags dormant`.
    pub(super) dormant: bool,
    /// Its chains by name.
    pub(super) chains: BTreeMap<String, ListedChain>,
}

/// A chain in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedChain {
    /// Its devices.
    pub(super) devices: Vec<String>,
    /// Handles and texts of its rules, in order.
    pub(super) rules: Vec<(u64, String)>,
}

/// Where a line stands.
#[derive(Default)]
struct At {
    table: Option<(String, String)>,
    chain: Option<String>,
    /// Lines of a rule that is not finished.
    open: String,
}

/// Reads the listing; lines that say nothing wanted here are passed over.
pub(super) fn parse(text: &str) -> Listing {
    let mut listing = Listing::default();
    let mut at = At::default();
    for line in text.lines() {
        take(line, &mut at, &mut listing);
    }
    listing
}

fn take(line: &str, at: &mut At, listing: &mut Listing) -> Option<()> {
    if let Some(heading) = line.strip_prefix("table ") {
        let mut words = heading.split_whitespace();
        let id = (words.next()?.to_owned(), words.next()?.to_owned());
        listing.tables.entry(id.clone()).or_default();
        *at = At {
            table: Some(id),
            ..At::default()
        };
        return Some(());
    }
    let table = listing.tables.get_mut(at.table.as_ref()?)?;
    let Some(name) = &at.chain else {
        if let Some(heading) = line.strip_prefix("\tchain ") {
            at.chain = Some(heading.split_whitespace().next()?.to_owned());
        } else if let Some(flags) = line.strip_prefix("\tflags ") {
            table.dormant |= flags.split([',', ' ', ';']).any(|flag| flag == "dormant");
        }
        return Some(());
    };
    let chain = table.chains.entry(name.clone()).or_default();
    if line == "\t}" && at.open.is_empty() {
        at.chain = None;
    } else if at.open.is_empty() && line.starts_with("\t\ttype ") && line.contains(" hook ") {
        chain.devices = devices(line);
    } else {
        rule(line, &mut at.open, chain);
    }
    Some(())
}

/// A rule ends with its handle; a comment may hold line breaks.
fn rule(line: &str, open: &mut String, chain: &mut ListedChain) {
    if !open.is_empty() {
        open.push('\n');
    }
    open.push_str(line.trim_start_matches('\t'));
    let ended = open
        .rsplit_once(" # handle ")
        .and_then(|(text, handle)| Some((handle.trim_end().parse().ok()?, text.to_owned())));
    if let Some(rule) = ended {
        chain.rules.push(rule);
        open.clear();
    } else if is_comment(open) || open.trim().is_empty() {
        open.clear();
    }
}

/// The whole comment of a chain, which may be of several lines too.
fn is_comment(text: &str) -> bool {
    text.strip_prefix("comment \"")
        .is_some_and(|rest| rest.ends_with('"'))
}

/// `device "eth0"` or `devices = { "eth0", "eth1" }`.
fn devices(line: &str) -> Vec<String> {
    let list = match (line.split_once(" device "), line.split_once(" devices = {")) {
        (_, Some((_, rest))) => rest.split('}').next(),
        (Some((_, rest)), None) => rest.split([' ', ';']).next(),
        (None, None) => None,
    };
    let names = list.unwrap_or_default().split(',');
    let names = names.map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}
