//! A document's keys as the fields of an agent's configuration (Go's `encoding/json`).

use super::traps::{Trap, TrapKind};
use super::yaml::{Document, Node, Value};
use super::{Agent, Invalid, Span, duration};

/// An entry of the list and its line; one without a value is `None`.
pub(super) type Item = (Option<String>, usize);
/// The list; `None` where the key has no value.
pub(super) type Items = Option<Vec<Item>>;

/// What the document sets; what it does not set is `None`.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The list: `Some(None)` where the key has no value.
    pub(super) cidrs: Option<Items>,
    pub(super) cidrs_line: Option<usize>,
    pub(super) cidr_limit: Option<i64>,
    pub(super) link_local: Option<bool>,
    pub(super) link_local_line: Option<usize>,
    pub(super) link_local_v6: Option<bool>,
    pub(super) resync: Option<Span>,
    pub(super) resync_line: Option<usize>,
}

pub(super) const LIST: &str = "nonMasqueradeCIDRs";
pub(super) const LIMIT: &str = "cidrLimit";
pub(super) const LOCAL: &str = "masqLinkLocal";
pub(super) const LOCAL_V6: &str = "masqLinkLocalIPv6";
pub(super) const RESYNC: &str = "resyncInterval";
const KEYS: &[&str] = &[LIST, LIMIT, LOCAL, LOCAL_V6, RESYNC];

/// Keys that were only ever proposed.
const PROPOSED: &[&str] = &["masqueradeCIDRs", "forceMasqueradeCIDRs"];

impl Agent {
    fn knows(self, key: &str) -> bool {
        self == Self::Upstream || !matches!(key, LIMIT | RESYNC)
    }
}

/// Reads the fields.
///
/// # Errors
/// What the agent refuses; of several the one on the first line.
pub(super) fn decode(
    document: &Document,
    agent: Agent,
    traps: &mut Vec<Trap>,
) -> Result<Fields, Invalid> {
    if let Some(line) = document.second {
        let text = "only the first document is read, and the agent does not say so: what begins here is lost";
        traps.push(
            Trap::new(TrapKind::SecondDocument, Some(line), text)
                .fix("put everything into one document, without ---"),
        );
    }
    for (key, line) in &document.twice {
        let text = format!("{key} is given twice; the last one counts");
        traps.push(Trap::new(TrapKind::DuplicateKey, Some(*line), text));
    }
    let root = &document.root;
    let mut fields = Fields::default();
    let pairs = match &root.value {
        Value::Null => return Ok(fields),
        Value::Map(pairs) => pairs,
        other => {
            return Err(Invalid {
                key: None,
                ..Invalid::of(
                    "",
                    Some(root.line),
                    format!("keys are wanted here, and it is {}", other.kind()),
                )
            });
        }
    };
    finite(root)?;
    let mut wrong: Option<Invalid> = None;
    for (name, node) in in_order(pairs) {
        let known = KEYS.iter().find(|key| same_key(key, name));
        match known.filter(|key| agent.knows(key)) {
            Some(key) => {
                let failed = fields.set(key, node).err();
                let earlier = |e: &Invalid| wrong.as_ref().is_none_or(|w| e.line < w.line);
                if let Some(error) = failed.filter(earlier) {
                    wrong = Some(error);
                }
            }
            None => traps.push(stranger(name, node, agent, known.is_some())),
        }
    }
    spellings(pairs, traps);
    wrong.map_or(Ok(fields), Err)
}

/// Keys in the order in which Go writes them into JSON: by their bytes. So the last spelling wins.
fn in_order(pairs: &[(String, Node)]) -> Vec<(&str, &Node)> {
    let mut all: Vec<_> = pairs.iter().map(|(k, n)| (k.as_str(), n)).collect();
    all.sort_by_key(|(key, _)| *key);
    all
}

/// Go's folding of names: case, and the two letters of other scripts that fold to ASCII.
fn same_key(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}

fn spellings(pairs: &[(String, Node)], traps: &mut Vec<Trap>) {
    for key in KEYS {
        let mut given = pairs.iter().filter(|(name, _)| same_key(key, name));
        if let (Some((first, _)), Some((second, node))) = (given.next(), given.next()) {
            let counts = first.max(second);
            let text = format!("{first} and {second} are one key to the agent; {counts} counts");
            traps.push(Trap::new(TrapKind::DuplicateKey, Some(node.line), text));
        }
    }
}

/// JSON has no word for what is not a number.
fn finite(node: &Node) -> Result<(), Invalid> {
    match &node.value {
        Value::Float(n) if !n.is_finite() => Err(Invalid {
            key: None,
            ..Invalid::of("", Some(node.line), "this number cannot be written as JSON")
        }),
        Value::List(items) => items.iter().try_for_each(finite),
        Value::Map(pairs) => pairs.iter().try_for_each(|(_, node)| finite(node)),
        _ => Ok(()),
    }
}

