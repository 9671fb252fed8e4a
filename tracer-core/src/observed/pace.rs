//! How often probes run that every packet passes, and when that is too often.

/// Rates are taken over at least this long: shorter bursts cost no more than themselves.
const WINDOW_NS: u64 = 250_000_000;

/// Counts against a limit.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    limit: u64,
    since_ns: u64,
    count: u64,
}

impl Pace {
    /// From now on, at most `limit` runs a second.
    #[must_use]
    pub const fn new(limit: u64, now_ns: u64) -> Self {
        Self {
            limit,
            since_ns: now_ns,
            count: 0,
        }
    }

    /// The limit, runs a second.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// So many runs there were in all, by now: their rate, runs a second, where it is over the limit.
    pub fn is_over(&mut self, now_ns: u64, count: u64) -> Option<u64> {
        let past_ns = now_ns.saturating_sub(self.since_ns);
        if past_ns < WINDOW_NS {
            return None;
        }
        let runs = u128::from(count.saturating_sub(self.count));
        let rate = runs * 1_000_000_000 / u128::from(past_ns);
        (self.since_ns, self.count) = (now_ns, count);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        (rate > self.limit).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_taken_over_a_while_and_of_that_while_only() {
        let second = 1_000_000_000;
        let mut pace = Pace::new(100, second);
        assert_eq!(pace.is_over(second + 1, 5000), None, "too soon to say");
        assert_eq!(pace.is_over(2 * second, 100), None, "as many as may be");
        assert_eq!(pace.is_over(4 * second, 301), None, "half as many over");
        assert_eq!(pace.is_over(5 * second, 402), Some(101));
        assert_eq!(pace.is_over(6 * second, 402), None, "the past is past");
    }

    #[test]
    fn clocks_and_counts_that_run_backwards_are_no_rate() {
        let mut pace = Pace::new(0, 10 * WINDOW_NS);
        assert_eq!(pace.is_over(0, 7), None);
        assert_eq!(pace.is_over(11 * WINDOW_NS, u64::MAX), Some(u64::MAX));
        assert_eq!(pace.is_over(12 * WINDOW_NS, 0), None);
    }
}
