//! The first document of a text as plain values, as the agents' libraries read it: YAML 1.1 words, the
//! last of two equal keys wins, anchors, merge keys; JSON is YAML here.

use super::scalar;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use std::collections::HashMap;

/// A value and the line where it begins, from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Value {
    /// What it is, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Bool(_) => "a true or false without quotes",
            Self::Int(_) | Self::Float(_) => "a number without quotes",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a block of keys",
        }
    }
}

/// What a text holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) root: Node,
    /// Line on which another document begins, which nobody reads.
    pub(super) second: Option<usize>,
    /// Keys that were given twice in one block, and the line of the later one.
    pub(super) twice: Vec<(String, usize)>,
}

/// Why a text is no document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) line: Option<usize>,
    pub(super) why: String,
}

/// Deeper than this nobody nests a configuration.
const DEEPEST: usize = 64;
/// More values than this, aliases written out, are an attack and no configuration.
const MOST_NODES: usize = 200_000;
/// More keys than this no block has.
const MOST_KEYS: usize = 10_000;

/// Reads the first document.
///
/// # Errors
/// What is wrong, and on which line.
pub(super) fn read(bytes: &[u8]) -> Result<Document, Malformed> {
    let text = decode(bytes)?;
    let mut builder = Builder {
        parser: Parser::new_from_str(text.trim_start_matches('\u{feff}')),
        anchors: HashMap::new(),
        twice: Vec::new(),
        nodes: 0,
    };
    builder.document()
}

/// Text by its byte order mark; UTF-8 without one.
fn decode(bytes: &[u8]) -> Result<String, Malformed> {
    let wide = |from: fn([u8; 2]) -> u16| {
        let units = bytes[2..]
            .chunks(2)
            .map(|c| from([c[0], *c.get(1).unwrap_or(&0)]));
        char::decode_utf16(units)
            .collect::<Result<String, _>>()
            .ok()
    };
    let text = match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => std::str::from_utf8(bytes).map(str::to_owned).ok(),
    };
    text.ok_or_else(|| Malformed {
        line: None,
        why: "it is not text (neither UTF-8 nor UTF-16 with a byte order mark)".to_owned(),
    })
}

impl From<ScanError> for Malformed {
    fn from(error: ScanError) -> Self {
        Self {
            line: Some(error.marker().line()),
            why: format!("it is no YAML: {}", error.info()),
        }
    }
}

struct Builder<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    anchors: HashMap<usize, Node>,
    twice: Vec<(String, usize)>,
    nodes: usize,
}

