//! What the hosts' clocks are off by, from the flows that several of them saw.
//!
//! As NTP does it: a request takes `delay - offset` from one host to the next by their clocks, its reply
//! `delay + offset` back. Half the difference is the offset, half the sum the delay, and the offset
//! cannot be wrong by more than that. Where only requests were seen, the offset is right as far as they
//! took no time. Of many flows the median counts: one packet that was lost and sent again moves nothing.

use super::links::is_before;
use super::witness::{Key, Sight, Witness};
use crate::journey::Direction;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Most flows of a source that are compared: those with the least hashes, so the same ones of each.
const SAMPLE: usize = 1 << 14;

/// What the clock of a source is off by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aligned {
    /// To be added to its UTC to get that of the first source, nanoseconds.
    pub offset_ns: i64,
    /// By how much that can be wrong; `None`: only requests were seen.
    pub error_ns: Option<u64>,
    /// From so many flows; 0: nothing is known, and its clock is believed.
    pub flows: usize,
}

/// What the clocks of all sources are off by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks(pub Vec<Aligned>);

impl Clocks {
    /// A moment of a source by the first source's clock.
    #[must_use]
    pub fn align(&self, source: usize, at_ns: i64) -> i64 {
        let offset = self.0.get(source).map_or(0, |a| a.offset_ns);
        at_ns.saturating_add(offset)
    }
}

/// Collects what the estimate needs. Its memory is bounded, however many flows there are.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Per source, by hash of the key; `None`: more than one flow has that.
    samples: Vec<BTreeMap<u64, Option<Sample>>>,
}

/// The ends of a flow's ways at one source.
#[derive(Clone, Copy, Debug)]
struct Sample {
    request: (Sight, Sight),
    reply: Option<(Sight, Sight)>,
}

impl Estimate {
    /// Of so many sources.
    #[must_use]
    pub fn new(sources: usize) -> Self {
        Self {
            samples: vec![BTreeMap::new(); sources],
        }
    }

    /// Notes a flow of a source.
    pub fn note(&mut self, source: usize, witness: &Witness) {
        let Some(key) = witness.key.filter(Key::is_strong) else {
            return;
        };
        let (Some(request), Some(samples)) = (
            ends(witness.way(Direction::Request)),
            self.samples.get_mut(source),
        ) else {
            return;
        };
        let sample = Sample {
            request,
            reply: ends(witness.way(Direction::Reply)),
        };
        samples
            .entry(hash(&key))
            .and_modify(|known| *known = None)
            .or_insert(Some(sample));
        if samples.len() > SAMPLE {
            samples.pop_last();
        }
    }

    /// What the clocks are off by: each by the source that shares most flows with it and is known.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        let count = self.samples.len();
        let mut clocks: Vec<Option<Aligned>> = vec![None; count];
        if let Some(first) = clocks.first_mut() {
            *first = Some(Aligned::default());
        }
        loop {
            let mut best: Option<(usize, Aligned)> = None;
            for known in 0..count {
                let Some(base) = clocks[known] else { continue };
                for other in (0..count).filter(|other| clocks[*other].is_none()) {
                    let Some(found) = self.pair(known, other) else {
                        continue;
                    };
                    if best.is_none_or(|(_, best)| best.flows < found.flows) {
                        best = Some((other, chained(base, found)));
                    }
                }
            }
            let Some((other, aligned)) = best else { break };
            clocks[other] = Some(aligned);
        }
        Clocks(clocks.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// What `b` is off by against `a`.
    fn pair(&self, a: usize, b: usize) -> Option<Aligned> {
        let (mut both, mut one) = (Vec::new(), Vec::new());
        for (key, sample) in &self.samples[a] {
            let (Some(x), Some(Some(y))) = (sample, self.samples[b].get(key)) else {
                continue;
            };
            match offset(x, y) {
                Some((offset, Some(delay))) => both.push((offset, delay)),
                Some((offset, None)) => one.push(offset),
                None => {}
            }
        }
        if both.is_empty() {
            return Some(Aligned {
                flows: one.len(),
                offset_ns: median(one)?,
                error_ns: None,
            });
        }
        let delay = median(both.iter().map(|(_, delay)| *delay).collect())?;
        Some(Aligned {
            flows: both.len(),
            offset_ns: median(both.into_iter().map(|(offset, _)| offset).collect())?,
            error_ns: u64::try_from(delay).ok(),
        })
    }
}

fn chained(base: Aligned, next: Aligned) -> Aligned {
    let base_error = if base.flows == 0 {
        Some(0)
    } else {
        base.error_ns
    };
    Aligned {
        offset_ns: base.offset_ns.saturating_add(next.offset_ns),
        error_ns: base_error
            .zip(next.error_ns)
            .map(|(a, b)| a.saturating_add(b)),
        flows: next.flows,
    }
}

/// What to add to `b`'s clock, and the delay, from one flow.
fn offset(a: &Sample, b: &Sample) -> Option<(i64, Option<i64>)> {
    let ends = |s: &Sample| (s.request.0, s.request.1);
    let ((a0, a1), (b0, b1)) = (ends(a), ends(b));
    let Some(first) = is_before((&a0, &a1), (&b0, &b1)) else {
        // Both looked at the same points, as far as can be told: at the same time, then.
        return Some((a0.at_ns.checked_sub(b0.at_ns)?, None));
    };
    if !first {
        let (offset, delay) = offset(b, a)?;
        return Some((offset.checked_neg()?, delay));
    }
    let there = b0.at_ns.checked_sub(a1.at_ns)?;
    let Some((leaves, comes)) = b.reply.zip(a.reply).map(|(b, a)| (b.1, a.0)) else {
        return Some((there.checked_neg()?, None));
    };
    let back = comes.at_ns.checked_sub(leaves.at_ns)?;
    let delay = there.checked_add(back)? / 2;
    (delay >= 0).then_some((back.checked_sub(there)? / 2, Some(delay)))
}

fn ends(way: &[Sight]) -> Option<(Sight, Sight)> {
    let mut own = way.iter().filter(|sight| !sight.filled);
    let first = *own.next()?;
    Some((first, own.next_back().copied().unwrap_or(first)))
}

fn median(mut all: Vec<i64>) -> Option<i64> {
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

fn hash(key: &Key) -> u64 {
    let mut hasher = SipHasher13::new();
    key.hash(&mut hasher);
    hasher.finish()
}
