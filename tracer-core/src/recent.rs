//! Short-lived notes: a map whose entries fall out after a time, oldest first, and which never
//! grows beyond a cap. What falls out does not depend on hashing, so reports do not either.

use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The notes.
#[derive(Debug)]
pub struct Recent<K, V> {
    notes: HashMap<K, (u64, V), RandomState>,
    /// Each key once, with a time at which it was noted: where it was noted anew meanwhile, it moves to
    /// the end when its turn comes.
    age: VecDeque<(u64, K)>,
    ttl_ns: u64,
    cap: usize,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// No notes yet. They last for `ttl_ns`, and there are never more than `cap`.
    #[must_use]
    pub fn new(ttl_ns: u64, cap: usize) -> Self {
        Self {
            notes: HashMap::default(),
            age: VecDeque::new(),
            ttl_ns,
            cap,
        }
    }

    /// Notes `value` at `now_ns`, in place of what was noted for `key` before.
    pub fn note(&mut self, now_ns: u64, key: K, value: V) {
        match self.notes.entry(key) {
            Entry::Occupied(mut slot) => {
                slot.insert((now_ns, value));
            }
            Entry::Vacant(slot) => {
                slot.insert((now_ns, value));
                self.age.push_back((now_ns, key));
            }
        }
        self.make_room(now_ns);
    }

    /// What was noted for `key` not longer ago than the time to live.
    #[must_use]
    pub fn get(&self, now_ns: u64, key: &K) -> Option<&V> {
        if self.notes.is_empty() {
            return None;
        }
        self.notes
            .get(key)
            .filter(|(noted, _)| noted.saturating_add(self.ttl_ns) >= now_ns)
            .map(|(_, value)| value)
    }

    fn make_room(&mut self, now_ns: u64) {
        let ttl_ns = self.ttl_ns;
        let is_fresh = |noted: u64| noted.saturating_add(ttl_ns) >= now_ns;
        while let Some(&(noted, key)) = self.age.front() {
            if is_fresh(noted) && self.age.len() <= self.cap {
                return;
            }
            self.age.pop_front();
            match self.notes.get(&key) {
                Some((time, _)) if *time != noted && is_fresh(*time) => {
                    self.age.push_back((*time, key));
                }
                _ => drop(self.notes.remove(&key)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_fall_out_by_age() {
        let mut recent = Recent::new(10, 100);
        recent.note(0, 'a', 1);
        assert_eq!(
            (recent.get(10, &'a'), recent.get(11, &'a')),
            (Some(&1), None)
        );
    }

    #[test]
    fn a_renewed_note_outlives_its_first_time() {
        let mut recent = Recent::new(10, 100);
        recent.note(0, 'a', 1);
        recent.note(8, 'a', 2);
        recent.note(12, 'b', 3);
        assert_eq!(recent.get(12, &'a'), Some(&2));
        recent.note(30, 'c', 4);
        assert_eq!((recent.notes.len(), recent.age.len()), (1, 1));
    }

    #[test]
    fn a_renewed_note_takes_no_more_room() {
        let mut recent = Recent::new(10, 3);
        for time in 0..100 {
            recent.note(time, time % 2, time);
        }
        assert_eq!((recent.notes.len(), recent.age.len()), (2, 2));
        assert_eq!(recent.get(100, &1), Some(&99));
    }

    #[test]
    fn the_cap_holds_and_the_oldest_goes_first() {
        let mut recent = Recent::new(1000, 3);
        for (time, key) in (0..).zip(0..10) {
            recent.note(time, key, ());
        }
        assert_eq!((recent.notes.len(), recent.age.len()), (3, 3));
        assert!(recent.get(9, &9).is_some() && recent.get(9, &6).is_none());
    }
}
