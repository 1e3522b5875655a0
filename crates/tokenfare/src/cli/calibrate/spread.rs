//! How far numbers move: entries between starts, and one window's time on a machine that does nothing else.

use std::time::Duration;

use tokenfare_pricing::{Measurement, Statistic};

/// The least and the greatest of some times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
}

impl Spread {
    /// Of at least one time.
    pub fn of(times: &[f64]) -> Self {
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let most = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { least, most }
    }

    /// By how many percent the greatest is above the least.
    pub fn percent(self) -> f64 {
        if self.least > 0.0 { 100.0 * (self.most / self.least - 1.0) } else { 0.0 }
    }
}

/// The machine's own noise: how far the statistic of one window moves from group to group of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Groups.
    pub groups: usize,
    /// Runs a group.
    pub runs: usize,
    /// The groups' statistics.
    pub spread: Spread,
}

impl Noise {
    /// Of consecutive runs, in groups of `runs`.
    pub fn of(times: &[Duration], runs: usize, statistic: Statistic) -> Self {
        let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        let groups: Vec<f64> = ms.chunks_exact(runs.max(1)).map(|group| statistic.of(group)).collect();
        Self { groups: groups.len(), runs, spread: Spread::of(&groups) }
    }
}

/// How far each timed entry moves between measurements of one plan, by name.
pub fn movement(measured: &[&Measurement]) -> Vec<(String, Spread)> {
    let Some(first) = measured.first() else { return Vec::new() };
    let over = |time: &dyn Fn(&Measurement) -> Option<f64>| {
        Spread::of(&measured.iter().filter_map(|m| time(m)).collect::<Vec<_>>())
    };
    let mut list: Vec<(String, Spread)> = first
        .timings
        .rows
        .iter()
        .enumerate()
        .map(|(i, &(rows, _))| {
            (
                format!("{rows} row{}", if rows == 1 { "" } else { "s" }),
                over(&|m| Some(m.timings.rows.get(i)?.1)),
            )
        })
        .collect();
    if first.timings.pair.is_some() {
        list.push(("4+4 rows".to_owned(), over(&|m| m.timings.pair)));
    }
    list.push(("pass".to_owned(), over(&|m| Some(m.timings.draft))));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_taken_over_groups_of_runs() {
        let times: Vec<Duration> = [9, 4, 8, 5, 6, 7, 3].map(Duration::from_millis).to_vec();
        let noise = Noise::of(&times, 2, Statistic::Min);
        assert_eq!((noise.groups, noise.runs), (3, 2));
        assert_eq!(noise.spread, Spread { least: 4.0, most: 6.0 });
        assert_eq!(noise.spread.percent(), 50.0);
        assert_eq!(Noise::of(&times, 2, Statistic::Median).spread, Spread { least: 6.5, most: 6.5 });
    }
}
