//! `nft -j -a list ruleset`, with the text listing beside it.

mod kind;
mod listing;
mod look;
mod nat;
mod sets;
mod statement;
mod test;

use super::{
    Backend, Base, Chain, ChainKind, Family, Hook, Policy, Rule, Set, SetId, Table, TableId,
    Unread, owner,
};
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
    chains(&objects, &ids, listing.as_ref(), &mut listed);
    named_sets(&objects, &ids, &mut listed);
    rules(&objects, &ids, &mut listed);
    if let Some(listing) = &listing {
        listed
            .tables
            .iter_mut()
            .for_each(|table| texts(table, listing));
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

fn chains(objects: &[Json], ids: &Ids, listing: Option<&Listing>, listed: &mut Listed) {
    for json in objects_of(objects, "chain") {
        let Some(key) = pair(json, "table") else {
            continue;
        };
        let (Some(id), Some(name)) = (ids.get(&key), word(json, "name")) else {
            continue;
        };
        let base = word(json, "hook").map(|hook| base(json, hook));
        let mut base = match base {
            Some(None) => {
                let why = format!("base chain {} {} {name} is not understood", key.0, key.1);
                listed.unread.push(unread(why));
                None
            }
            Some(base) => base,
            None => None,
        };
        let text = listing.and_then(|l| l.tables.get(&key)?.chains.get(name));
        if let (Some(base), Some(text)) = (&mut base, text)
            && base.devices.is_empty()
        {
            base.devices.clone_from(&text.devices);
        }
        if let (Some(_), Some(handle)) = (&base, json.get("handle").and_then(Json::as_u64)) {
            listed.handles.insert((id.clone(), name.to_owned()), handle);
        }
        if let Some(table) = listed.tables.iter_mut().find(|table| table.id == *id) {
            table.chains.push(Chain {
                name: name.to_owned(),
                base,
                rules: Vec::new(),
            });
        }
    }
}

fn base(json: &Json, hook: &str) -> Option<Base> {
    let devices = match json.get("dev") {
        Some(Json::Array(list)) => list
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect(),
        Some(Json::String(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    Some(Base {
        kind: match word(json, "type")? {
            "filter" => ChainKind::Filter,
            "nat" => ChainKind::Nat,
            "route" => ChainKind::Route,
            _ => return None,
        },
        hook: self::hook(hook)?,
        priority: i32::try_from(json.get("prio")?.as_i64()?).ok()?,
        policy: if word(json, "policy") == Some("drop") {
            Policy::Drop
        } else {
            Policy::Accept
        },
        registered: None,
        devices,
    })
}

fn hook(word: &str) -> Option<Hook> {
    let hooks = [
        Hook::Prerouting,
        Hook::Input,
        Hook::Forward,
        Hook::Output,
        Hook::Postrouting,
        Hook::Ingress,
        Hook::Egress,
    ];
    hooks.into_iter().find(|hook| hook.to_string() == word)
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

fn rules(objects: &[Json], ids: &Ids, listed: &mut Listed) {
    let mut at = BTreeMap::new();
    for (t, table) in listed.tables.iter().enumerate() {
        for (c, chain) in table.chains.iter().enumerate() {
            at.insert((table.id.clone(), chain.name.clone()), (t, c));
        }
    }
    let mut counts: BTreeMap<TableId, u32> = BTreeMap::new();
    for json in objects_of(objects, "rule") {
        let id = pair(json, "table").and_then(|key| ids.get(&key));
        let (Some(id), Some(chain)) = (id, word(json, "chain")) else {
            continue;
        };
        let Some((t, c)) = at.get(&(id.clone(), chain.to_owned())) else {
            continue;
        };
        let count = counts.entry(id.clone()).or_default();
        let mut pool = sets::Pool {
            table: id,
            sets: &mut listed.sets,
            count,
        };
        let rule = rule(json, chain, &mut pool);
        let rules = &mut listed.tables[*t].chains[*c].rules;
        let index = u32::try_from(rules.len() + 1).unwrap_or(u32::MAX);
        rules.push(Rule { index, ..rule });
    }
}

fn rule(json: &Json, chain: &str, pool: &mut sets::Pool<'_>) -> Rule {
    let comment = word(json, "comment").map(str::to_owned);
    let mut steps = Vec::new();
    for step in expressions(json).flat_map(|stmt| statement::read(stmt, pool)) {
        if !(is_need(&step) && steps.contains(&step)) {
            steps.push(step);
        }
    }
    Rule {
        index: 0,
        handle: json.get("handle").and_then(Json::as_u64),
        text: json.get("expr").map(Json::to_string).unwrap_or_default(),
        owner: owner::of_nft(&pool.table().name, chain, comment.as_deref()),
        comment,
        steps,
    }
}

/// Tests that headers need: once is enough, no rule changes what they look at.
fn is_need(step: &Step) -> bool {
    let Step::Test(Test {
        condition: Condition::Compare { field, .. },
        ..
    }) = step
    else {
        return false;
    };
    matches!(field, Field::Proto | Field::Version)
}

/// Takes the rules' text from the listing, chain by chain, where both list the very same rules.
fn texts(table: &mut Table, listing: &Listing) {
    let key = (table.id.family.to_string(), table.id.name.clone());
    let Some(text) = listing.tables.get(&key) else {
        return;
    };
    for chain in &mut table.chains {
        let Some(text) = text.chains.get(&chain.name) else {
            continue;
        };
        let handles = chain.rules.iter().map(|rule| rule.handle);
        if handles.eq(text.rules.iter().map(|(handle, _)| Some(*handle))) {
            for (rule, (_, text)) in chain.rules.iter_mut().zip(&text.rules) {
                rule.text.clone_from(text);
            }
        }
    }
}
