//! `ipset save`.

use super::{Element, Set, SetId, Unread, Value, lines, words};
use std::collections::BTreeMap;
use std::net::IpAddr;
use words::Vocabulary;

/// What `ipset save` tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ipsets {
    /// The sets.
    pub sets: BTreeMap<SetId, Set>,
    /// Lines that were not understood: membership in their set is not certain.
    pub unread: Vec<Unread>,
}

/// Reads what `ipset save` printed. The element of a `list:set` is a set's name, its text.
#[must_use]
pub fn parse(dump: &str) -> Ipsets {
    let mut ipsets = Ipsets::default();
    let mut masks = BTreeMap::new();
    for line in lines::of(dump, false).filter(|line| !line.is_empty()) {
        let understood = match line.split_once(' ') {
            Some(("create", rest)) => create(rest, &mut ipsets, &mut masks),
            Some(("add", rest)) => add(rest, &mut ipsets, &masks),
            _ => None,
        };
        if understood.is_none() {
            let why = format!("cannot read the line {line:?}");
            ipsets.unread.push(Unread::new("ipset", why));
        }
    }
    ipsets
}

/// `NAME TYPE OPTIONS…`.
fn create(rest: &str, ipsets: &mut Ipsets, masks: &mut BTreeMap<SetId, IpAddr>) -> Option<()> {
    let mut words = rest.split_whitespace();
    let id = SetId::Ipset(words.next()?.to_owned());
    let mut kind = words.next()?.to_owned();
    let options: Vec<_> = words.collect();
    let value = |name| {
        let at = options.iter().position(|word| *word == name)?;
        options.get(at + 1).copied()
    };
    if let Some(mask) = value("markmask").filter(|mask| words::word32(mask) != Some(u32::MAX)) {
        kind = format!("{kind} markmask {mask}");
    }
    let any: IpAddr = if value("family") == Some("inet6") {
        [0; 16].into()
    } else {
        [0; 4].into()
    };
    let mask = match (value("netmask"), value("bitmask")) {
        (Some(length), _) => words::prefix_mask(any, length.parse().ok()?),
        (None, Some(mask)) => Some(mask.parse().ok()?),
        (None, None) => None,
    };
    masks.extend(mask.map(|mask| (id.clone(), mask)));
    ipsets.sets.insert(
        id,
        Set {
            kind,
            elements: Vec::new(),
            dynamic: false,
        },
    );
    Some(())
}

/// `NAME ELEMENT OPTIONS…`.
fn add(rest: &str, ipsets: &mut Ipsets, masks: &BTreeMap<SetId, IpAddr>) -> Option<()> {
    let (name, text) = rest.split_once(' ')?;
    let id = SetId::Ipset(name.to_owned());
    let set = ipsets.sets.get_mut(&id)?;
    let (element, options) = text.split_once(' ').unwrap_or((text, ""));
    let (method, parts) = set.kind.split_once(':')?;
    let mut key = Vec::new();
    if method != "list" {
        let kinds = parts.split(' ').next()?.split(',');
        for (kind, value) in kinds.zip(element.split(',')) {
            key.extend(part(method, kind, value, options, masks.get(&id))?);
        }
    }
    let except = options
        .split(" comment ")
        .next()?
        .split(' ')
        .any(|word| word == "nomatch");
    let (action, data) = (None, Vec::new());
    set.elements.push(Element {
        key,
        except,
        action,
        data,
        text: text.to_owned(),
    });
    Some(())
}

/// One part of an element; its fields are those that `--match-set` looks at.
fn part(
    method: &str,
    kind: &str,
    text: &str,
    options: &str,
    mask: Option<&IpAddr>,
) -> Option<Vec<Value>> {
    Some(match (method, kind) {
        (_, "ip" | "net") => vec![address(text, mask)?],
        ("bitmap", "port") => vec![words::span(text, '-', Vocabulary::Plain)?],
        (_, "port") => protocol_port(text)?,
        (_, "iface") if options.split(' ').any(|word| word == "wildcard") => {
            vec![Value::NamePrefix(text.to_owned())]
        }
        (_, "iface" | "mac") => vec![Value::Name(text.to_owned())],
        (_, "mark") => vec![Value::Number(words::digits(text)?)],
        _ => return None,
    })
}

fn address(text: &str, mask: Option<&IpAddr>) -> Option<Value> {
    match mask {
        Some(mask) => words::masked(text.parse().ok()?, *mask),
        None if text.contains('-') => words::addresses(text),
        None => words::network(text),
    }
}

/// `tcp:80`, `80` (tcp), `icmp:8/0` (the kernel keeps type and code as one number).
fn protocol_port(text: &str) -> Option<Vec<Value>> {
    let (protocol, port) = text.split_once(':').unwrap_or(("tcp", text));
    let protocol = Vocabulary::Protocol.number(protocol)?;
    let types = if protocol == 58 {
        Vocabulary::Icmp6
    } else {
        Vocabulary::Icmp
    };
    let port = match (protocol, port.split_once('/')) {
        (1 | 58, Some((kind, code))) => {
            Value::Number(types.number(kind)? << 8 | words::digits(code)?)
        }
        (1 | 58, None) => Value::Number(types.number(port)? << 8),
        _ => words::span(port, '-', Vocabulary::Plain)?,
    };
    Some(vec![Value::Number(protocol), port])
}
