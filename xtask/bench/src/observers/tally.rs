//! The rounds of all observers as one table.

use super::{Load, OBSERVERS, Probe, Row, Sample};
use crate::stats::Median;

/// The rounds together, by observer and kind of traffic.
pub(super) fn tabulate(wanted: &[&str], samples: &[Vec<[Sample; 2]>], matching: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let plain = samples.first().map_or(&[][..], Vec::as_slice);
    for (kind, load) in [Load::Established, Load::New].into_iter().enumerate() {
        let names = |sample: &[Sample; 2]| {
            let programs = sample[kind].programs.iter();
            programs.map(|p| p.name.clone()).collect::<Vec<_>>()
        };
        let usual: Vec<String> = plain.first().map(names).unwrap_or_default();
        for (observer, rounds) in wanted.iter().zip(samples) {
            if rounds.is_empty() {
                continue;
            }
            let of = |sample: &[Sample; 2], what: fn(&Sample) -> u64| what(&sample[kind]);
            let pairs = plain.iter().zip(rounds);
            let ratios: Vec<f64> = pairs.map(|(p, o)| o[kind].rate / p[kind].rate).collect();
            rows.push(Row {
                observer: (*observer).to_owned(),
                load,
                matching,
                packets: rounds.iter().map(|round| of(round, |s| s.packets)).sum(),
                flows: rounds.iter().map(|round| of(round, |s| s.flows)).sum(),
                programs: added(rounds.iter().map(|round| &round[kind]), &usual),
                left: Median::of(&ratios).filter(|_| *observer != OBSERVERS[0]),
            });
        }
    }
    rows
}

/// The sums of the programs that are not among the `usual` ones.
fn added<'a>(rounds: impl Iterator<Item = &'a Sample>, usual: &[String]) -> Vec<Probe> {
    let mut sums: Vec<Probe> = Vec::new();
    let programs = rounds.flat_map(|round| &round.programs);
    for program in programs.filter(|program| !usual.contains(&program.name)) {
        match sums.iter_mut().find(|sum| sum.name == program.name) {
            Some(sum) => {
                sum.runs += program.runs;
                sum.nanoseconds += program.nanoseconds;
            }
            None => sums.push(program.clone()),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rate: f64, programs: &[(&str, u64)]) -> [Sample; 2] {
        [Load::Established, Load::New].map(|_| Sample {
            packets: 10,
            flows: 2,
            rate,
            programs: programs
                .iter()
                .map(|(name, runs)| Probe {
                    name: (*name).to_owned(),
                    runs: *runs,
                    nanoseconds: 7 * runs,
                })
                .collect(),
        })
    }

    #[test]
    fn an_observer_is_charged_with_what_it_adds() {
        let plain = vec![sample(2.0, &[("tap", 9)]), sample(4.0, &[("tap", 9)])];
        let probed = [1.0, 4.0].map(|rate| sample(rate, &[("tap", 9), ("probe", 3)]));
        let rows = tabulate(&["none", "auto"], &[plain, probed.into()], true);
        let auto = rows.iter().find(|r| r.observer == "auto").unwrap();
        assert_eq!(
            (rows.len(), auto.packets, auto.flows, auto.runs()),
            (4, 20, 4, 6)
        );
        assert_eq!(auto.left.unwrap().median, 0.75);
        assert!(rows[0].programs.is_empty() && rows[0].left.is_none());
    }
}
