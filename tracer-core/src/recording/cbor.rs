//! CBOR values out of bytes.
//!
//! Two readers. cbor4ii takes what stands in memory as it stands, several times as fast, which is most of what reading a
//! recording costs; it knows one form of each number only. What it does not take (floats that were written short) ciborium
//! reads, which also says what is wrong with what neither takes.

use cbor4ii::core::dec::{Read, Reference};
use cbor4ii::serde::Deserializer;
use serde::de::DeserializeOwned;
use std::convert::Infallible;

/// Values inside each other, at most: rules and sets are not deeper.
const DEEPEST: usize = 64;

/// Takes one value off the front.
///
/// # Errors
/// When there is none of that type; in words.
pub(super) fn value<T: DeserializeOwned>(raw: &mut &[u8]) -> Result<T, String> {
    let mut quick = Deserializer::new(Rest {
        bytes: raw,
        deeper: DEEPEST,
    });
    if let Ok(value) = T::deserialize(&mut quick) {
        *raw = quick.into_inner().bytes;
        return Ok(value);
    }
    ciborium::de::from_reader_with_recursion_limit(raw, DEEPEST).map_err(|error| error.to_string())
}

/// What is left.
struct Rest<'a> {
    bytes: &'a [u8],
    /// How many values may still be inside each other.
    deeper: usize,
}

impl<'a> Read<'a> for Rest<'a> {
    type Error = Infallible;

    fn fill<'short>(&'short mut self, _: usize) -> Result<Reference<'a, 'short>, Infallible> {
        Ok(Reference::Long(self.bytes))
    }

    fn advance(&mut self, n: usize) {
        self.bytes = self.bytes.get(n..).unwrap_or_default();
    }

    fn step_in(&mut self) -> bool {
        match self.deeper.checked_sub(1) {
            Some(left) => {
                self.deeper = left;
                true
            }
            None => false,
        }
    }

    fn step_out(&mut self) {
        self.deeper += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Asked;
    use serde::{Deserialize, Serialize};
    use std::net::IpAddr;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Mixed {
        addrs: Vec<IpAddr>,
        seconds: f64,
        text: Option<String>,
        pair: (u64, i64),
        nothing: Option<u32>,
    }

    fn mixed() -> Mixed {
        Mixed {
            addrs: vec!["10.20.30.40".parse().unwrap(), "fd50::20".parse().unwrap()],
            // Written as two bytes.
            seconds: 1.5,
            text: Some("é".to_owned()),
            pair: (u64::MAX, i64::MIN),
            nothing: None,
        }
    }

    fn written(value: &impl Serialize) -> Vec<u8> {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_the_quick_reader_does_not_take_the_other_does_and_the_next_value_follows() {
        let asked = Asked {
            now_ns: 7,
            counts: Vec::new(),
        };
        let bytes = [written(&mixed()), written(&asked), written(&mixed())].concat();
        let mut raw = bytes.as_slice();
        assert_eq!(value::<Mixed>(&mut raw), Ok(mixed()));
        assert_eq!(value::<Asked>(&mut raw), Ok(asked));
        assert_eq!(value::<Mixed>(&mut raw), Ok(mixed()));
        assert!(raw.is_empty());
        assert!(value::<Asked>(&mut raw).is_err());
    }

    #[test]
    fn fields_that_are_not_known_are_passed_over_and_depth_is_bounded() {
        #[derive(Serialize)]
        struct More {
            now_ns: u64,
            later: Vec<Vec<(String, f64)>>,
            counts: Vec<u8>,
        }
        let more = More {
            now_ns: 9,
            later: vec![vec![("x".to_owned(), 0.25)]],
            counts: Vec::new(),
        };
        let bytes = written(&more);
        let read = value::<Asked>(&mut bytes.as_slice()).unwrap();
        assert_eq!((read.now_ns, read.counts.len()), (9, 0));
        let deep = [vec![0x81; 1 << 20], vec![0]].concat();
        assert!(value::<serde_json::Value>(&mut deep.as_slice()).is_err());
        let unknown = [&[0xa1, 0x61, b'x'][..], &deep].concat();
        assert!(value::<Asked>(&mut unknown.as_slice()).is_err());
    }
}
