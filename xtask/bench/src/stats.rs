//! Medians and how sure they are.

use serde::{Deserialize, Serialize};

/// A median with the interval that the true one lies in with at least 95 % certainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Median {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How certain the interval is, by the number of samples; below 0.95 when there are fewer than six.
    pub(crate) certainty: f64,
    pub(crate) samples: usize,
}

impl Median {
    /// By order statistics: nothing is assumed about how the samples are distributed. `None` without samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let upper = *sorted.get(count / 2)?;
        let lower = *sorted.get(count.checked_sub(1)? / 2)?;
        let (rank, certainty) = interval(count);
        Some(Self {
            median: f64::midpoint(lower, upper),
            low: sorted[rank],
            high: sorted[count - 1 - rank],
            certainty,
            samples: count,
        })
    }
}

/// The innermost rank (from 0) such that the true median lies between it and its mirror with 95 % certainty, and how
/// certain that is; the outermost when there are too few samples.
fn interval(count: usize) -> (usize, f64) {
    let mut best = (0, certainty(count, 0));
    for rank in 1..count.div_ceil(2) {
        let certainty = certainty(count, rank);
        if certainty < 0.95 {
            break;
        }
        best = (rank, certainty);
    }
    best
}

/// The chance that at least `rank + 1` of `count` fair coins show either side.
fn certainty(count: usize, rank: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut outside = 0.0;
    for heads in 0..=rank {
        outside += term;
        term *= count_as_f64(count - heads) / count_as_f64(heads + 1);
    }
    (1.0 - 2.0 * outside).max(0.0)
}

/// Sample counts are small.
fn count_as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_samples_give_the_ranks_of_the_tables() {
        let samples: Vec<f64> = (1..=15).rev().map(f64::from).collect();
        let median = Median::of(&samples).unwrap();
        assert_eq!((median.median, median.low, median.high), (8.0, 4.0, 12.0));
        assert!((median.certainty - 0.9648).abs() < 0.0001);
        assert_eq!(median.samples, 15);
    }

    #[test]
    fn few_samples_give_all_there_is() {
        assert_eq!(Median::of(&[]), None);
        let one = Median::of(&[2.0]).unwrap();
        assert_eq!(
            (one.median, one.low, one.high, one.certainty),
            (2.0, 2.0, 2.0, 0.0)
        );
        let four = Median::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (four.median, four.low, four.high, four.certainty),
            (2.5, 1.0, 4.0, 0.875)
        );
    }
}
