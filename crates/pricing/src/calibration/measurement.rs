//! What a measurement found.

use super::launch::Launch;
use super::options::CalibrationOptions;
use super::run::{Step, Took, Use};
use crate::{CostTable, Timings, TimingsError};
use std::collections::BTreeMap;
use std::time::Duration;

/// A model in which no measurement has room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a context of {context} and windows of {window_rows} rows, expected place for a prompt of 2 rows and a window of 2"
)]
pub struct NoRoom {
    /// Positions of a stream.
    pub context: usize,
    /// Rows of one launch of windows.
    pub window_rows: usize,
}

/// How many runs there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCounts {
    /// Timed runs of the full plan.
    pub planned: usize,
    /// Those that took place.
    pub timed: usize,
}

/// What a measurement found.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// How it was made.
    pub options: CalibrationOptions,
    /// Slots that took part.
    pub slots: usize,
    /// What was timed: the statistic of each window's runs.
    pub timings: Timings,
    /// The table made from it.
    pub table: CostTable,
    /// Milliseconds of the ingest in the pass that was kept.
    pub ingest_ms: f64,
    /// Milliseconds of the first ingest after the windows, which prices nothing.
    pub first_ms: f64,
    /// How many runs there were.
    pub runs: RunCounts,
    /// Time inside timed runs.
    pub timed: Duration,
}

/// Recorded times.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    rows: Vec<usize>,
    slots: usize,
    planned: usize,
    timed: usize,
    time: Duration,
    windows: BTreeMap<Launch, Vec<f64>>,
    rechecked: BTreeMap<Launch, f64>,
    /// The fastest pass with its ingest, and that ingest.
    pass: Option<(f64, f64)>,
    first: f64,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Runs {
    pub fn new(rows: Vec<usize>, slots: usize, planned: usize) -> Self {
        Self {
            rows,
            slots,
            planned,
            timed: 0,
            time: Duration::ZERO,
            windows: BTreeMap::new(),
            rechecked: BTreeMap::new(),
            pass: None,
            first: 0.0,
        }
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Takes the time of a timed step.
    pub fn record(&mut self, step: &Step, took: Took) {
        self.timed += 1;
        self.time += took.whole;
        let whole = ms(took.whole);
        match *step {
            Step::Window { launch, used: Use::Recheck } => {
                self.rechecked.insert(launch, whole);
            }
            Step::Window { launch, .. } => self.windows.entry(launch).or_default().push(whole),
            Step::FirstIngest => self.first = whole,
            Step::Pass { .. } => {
                let faster = self.pass.is_none_or(|kept| whole < kept.0);
                if faster {
                    self.pass = Some((whole, ms(took.ingest)));
                }
            }
            Step::Prefill { .. } | Step::WarmPass => {}
        }
    }

    fn kept(&self, launch: Launch, options: &CalibrationOptions) -> Option<f64> {
        let runs = self.windows.get(&launch)?;
        let again = self.rechecked.get(&launch).copied().unwrap_or(f64::INFINITY);
        Some(options.statistic.of(runs).min(again))
    }

    pub fn finish(
        &self,
        options: CalibrationOptions,
        launch_bound: usize,
    ) -> Result<Measurement, TimingsError> {
        let kept = |&rows: &usize| self.kept(Launch::Rows(rows), &options).map(|ms| (rows, ms));
        // Without a pass the table is refused for a time that is not finite.
        let (draft, ingest_ms) = self.pass.unwrap_or((f64::INFINITY, 0.0));
        let timings = Timings {
            rows: self.rows.iter().filter_map(kept).collect(),
            pair: self.kept(Launch::Pair, &options),
            draft,
            launch_bound,
            shape: options.shape,
        };
        let table = timings.table()?;
        Ok(Measurement {
            options,
            slots: self.slots,
            timings,
            table,
            ingest_ms,
            first_ms: self.first,
            runs: RunCounts { planned: self.planned, timed: self.timed },
            timed: self.time,
        })
    }
}
