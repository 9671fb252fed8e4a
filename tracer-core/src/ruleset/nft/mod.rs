//! `nft -j -a list ruleset`, with the text listing beside it.

mod chain;
mod kind;
mod listing;
mod look;
mod nat;
mod rule;
mod sets;
mod statement;
mod test;

use super::{Backend, Family, Set, SetId, Table, TableId, Unread};
use listing::Listing;
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// What a dump holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its tables, in the order in which they were made. Those with x_tables extensions, of which nft
    /// shows only the names, have the backend [`Backend::IptablesNft`].
    pub tables: Vec<Table>,
    /// Named and anonymous sets.
    pub sets: BTreeMap<SetId, Set>,
    /// Handles of the base chains by table and chain: within a table later ones are greater.
    pub handles: BTreeMap<(TableId, String), u64>,
    /// What could not be understood.
    pub unread: Vec<Unread>,
}

/// Reads what `nft -j -a list ruleset` printed, and `nft -a list ruleset` where it is at hand: only
/// there are the rules' texts, and old releases print dormant tables and devices only there. Total.
#[must_use]
pub fn parse(json: &str, text: Option<&str>) -> Listed {
    let dump: Dump<'_> = match serde_json::from_str(json) {
        Ok(dump) => dump,
        Err(error) => return refuse(format!("nft's JSON cannot be read: {error}")),
    };
    let mut listed = Listed::default();
    let (rules, others): (Vec<_>, Vec<_>) = dump.nftables.into_iter().partition(|raw| is_rule(raw));
    let objects: Vec<Json> = others
        .iter()
        .filter_map(|raw| object(raw, &mut listed.unread))
        .collect();
    let listing = text.map(listing::parse);
    let ids = tables(&objects, &rules, listing.as_ref(), &mut listed);
    chain::read(&objects, &ids, listing.as_ref(), &mut listed);
    named_sets(&objects, &ids, &mut listed);
    rule::read(&rules, &ids, &mut listed);
    if let Some(listing) = &listing {
        listed
            .tables
            .iter_mut()
            .for_each(|table| rule::texts(table, listing));
    }
    listed
}

/// The list of objects, each to be read on its own: a hundred thousand rules as one tree would take
/// some ten times their text.
#[derive(serde::Deserialize)]
struct Dump<'a> {
    #[serde(borrow)]
    nftables: Vec<&'a RawValue>,
}

/// Objects have one key, their kind.
fn is_rule(raw: &RawValue) -> bool {
    let text = raw.get().trim_start_matches(['{', ' ', '\n', '\t']);
    text.starts_with("\"rule\"")
}

fn object(raw: &RawValue, unread: &mut Vec<Unread>) -> Option<Json> {
    let json = serde_json::from_str(raw.get()).ok().filter(Json::is_object);
    if json.is_none() {
        unread.push(self::unread(
            "an object of its JSON is not understood".into(),
        ));
    }
    json
}

fn refuse(why: String) -> Listed {
    Listed {
        unread: vec![unread(why)],
        ..Listed::default()
    }
}

fn unread(why: String) -> Unread {
    Unread::new("nft", why)
}

/// Identity of tables by family and name, for objects that name them so.
type Ids = BTreeMap<(String, String), TableId>;

fn objects_of<'a>(objects: &'a [Json], kind: &'a str) -> impl Iterator<Item = &'a Json> + 'a {
    objects.iter().filter_map(move |object| object.get(kind))
}

fn word<'a>(json: &'a Json, name: &str) -> Option<&'a str> {
    json.get(name)?.as_str()
}

fn pair(json: &Json, name: &str) -> Option<(String, String)> {
    Some((
        word(json, "family")?.to_owned(),
        word(json, name)?.to_owned(),
    ))
}

/// Tables, and which of them hold x_tables extensions.
fn tables(
    objects: &[Json],
    rules: &[&RawValue],
    listing: Option<&Listing>,
    listed: &mut Listed,
) -> Ids {
    let foreign: BTreeSet<_> = rules.iter().filter_map(|raw| foreign(raw)).collect();
    let mut ids = Ids::new();
    for json in objects_of(objects, "table") {
        let Some(key) = pair(json, "name") else {
            continue;
        };
        let Some(family) = family(&key.0) else {
            listed
                .unread
                .push(unread(format!("table {} has the family {}", key.1, key.0)));
            continue;
        };
        let backend = if foreign.contains(&key) {
            Backend::IptablesNft
        } else {
            Backend::Nft
        };
        let id = TableId {
            backend,
            family,
            name: key.1.clone(),
        };
        // The text may hold comments that look like flags: it is asked only where there are some.
        let dormant = match (json.get("flags"), listing.and_then(|l| l.tables.get(&key))) {
            (None, _) => false,
            (Some(_), Some(text)) => text.dormant,
            (Some(flags), None) => dormant(flags, &id, listed),
        };
        listed.tables.push(Table {
            id: id.clone(),
            dormant,
            chains: Vec::new(),
        });
        ids.insert(key, id);
    }
    ids
}

/// The table of a rule that holds x_tables extensions.
fn foreign(raw: &RawValue) -> Option<(String, String)> {
    let perhaps = raw.get().contains("\"xt\"");
    let json: Json = perhaps.then(|| serde_json::from_str(raw.get()).ok())??;
    let rule = json.get("rule")?;
    let is = expressions(rule).any(|expr| expr.get("xt").is_some());
    is.then(|| pair(rule, "table"))?
}

/// nft 1.0.6 prints nonsense for flags: without its text the table may be dormant or not.
fn dormant(flags: &Json, id: &TableId, listed: &mut Listed) -> bool {
    let known = ["owner", "persist"]
        .iter()
        .any(|flag| sets::has(flags, flag));
    let dormant = sets::has(flags, "dormant");
    if !known && !dormant {
        let why = format!(
            "the flags of table {} {} are printed as {flags}",
            id.family, id.name
        );
        listed.unread.push(unread(why));
    }
    dormant
}

fn expressions(rule: &Json) -> impl Iterator<Item = &Json> {
    rule.get("expr")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
}

fn family(word: &str) -> Option<Family> {
    Some(match word {
        "ip" => Family::Ip,
        "ip6" => Family::Ip6,
        "inet" => Family::Inet,
        "netdev" => Family::Netdev,
        "bridge" => Family::Bridge,
        "arp" => Family::Arp,
        _ => return None,
    })
}

fn named_sets(objects: &[Json], ids: &Ids, listed: &mut Listed) {
    for json in objects_of(objects, "set").chain(objects_of(objects, "map")) {
        let id = pair(json, "table").and_then(|key| ids.get(&key));
        let Some(id) = id else { continue };
        match sets::named(json, id, &mut listed.unread) {
            Some((id, set)) => drop(listed.sets.insert(id, set)),
            None => listed
                .unread
                .push(unread("a set has no name or type".into())),
        }
    }
}
