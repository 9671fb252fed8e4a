//! What the machine was asked a moment ago and is not asked again at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Asked anew after this time.
const ASKED: Duration = Duration::from_secs(1);
/// Most that is asked at one judgement.
const AT_ONCE: usize = 8;

/// When each of them was asked.
#[derive(Debug)]
pub(super) struct Lately<K>(BTreeMap<K, Instant>);

impl<K> Default for Lately<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Copy + Ord> Lately<K> {
    /// Of those that somebody wants to know, the ones to ask now: each once, in order.
    pub(super) fn due(&mut self, wanted: impl Iterator<Item = K>) -> Vec<K> {
        let now = Instant::now();
        self.0.retain(|_, at| now.duration_since(*at) < ASKED);
        let mut due: Vec<K> = wanted.filter(|key| !self.0.contains_key(key)).collect();
        due.sort_unstable();
        due.dedup();
        due.truncate(AT_ONCE);
        self.0.extend(due.iter().map(|key| (*key, now)));
        due
    }
}
