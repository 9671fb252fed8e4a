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
    let mut listed = Listed::default();
    let objects = match serde_json::from_str::<Json>(json) {
        Ok(mut whole) => match whole.get_mut("nftables").map(Json::take) {
            Some(Json::Array(objects)) => objects,
            _ => return refuse("there is no list \"nftables\" in it".into()),
        },
        Err(error) => return refuse(format!("nft's JSON cannot be read: {error}")),
    };
    let listing = text.map(listing::parse);
    let ids = tables(&objects, listing.as_ref(), &mut listed);
    chain::read(&objects, &ids, listing.as_ref(), &mut listed);
    named_sets(&objects, &ids, &mut listed);
    rule::read(&objects, &ids, &mut listed);
    if let Some(listing) = &listing {
        listed
            .tables
            .iter_mut()
            .for_each(|table| rule::texts(table, listing));
    }
    listed
}

fn refuse(why: String) -> Listed {
    Listed {
        unread: vec![unread(why)],
        ..Listed::default()
    }
}

fn unread(why: String) -> Unread {
    Unread {
        what: "nft".into(),
        why,
    }
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
fn tables(objects: &[Json], listing: Option<&Listing>, listed: &mut Listed) -> Ids {
    let foreign: BTreeSet<_> = objects_of(objects, "rule")
        .filter(|rule| expressions(rule).any(|expr| expr.get("xt").is_some()))
        .filter_map(|rule| pair(rule, "table"))
        .collect();
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
        let dormant = match (listing.and_then(|l| l.tables.get(&key)), json.get("flags")) {
            (Some(text), _) => text.dormant,
            (None, Some(flags)) => dormant(flags, &id, listed),
            (None, None) => false,
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
