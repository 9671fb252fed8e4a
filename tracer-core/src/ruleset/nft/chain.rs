//! Chains.

use super::super::{Base, Chain, ChainKind, Hook, Policy};
use super::listing::Listing;
use super::{Ids, Listed, objects_of, pair, unread, word};
use serde_json::Value as Json;

/// Puts the chains into their tables; the listing tells the devices where the JSON does not.
pub(super) fn read(objects: &[Json], ids: &Ids, listing: Option<&Listing>, listed: &mut Listed) {
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