impl<'t> Builder<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Malformed> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn document(&mut self) -> Result<Document, Malformed> {
        let nothing = Node {
            line: 1,
            value: Value::Null,
        };
        let root = loop {
            match self.next()? {
                (Event::StreamEnd, _) => break nothing,
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (event, span) => break self.node(event, span, 0)?,
            }
        };
        Ok(Document {
            second: self.second(),
            twice: std::mem::take(&mut self.twice),
            root,
        })
    }

    /// Where something follows that nobody reads: another document, or what is no YAML (behind the first
    /// document that is no error).
    fn second(&mut self) -> Option<usize> {
        loop {
            match self.next() {
                Err(malformed) => return malformed.line,
                Ok((Event::DocumentEnd | Event::Nothing, _)) => {}
                Ok((Event::DocumentStart(_), _)) => {
                    let (event, span) = self.next().ok()?;
                    let empty = matches!(&event, Event::Scalar(text, ..) if text.is_empty());
                    return (!empty).then(|| span.start.line());
                }
                Ok(_) => return None,
            }
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Malformed> {
        let line = span.start.line();
        let at = |why: &str| Malformed {
            line: Some(line),
            why: why.to_owned(),
        };
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(at("it has excessively many values, or aliases of them"));
        }
        if depth > DEEPEST {
            return Err(at("it is nested too deeply"));
        }
        let (anchor, value) = match event {
            Event::Alias(anchor) => return self.alias(anchor, line),
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, scalar_value(&text, style, tag.as_deref()))
            }
            Event::SequenceStart(anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(anchor, _) => (anchor, self.map(depth)?),
            _ => return Err(at("it is no YAML: a value is missing")),
        };
        let node = Node { line, value };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, line: usize) -> Result<Node, Malformed> {
        let node = self.anchors.get(&anchor).cloned().ok_or(Malformed {
            line: Some(line),
            why: "it is no YAML: an alias of a value that holds it".to_owned(),
        })?;
        self.nodes += size(&node);
        Ok(Node { line, ..node })
    }

    fn list(&mut self, depth: usize) -> Result<Value, Malformed> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(Value::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Malformed> {
        let mut pairs = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            match event {
                Event::MappingEnd | Event::StreamEnd => return Ok(Value::Map(pairs)),
                Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<" => {
                    let (event, span) = self.next()?;
                    let merged = self.node(event, span, depth + 1)?;
                    self.merge(&mut pairs, merged)?;
                }
                _ if pairs.len() >= MOST_KEYS => {
                    return Err(Malformed {
                        line: Some(line),
                        why: format!("a block has more than {MOST_KEYS} keys"),
                    });
                }
                // As of libyaml, which the agents' library is made from.
                Event::Scalar(..) if span.end.line() > line => {
                    return Err(Malformed {
                        line: Some(line),
                        why: "it is no YAML: a key goes over more than one line".to_owned(),
                    });
                }
                event => {
                    let key = self.node(event, span, depth + 1)?;
                    let key = key_text(&key)?;
                    let (event, span) = self.next()?;
                    // Where its key is, a person finds it.
                    let value = Node {
                        line,
                        ..self.node(event, span, depth + 1)?
                    };
                    if put(&mut pairs, key.clone(), value) {
                        self.twice.push((key, line));
                    }
                }
            }
        }
    }

    /// `<<: *other`: what the other block holds.
    fn merge(&mut self, into: &mut Vec<(String, Node)>, from: Node) -> Result<(), Malformed> {
        match from.value {
            Value::Map(pairs) => pairs.into_iter().for_each(|(key, value)| {
                put(into, key, value);
            }),
            // The first of several wins.
            Value::List(all) => {
                for node in all.into_iter().rev() {
                    if !matches!(node.value, Value::Map(_)) {
                        return Err(no_merge(from.line));
                    }
                    self.merge(into, node)?;
                }
            }
            _ => return Err(no_merge(from.line)),
        }
        Ok(())
    }
}

fn no_merge(line: usize) -> Malformed {
    Malformed {
        line: Some(line),
        why: "it is no YAML: << merges blocks of keys only".to_owned(),
    }
}

/// Sets a key; whether it was there before.
fn put(pairs: &mut Vec<(String, Node)>, key: String, value: Node) -> bool {
    match pairs.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => {
            *old = value;
            true
        }
        None => {
            pairs.push((key, value));
            false
        }
    }
}

fn size(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(size).sum::<usize>(),
        Value::Map(pairs) => pairs.iter().map(|(_, node)| size(node)).sum::<usize>(),
        _ => 0,
    }
}

/// Keys of JSON are text: others are written out, and what cannot be is refused.
fn key_text(key: &Node) -> Result<String, Malformed> {
    Ok(match &key.value {
        Value::Text(text) => text.clone(),
        Value::Bool(is) => is.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        other => {
            return Err(Malformed {
                line: Some(key.line),
                why: format!("a key is {}", other.kind()),
            });
        }
    })
}

/// What a scalar is, by its quotes and its tag.
fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let text_value = || Value::Text(text.to_owned());
    match tag {
        None if style == ScalarStyle::Plain => scalar::plain(text),
        None => text_value(),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix != "str" => scalar::plain(text),
        Some(_) => text_value(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, read};

    #[test]
    fn what_grows_without_end_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let refs = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb.push_str(&format!("a{n}: &a{n} [{refs}]\n"));
        }
        let refused = read(bomb.as_bytes()).unwrap_err();
        assert_eq!(
            refused.why,
            "it has excessively many values, or aliases of them"
        );
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(read(deep.as_bytes()).is_err());
    }

    #[test]
    fn merge_keys_and_utf16_are_read() {
        let text = "base: &b {a: 1, b: 2}\nall:\n  <<: *b\n  b: 3\n";
        let wide: Vec<u8> = [0xfeff]
            .into_iter()
            .chain(text.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        for bytes in [text.as_bytes(), &wide] {
            let document = read(bytes).unwrap();
            let Value::Map(pairs) = document.root.value else {
                panic!("no map");
            };
            let Value::Map(all) = &pairs[1].1.value else {
                panic!("no map");
            };
            let told: Vec<_> = all.iter().map(|(k, v)| (k.as_str(), &v.value)).collect();
            assert_eq!(told, [("a", &Value::Int(1)), ("b", &Value::Int(3))]);
        }
    }
}
