//! Go's durations (`time.ParseDuration`): `1h30m`, `.5m`, `+30s`.

use std::fmt;

/// A span of time as Go counts it, nanoseconds; may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub i64);

const SECOND: i64 = 1_000_000_000;

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// Whole seconds, rounded up.
    #[must_use]
    pub fn whole_seconds(self) -> i64 {
        self.0.div_euclid(SECOND) + i64::from(self.0.rem_euclid(SECOND) > 0)
    }
}

/// As a person says it: `60s`, `1h30m`, `292 years`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const YEAR: i64 = 365 * 24 * 3600;
        let (seconds, rest) = (self.0 / SECOND, self.0 % SECOND);
        match seconds {
            s if s >= 2 * YEAR => write!(f, "{} years", s / YEAR),
            _ if rest != 0 => write!(f, "{}s", self.0 as f64 / SECOND as f64),
            s if s >= 3600 && s % 60 == 0 => {
                let minutes = s % 3600 / 60;
                write!(f, "{}h", s / 3600)?;
                if minutes > 0 {
                    write!(f, "{minutes}m")
                } else {
                    Ok(())
                }
            }
            s => write!(f, "{s}s"),
        }
    }
}

/// Reads one.
///
/// # Errors
/// What is wrong with it, and what is accepted.
pub(super) fn parse(text: &str) -> Result<Span, String> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Span(0));
    }
    if rest.is_empty() {
        return Err(wrong(text, "it is empty"));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = part(rest).map_err(|why| wrong(text, &why))?;
        total = total
            .checked_add(part)
            .filter(|sum| *sum <= 1 << 63)
            .ok_or_else(|| wrong(text, "it is longer than 292 years"))?;
        rest = after;
    }
    let span = match (negative, i64::try_from(total)) {
        (true, Ok(span)) => -span,
        (true, Err(_)) => i64::MIN,
        (false, Ok(span)) => span,
        (false, Err(_)) => return Err(wrong(text, "it is longer than 292 years")),
    };
    Ok(Span(span))
}

fn wrong(text: &str, why: &str) -> String {
    format!("{text:?} is no duration such as \"60s\" or \"1h30m\": {why}")
}

/// One number and its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Result<(u64, &str), String> {
    let (whole, rest) = digits(text);
    let (decimals, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && decimals.is_empty() {
        return Err("a number is missing".to_owned());
    }
    let end = rest
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let size = match unit {
        "" => return Err("the unit is missing".to_owned()),
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000_u64,
        _ => {
            return Err(format!(
                "unknown unit {unit:?}; units are ns, us, ms, s, m and h"
            ));
        }
    };
    let too_long = || "it is longer than 292 years".to_owned();
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| too_long())?
    };
    let whole = whole.checked_mul(size).filter(|n| *n <= 1 << 63);
    let total = whole
        .and_then(|whole| whole.checked_add(fraction(decimals, size)))
        .filter(|n| *n <= 1 << 63);
    total.map(|total| (total, rest)).ok_or_else(too_long)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Digits behind the point; those that Go's arithmetic has no room for do not count.
fn fraction(decimals: &str, size: u64) -> u64 {
    let kept = &decimals[..decimals.len().min(18)];
    let Ok(value) = kept.parse::<u64>() else {
        return 0;
    };
    let scale = 10_f64.powi(kept.len() as i32);
    (value as f64 * (size as f64 / scale)) as u64
}

#[cfg(test)]
mod tests {
    use super::{Span, parse};

    #[test]
    fn spellings_of_the_field() {
        const S: i64 = 1_000_000_000;
        let good = [
            ("60s", 60 * S),
            ("1m", 60 * S),
            ("1m0s", 60 * S),
            ("60000ms", 60 * S),
            ("+30s", 30 * S),
            (".5m", 30 * S),
            ("1.5m", 90 * S),
            ("1h30m", 5400 * S),
            ("0", 0),
            ("0s", 0),
            ("-5s", -5 * S),
            ("1us", 1000),
            ("1\u{b5}s", 1000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ];
        for (text, nanoseconds) in good {
            assert_eq!(parse(text), Ok(Span(nanoseconds)), "{text}");
        }
        let bad = [
            ("60", "the unit is missing"),
            (
                "60sec",
                "unknown unit \"sec\"; units are ns, us, ms, s, m and h",
            ),
            ("1d", "unknown unit \"d\"; units are ns, us, ms, s, m and h"),
            (
                "300y",
                "unknown unit \"y\"; units are ns, us, ms, s, m and h",
            ),
            ("1M", "unknown unit \"M\"; units are ns, us, ms, s, m and h"),
            (
                "60S",
                "unknown unit \"S\"; units are ns, us, ms, s, m and h",
            ),
            (
                "60 s",
                "unknown unit \" s\"; units are ns, us, ms, s, m and h",
            ),
            (
                "1m 30s",
                "unknown unit \"m \"; units are ns, us, ms, s, m and h",
            ),
            ("PT60S", "a number is missing"),
            (
                "1:00",
                "unknown unit \":\"; units are ns, us, ms, s, m and h",
            ),
            (
                "1_0s",
                "unknown unit \"_\"; units are ns, us, ms, s, m and h",
            ),
            ("", "it is empty"),
            ("9223372036854775808ns", "it is longer than 292 years"),
            ("3000000h", "it is longer than 292 years"),
        ];
        for (text, why) in bad {
            let told = format!("{text:?} is no duration such as \"60s\" or \"1h30m\": {why}");
            assert_eq!(parse(text), Err(told), "{text}");
        }
    }

    #[test]
    fn spans_are_told_as_people_say_them() {
        let rows = [
            (Span::seconds(60), "60s"),
            (Span::seconds(5400), "1h30m"),
            (Span::seconds(7200), "2h"),
            (Span(500_000_000), "0.5s"),
            (Span(i64::MAX), "292 years"),
            (Span::seconds(-5), "-5s"),
        ];
        for (span, told) in rows {
            assert_eq!(span.to_string(), told);
        }
    }
}
