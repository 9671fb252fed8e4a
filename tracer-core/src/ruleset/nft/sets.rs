//! Sets and maps: named ones, and those written inside rules.

use super::super::{Action, Element, Family, Set, SetId, TableId, Unread, Value, Verdict};
use super::kind::Kind;
use super::look;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Where the sets of a table that are written inside rules are put.
pub(super) struct Pool<'a> {
    /// The table.
    pub(super) table: &'a TableId,
    /// All sets of the dump.
    pub(super) sets: &'a mut BTreeMap<SetId, Set>,
    /// How many anonymous ones this table has so far.
    pub(super) count: &'a mut u32,
}

impl Pool<'_> {
    pub(super) fn table(&self) -> &TableId {
        self.table
    }

    pub(super) fn family(&self) -> Family {
        self.table.family
    }

    /// Keeps a set or map that a rule holds; `None` where an element is not understood.
    pub(super) fn anonymous(
        &mut self,
        elements: &[Json],
        key: &[Kind],
        data: Option<&[Kind]>,
    ) -> Option<SetId> {
        let elements = elements
            .iter()
            .map(|one| element(one, key, data))
            .collect::<Option<_>>()?;
        let id = SetId::Anonymous(self.table.clone(), *self.count);
        *self.count += 1;
        self.sets.insert(
            id.clone(),
            Set {
                kind: String::new(),
                elements,
                dynamic: false,
            },
        );
        Some(id)
    }

    /// A named set changes by packets.
    pub(super) fn mark_dynamic(&mut self, name: &str) {
        let id = SetId::Named(self.table.clone(), name.trim_start_matches('@').to_owned());
        if let Some(set) = self.sets.get_mut(&id) {
            set.dynamic = true;
        }
    }
}

/// A named set or map object. Elements that are not understood are told in `unread`.
pub(super) fn named(
    json: &Json,
    table: &TableId,
    unread: &mut Vec<Unread>,
) -> Option<(SetId, Set)> {
    let name = json.get("name")?.as_str()?;
    let (key, text) = kinds(json.get("type")?, table.family);
    let data = json.get("map").map(|map| kinds(map, table.family));
    let mut set = Set {
        kind: match &data {
            Some((_, data)) => format!("{text} : {data}"),
            None => text,
        },
        elements: Vec::new(),
        dynamic: json.get("flags").is_some_and(|flags| has(flags, "dynamic")),
    };
    let data = data.map(|(kinds, _)| kinds);
    let mut strange = 0_u32;
    for json in json
        .get("elem")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
    {
        match element(json, &key, data.as_deref()) {
            Some(element) => set.elements.push(element),
            None => strange += 1,
        }
    }
    set.elements.sort_by_key(|element| element.key.is_empty());
    if strange > 0 {
        let what = format!("nft {} {} set {name}", table.family, table.name);
        let why = format!("{strange} elements are not understood");
        unread.push(Unread::new(what, why));
    }
    Some((SetId::Named(table.clone(), name.to_owned()), set))
}

/// Whether a flag is there: one flag is printed as a word, several as a list.
pub(super) fn has(flags: &Json, flag: &str) -> bool {
    match flags.as_array() {
        Some(list) => list.iter().any(|one| one.as_str() == Some(flag)),
        None => flags.as_str() == Some(flag),
    }
}

/// The parts of a type and its text: `"ipv4_addr"`, `"ipv4_addr . inet_service"`, a list of these, or
/// `{"typeof": EXPRESSION}`.
fn kinds(json: &Json, family: Family) -> (Vec<Kind>, String) {
    if let Some(of) = json.get("typeof") {
        let parts = of
            .get("concat")
            .and_then(Json::as_array)
            .map_or(std::slice::from_ref(of), Vec::as_slice);
        let kind = |part: &Json| match look::look(part, family)
            .as_ref()
            .map(|l| l.fields.as_slice())
        {
            Some([(_, kind)]) => *kind,
            _ => Kind::Raw,
        };
        return (parts.iter().map(kind).collect(), format!("typeof {of}"));
    }
    let names: Vec<&str> = match json.as_array() {
        Some(list) => list
            .iter()
            .map(|name| name.as_str().unwrap_or_default())
            .collect(),
        None => json.as_str().unwrap_or_default().split(" . ").collect(),
    };
    (
        names.iter().map(|name| Kind::of_type(name)).collect(),
        names.join(" . "),
    )
}

/// An element of a set (`KEY`) or of a map (`[KEY, DATA]`).
fn element(json: &Json, key: &[Kind], data: Option<&[Kind]>) -> Option<Element> {
    let mut element = Element {
        key: Vec::new(),
        except: false,
        action: None,
        data: Vec::new(),
        text: shown(match data {
            Some(_) => json.get(0).unwrap_or(json),
            None => json,
        }),
    };
    let mut of = json;
    if let Some(kinds) = data {
        let [left, right] = json.as_array()?.as_slice() else {
            return None;
        };
        element.action = verdict(right).map(Action::Verdict);
        if element.action.is_none() {
            element.data = parts(right, kinds, Kind::chosen)?;
        }
        of = left;
    }
    let of = of
        .get("elem")
        .and_then(|elem| elem.get("val"))
        .unwrap_or(of);
    if of.as_str() != Some("*") {
        element.key = parts(of, key, Kind::value)?;
    }
    Some(element)
}

/// A key as nft writes it.
fn shown(json: &Json) -> String {
    let part = |key: &str| json.get(key);
    if let Some(of) = part("elem").and_then(|elem| elem.get("val")) {
        return shown(of);
    }
    if let Some(prefix) = part("prefix") {
        let of = |key: &str| prefix.get(key).map(shown).unwrap_or_default();
        return format!("{}/{}", of("addr"), of("len"));
    }
    let joined = |list: &[Json], by: &str| list.iter().map(shown).collect::<Vec<_>>().join(by);
    if let Some([from, to]) = part("range").and_then(Json::as_array).map(Vec::as_slice) {
        return format!("{}-{}", shown(from), shown(to));
    }
    if let Some(list) = part("concat").and_then(Json::as_array) {
        return joined(list, " . ");
    }
    json.as_str()
        .map_or_else(|| json.to_string(), str::to_owned)
}

/// One value for each part, read by `how`.
fn parts(json: &Json, kinds: &[Kind], how: fn(Kind, &Json) -> Option<Value>) -> Option<Vec<Value>> {
    let single = std::slice::from_ref(json);
    let values = json
        .get("concat")
        .and_then(Json::as_array)
        .map_or(single, Vec::as_slice);
    if values.len() != kinds.len() {
        return None;
    }
    values
        .iter()
        .zip(kinds)
        .map(|(value, kind)| how(*kind, value))
        .collect()
}

/// A verdict statement.
pub(super) fn verdict(json: &Json) -> Option<Verdict> {
    let (name, value) = json.as_object()?.iter().next()?;
    let target = || {
        value
            .get("target")
            .and_then(Json::as_str)
            .map(str::to_owned)
    };
    Some(match name.as_str() {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "return" => Verdict::Return,
        "continue" => Verdict::Continue,
        "jump" => Verdict::Jump(target()?),
        "goto" => Verdict::Goto(target()?),
        "queue" => Verdict::Queue,
        _ => return None,
    })
}
