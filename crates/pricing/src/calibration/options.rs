//! How a measurement is made.

use crate::Shape;
use crate::shape::median;
use std::fmt;
use std::time::Duration;

/// How the runs of one window are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// Their median.
    Median,
    /// The fastest.
    Min,
}

impl Statistic {
    /// The statistic of at least one run.
    pub fn of(self, runs: &[f64]) -> f64 {
        match self {
            Self::Median => median(runs.to_vec()),
            Self::Min => runs.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Median => "median",
            Self::Min => "min",
        })
    }
}

/// How a measurement is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// How timed rows are smoothed.
    pub shape: Shape,
    /// How the runs of one window are combined.
    pub statistic: Statistic,
    /// Runs of a window of up to 8 rows, at least 1.
    pub reps: usize,
    /// Runs of a window of 9 rows and more, at least 1.
    pub deep_reps: usize,
    /// Untimed windows before the first timed one.
    pub warm: usize,
    /// Rows 1 to this are repeated in turn; the repeats of other windows stand together.
    pub cycle: usize,
    /// Rows 1 to this are timed once more at the very end, and the lower time is kept.
    pub recheck: usize,
    /// Bounds the repeats, counted from the start of the measurement; every window's first run takes place in any case.
    pub budget: Duration,
}

impl Default for CalibrationOptions {
    /// What holds on a CPU when nothing is set.
    fn default() -> Self {
        Self {
            shape: Shape::Raw,
            statistic: Statistic::Min,
            reps: 3,
            deep_reps: 5,
            warm: 1,
            cycle: 4,
            recheck: 0,
            budget: Duration::from_secs(2),
        }
    }
}

impl CalibrationOptions {
    /// Runs of a window of `rows` rows when no budget cuts them.
    pub(super) fn reps(&self, rows: usize) -> usize {
        if rows <= 8 { self.reps } else { self.deep_reps }
    }
}
