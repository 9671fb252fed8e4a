//! How often each key occurs in all sources together, from a first look through them: so a part knows when all
//! that could belong to it has come, and need not wait longer.

use super::witness::{Key, Witness};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};

/// Counters: 16 MiB, however many flows there are. Where two keys share both of theirs, each looks as often
/// as both together, and parts wait longer than they need.
const CELLS: usize = 1 << 24;

/// How often keys occur, at most.
#[derive(Clone, Debug, Default)]
pub struct Census {
    cells: Vec<u8>,
}

impl Census {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cells: vec![0; CELLS],
        }
    }

    /// Counts a part's keys.
    pub fn note(&mut self, witness: &Witness) {
        for key in witness.keys() {
            for at in places(&key) {
                if let Some(cell) = self.cells.get_mut(at) {
                    *cell = cell.saturating_add(1);
                }
            }
        }
    }

    /// In how many parts a key is, at most; `None`: too many, or nothing was counted.
    pub(super) fn count(&self, key: &Key) -> Option<usize> {
        let cells = places(key).map(|at| self.cells.get(at).copied());
        let [a, b] = cells;
        let least = a?.min(b?);
        (least < u8::MAX).then_some(usize::from(least))
    }
}

/// The two counters of a key.
fn places(key: &Key) -> [usize; 2] {
    let mut hasher = SipHasher13::new();
    key.hash(&mut hasher);
    let hash = hasher.finish() as usize;
    [hash % CELLS, (hash >> 32) % CELLS]
}
