//! How often each key occurs in all sources together, from a first look through them: so a part knows when all
//! that could belong to it has come, and need not wait longer, and a captured flow that shares no key with another
//! is known as a stranger at once.
//!
//! A counting sketch with conservative update: a key has some counters, adding to it raises only the smallest of them,
//! and the smallest tells its count. Keys that share counters make a count too high, never too low, so that parts wait
//! longer than they need and nothing is overlooked.

use super::witness::{Key, Witness};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};

/// Counters of four bits: 16 MiB, however many flows there are.
const CELLS: usize = 1 << 25;
/// Counters that lie in one cache line. All of a key's are in one: memory is looked at once for each key.
const LINE: usize = 128;
/// Counters of a key. With 2.7 million keys (1.3 million TCP connections), about one in 200 looks as if it
/// occurred once more.
const EACH: usize = 4;
/// What a counter does not go beyond.
const MOST: u8 = 15;

/// How often keys occur, at most.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Two counters in each byte.
    pairs: Vec<u8>,
}

impl Census {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pairs: vec![0; CELLS / 2],
        }
    }

    /// Counts a part's keys.
    pub fn note(&mut self, witness: &Witness) {
        for key in witness.keys() {
            self.add(&key);
        }
    }

    fn add(&mut self, key: &Key) {
        let places = places(key);
        let Some(least) = self.least(places).filter(|least| *least < MOST) else {
            return;
        };
        for place in places {
            if self.cell(place) == Some(least)
                && let Some(pair) = self.pairs.get_mut(place / 2)
            {
                *pair += 1 << shift(place);
            }
        }
    }

    /// In how many parts a key is, at most; `None`: too many, or nothing was counted.
    pub(super) fn count(&self, key: &Key) -> Option<usize> {
        let least = self.least(places(key))?;
        (least < MOST).then_some(usize::from(least))
    }

    fn least(&self, places: [usize; EACH]) -> Option<u8> {
        let mut least = MOST;
        for place in places {
            least = least.min(self.cell(place)?);
        }
        Some(least)
    }

    fn cell(&self, place: usize) -> Option<u8> {
        let pair = self.pairs.get(place / 2)?;
        Some(pair >> shift(place) & MOST)
    }
}

/// Where in its byte a counter is.
fn shift(place: usize) -> usize {
    place % 2 * 4
}

/// The counters of a key. Some may be the same one.
fn places(key: &Key) -> [usize; EACH] {
    let mut hasher = SipHasher13::new();
    key.hash(&mut hasher);
    let hash = hasher.finish() as usize;
    let line = hash % (CELLS / LINE) * LINE;
    std::array::from_fn(|nth| line + (hash >> (32 + 7 * nth)) % LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count that a census gives of keys that occur so often, each.
    fn counted(keys: &[Key], times: usize) -> Vec<Option<usize>> {
        let mut census = Census::new();
        for _ in 0..times {
            for key in keys {
                census.add(key);
            }
        }
        keys.iter().map(|key| census.count(key)).collect()
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let keys: Vec<Key> = (0..1000).map(Key::Syn).collect();
        for times in 0..usize::from(MOST) {
            assert_eq!(counted(&keys, times), vec![Some(times); keys.len()]);
        }
        let beyond = counted(&keys, usize::from(MOST));
        assert_eq!(beyond, vec![None; keys.len()], "too many to say");
        assert_eq!(Census::default().count(&Key::Syn(1)), None, "no look");
    }

    #[test]
    fn many_keys_are_counted_too_high_rarely_and_too_low_never() {
        let keys: Vec<Key> = (0..2_700_000).map(Key::Syn).collect();
        let counts = counted(&keys, 1);
        let exact = counts.iter().filter(|count| **count == Some(1)).count();
        assert!(!counts.contains(&Some(0)));
        let high = keys.len() - exact;
        assert!(high < keys.len() / 150, "{high} of {}", keys.len());
    }
}