impl Fields {
    fn set(&mut self, key: &str, node: &Node) -> Result<(), Invalid> {
        let line = Some(node.line);
        let typed = |wanted: &str| {
            Invalid::of(
                key,
                line,
                format!("{wanted} is wanted, and it is {}", node.value.kind()),
            )
        };
        match key {
            LIST => {
                self.cidrs = Some(list(node, &typed)?);
                self.cidrs_line = line;
            }
            LIMIT => self.cidr_limit = integer(&node.value, &typed)?.or(self.cidr_limit),
            LOCAL => {
                self.link_local = truth(&node.value, &typed)?.or(self.link_local);
                self.link_local_line = line;
            }
            LOCAL_V6 => self.link_local_v6 = truth(&node.value, &typed)?.or(self.link_local_v6),
            _ => {
                let text = match &node.value {
                    Value::Text(text) => text.as_str(),
                    Value::Null => "",
                    _ => return Err(typed("text such as \"60s\"")),
                };
                self.resync =
                    Some(duration::parse(text).map_err(|why| Invalid::of(key, line, why))?);
                self.resync_line = line;
            }
        }
        Ok(())
    }
}

fn list(node: &Node, typed: &dyn Fn(&str) -> Invalid) -> Result<Items, Invalid> {
    let items = match &node.value {
        Value::Null => return Ok(None),
        Value::List(items) => items,
        _ => return Err(typed("a list of prefixes")),
    };
    let text = |item: &Node| match &item.value {
        Value::Text(text) => Ok((Some(text.clone()), item.line)),
        Value::Null => Ok((None, item.line)),
        other => Err(Invalid::of(
            LIST,
            Some(item.line),
            format!(
                "an entry is {}; a prefix such as 10.11.0.0/16 is wanted",
                other.kind()
            ),
        )),
    };
    items.iter().map(text).collect::<Result<_, _>>().map(Some)
}

fn truth(value: &Value, typed: &dyn Fn(&str) -> Invalid) -> Result<Option<bool>, Invalid> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(is) => Ok(Some(*is)),
        _ => Err(typed("true or false without quotes")),
    }
}

fn integer(value: &Value, typed: &dyn Fn(&str) -> Invalid) -> Result<Option<i64>, Invalid> {
    const WRITTEN_OUT: f64 = 1e21;
    let whole = match value {
        Value::Null => return Ok(None),
        Value::Int(n) => i64::try_from(*n).ok(),
        Value::Float(n) if n.fract() == 0.0 && n.abs() < WRITTEN_OUT => {
            i64::try_from(*n as i128).ok()
        }
        _ => None,
    };
    whole
        .map(Some)
        .ok_or_else(|| typed("a whole number without quotes"))
}

/// A key that the agent does not read.
fn stranger(name: &str, node: &Node, agent: Agent, of_another: bool) -> Trap {
    let line = Some(node.line);
    let ignored = format!("{name} is ignored");
    let who = agent.name();
    if of_another {
        let text = match agent {
            Agent::Azure if same_key(RESYNC, name) => {
                format!("{ignored}: {who} takes its interval from the flag --resync-interval")
            }
            Agent::Cilium if same_key(RESYNC, name) => {
                format!("{ignored}: {who} reads the file when it changes")
            }
            _ => format!("{ignored}: {who} does not know this key"),
        };
        return Trap::new(TrapKind::ForeignKey, line, text);
    }
    if PROPOSED.iter().any(|key| same_key(key, name)) {
        let text = format!("{ignored}: it was proposed, and no release of {who} reads it");
        return Trap::new(TrapKind::ForeignKey, line, text);
    }
    if is_nested(name, node) {
        let text = format!(
            "{ignored}, and all that is under it: the settings belong at the top of this file"
        );
        return Trap::new(TrapKind::NestedConfig, line, text).fix(format!(
            "take the lines under {name} out of it, to the left margin"
        ));
    }
    let trap = Trap::new(
        TrapKind::UnknownKey,
        line,
        format!("{ignored}: {who} does not know this key"),
    );
    match nearest(name) {
        Some(key) => trap.fix(format!("write {key}")),
        None => trap,
    }
}

/// `config:` with settings under it, as a block or as text: a ConfigMap was put into its own value.
fn is_nested(name: &str, node: &Node) -> bool {
    let holds = |name: &str| KEYS.iter().any(|key| same_key(key, name));
    match &node.value {
        Value::Map(pairs) => pairs
            .iter()
            .any(|(key, node)| holds(key) || is_nested(key, node)),
        Value::Text(text) => matches!(name, "config" | "ip-masq-agent") && text.contains(':'),
        _ => false,
    }
}

/// The key that was perhaps meant.
fn nearest(name: &str) -> Option<&'static str> {
    const FARTHEST: usize = 3;
    if name.len() > 40 {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let far = |key: &str| distance(lower.as_bytes(), key.to_ascii_lowercase().as_bytes());
    let best = KEYS.iter().copied().min_by_key(|key| far(key))?;
    (far(best) <= FARTHEST).then_some(best)
}

/// How many letters to change, add or take away.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let changed = corner + usize::from(left != right);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}
