//! Notes down what a trace is told, as it is told.

use super::{Asked, Change, Count, Reading, Record};
use crate::event::Counter;
use crate::inventory::Inventory;
use crate::journey::ReadCounter;
use crate::ruleset::Ruleset;
use std::collections::BTreeMap;

/// A judgement this long after the last input, of which nothing came, changes nothing and is not noted:
/// far beyond the reorder window.
const IDLE_NS: u64 = 2_000_000_000;

/// The notes since they were last taken.
#[derive(Debug, Default)]
pub struct Journal {
    records: Vec<Record>,
    /// As last noted.
    inventory: Inventory,
    rules: BTreeMap<crate::event::NetnsId, Ruleset>,
    /// Something was noted since the last judgement.
    busy: bool,
    busy_ns: u64,
}

impl Journal {
    /// Notes an input.
    pub fn note(&mut self, record: Record) {
        self.busy = true;
        self.records.push(record);
    }

    /// Notes what the inventory has become, where it differs.
    pub(crate) fn look(&mut self, inventory: &Inventory) {
        if let Some(change) = Change::between(&self.inventory, inventory) {
            self.inventory.clone_from(inventory);
            self.note(Record::Inventory(Box::new(change)));
        }
    }

    /// Notes a reading of rules; equal ones only once.
    pub(crate) fn rules(&mut self, reading: &Reading) {
        let mut reading = reading.clone();
        if reading.given_up.is_none() && self.rules.get(&reading.netns) == reading.rules.as_ref() {
            reading.rules = None;
        } else if let Some(rules) = &reading.rules {
            self.rules.insert(reading.netns, rules.clone());
        }
        self.note(Record::Rules(Box::new(reading)));
    }

    /// Notes a judgement, and whether anything came of it.
    pub(crate) fn advance(&mut self, asked: Asked, told: bool) {
        if self.busy || told {
            self.busy_ns = asked.now_ns;
        }
        self.busy = false;
        let idle = asked.now_ns.saturating_sub(self.busy_ns) > IDLE_NS;
        if told || !idle || !asked.counts.is_empty() {
            self.records.push(Record::Advance(asked));
        }
    }

    /// The notes since this was last asked.
    pub fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }
}

/// Asks `read`, and keeps what it answers.
pub(crate) fn noting<'a>(
    read: &'a mut ReadCounter<'_>,
    counts: &'a mut Vec<Count>,
) -> impl FnMut(&Counter) -> Option<(u64, u64)> + 'a {
    |counter| {
        let answer = read(counter);
        counts.extend(answer.map(|(packets, bytes)| Count {
            counter: *counter,
            packets,
            bytes,
        }));
        answer
    }
}
