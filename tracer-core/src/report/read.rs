//! Reports read back: the lines that `--output json` prints, or single objects in any layout. They come
//! from strangers: nothing here panics, memory is bounded by the text, and an error says where.

use super::{Flow, SCHEMA, Summary};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::StreamDeserializer;
use serde_json::de::SliceRead;
use serde_json::value::RawValue;
use std::fmt;

/// What is wrong with a report, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadReport {
    /// Line of the text, from 1.
    pub line: usize,
    /// The way to the key, `flow.dst`; empty where it is about the object as a whole.
    pub key: String,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for BadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" | "." => write!(f, "line {}: {}", self.line, self.why),
            key => write!(f, "line {}: {key}: {}", self.line, self.why),
        }
    }
}

/// One object of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A flow, or a group of flows.
    Flow(Box<Flow>),
    /// The end of a run.
    Summary(Box<Summary>),
    /// A line of another kind.
    Other,
}

/// The objects of a report, one after the other.
pub struct Reader<'a> {
    text: &'a [u8],
    objects: StreamDeserializer<'a, SliceRead<'a>, &'a RawValue>,
    /// Up to here lines were counted.
    counted: usize,
    line: usize,
    over: bool,
}

/// What every line says of itself.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    schema: Option<u32>,
}

impl<'a> Reader<'a> {
    /// Of this text.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            objects: serde_json::Deserializer::from_slice(text).into_iter(),
            counted: 0,
            line: 1,
            over: false,
        }
    }

    fn object(&mut self, raw: &'a RawValue) -> Result<Item, BadReport> {
        let end = self.objects.byte_offset();
        self.count_to(end.saturating_sub(raw.get().len()));
        let kind: Kind<'a> = self.parse(raw)?;
        if let Some(other) = kind.schema.filter(|schema| *schema != SCHEMA) {
            return Err(BadReport {
                line: self.line,
                key: "schema".to_owned(),
                why: format!("{other} is another contract than this version reads ({SCHEMA})"),
            });
        }
        match kind.kind.as_ref() {
            "flow" => self.parse(raw).map(Item::Flow),
            "summary" => self.parse(raw).map(Item::Summary),
            _ => Ok(Item::Other),
        }
    }

    fn parse<T: Read<'a>>(&self, raw: &'a RawValue) -> Result<T, BadReport> {
        T::read(raw.get()).map_err(|(key, error)| BadReport {
            line: self.line + error.line().saturating_sub(1),
            key,
            why: without_place(&error),
        })
    }

    fn count_to(&mut self, offset: usize) {
        let passed = self.text.get(self.counted..offset).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.counted = offset.max(self.counted);
    }
}

/// What can be read of an object, with the way to the key that is wrong.
trait Read<'a>: Sized {
    fn read(text: &'a str) -> Result<Self, (String, serde_json::Error)>;
}

impl<'a> Read<'a> for Kind<'a> {
    fn read(text: &'a str) -> Result<Self, (String, serde_json::Error)> {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(parted)
    }
}

impl<T: DeserializeOwned> Read<'_> for Box<T> {
    fn read(text: &str) -> Result<Self, (String, serde_json::Error)> {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json)
            .map(Self::new)
            .map_err(parted)
    }
}

fn parted(error: serde_path_to_error::Error<serde_json::Error>) -> (String, serde_json::Error) {
    (error.path().to_string(), error.into_inner())
}

/// Its sentence alone: where it is we say ourselves.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or(text.as_str(), |(sentence, _)| sentence)
        .to_owned()
}

impl Iterator for Reader<'_> {
    type Item = Result<Item, BadReport>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = match self.objects.next()? {
            Ok(raw) => self.object(raw),
            Err(error) => Err(BadReport {
                line: error.line(),
                key: String::new(),
                why: without_place(&error),
            }),
        };
        self.over = item.is_err();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUMMARY: &str = r#"{"type":"summary","schema":1,"version":"0.1.0","kernel":"6","host":"a","started":"",
        "duration_s":1.0,"observed_by":{"tracepoint":2,"tcx":0,"clsact":0,"kprobe":0,"nftrace":0,"unavailable":[]},
        "flows":{"seen":0,"reported":0,"left_out":0,"groups":0},"events":{"received":0,"lost":0},"groups":[],"expect":[]}"#;

    fn first_error(text: &str) -> String {
        let errors = Reader::new(text.as_bytes()).filter_map(Result::err);
        let all: Vec<String> = errors.map(|e| e.to_string()).collect();
        assert!(all.len() <= 1, "nothing comes after an error: {all:?}");
        all.concat()
    }

    #[test]
    fn lines_and_whole_objects_are_read() {
        let text = format!("\n{{\"type\":\"capability\",\"what\":1}}\n{SUMMARY}\n");
        let all: Result<Vec<Item>, _> = Reader::new(text.as_bytes()).collect();
        assert!(matches!(
            all.as_deref(),
            Ok([Item::Other, Item::Summary(_)])
        ));
        assert_eq!(first_error(""), "");
    }

    #[test]
    fn errors_say_line_and_key() {
        let bad = |from: &str, to: &str| {
            first_error(&format!("{SUMMARY}\n{}", SUMMARY.replace(from, to)))
        };
        assert_eq!(
            bad("\"seen\":0", "\"seen\":\"many\""),
            "line 6: flows.seen: invalid type: string \"many\", expected u64"
        );
        assert_eq!(bad("\"groups\":[],", ""), "line 6: missing field `groups`");
        assert_eq!(
            bad("\"schema\":1", "\"schema\":2"),
            "line 4: schema: 2 is another contract than this version reads (1)"
        );
        assert_eq!(
            bad("\"type\":\"summary\",", ""),
            "line 6: missing field `type`"
        );
        assert_eq!(first_error("{}\n"), "line 1: missing field `type`");
        assert_eq!(first_error("\n[1,\n"), "line 3: EOF while parsing a value");
        assert_eq!(first_error("hello"), "line 1: expected value");
        let deep = format!("{{\"type\":\"flow\",\"x\":{}", "[".repeat(1_000_000));
        assert!(first_error(&deep).starts_with("line 1: EOF while parsing"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            Reader::new(&text).for_each(drop);
        }

        #[test]
        fn nor_a_damaged_report(at in 0..SUMMARY.len(), byte in any::<u8>()) {
            let mut text = SUMMARY.as_bytes().to_vec();
            text[at] = byte;
            Reader::new(&text).for_each(drop);
        }
    }
}
