//! What the start says of a measurement.

use super::measurement::Measurement;
use crate::Shape;
use std::time::Duration;

/// Rows whose prices are told, as far as the table goes.
const TOLD_ROWS: [usize; 11] = [1, 2, 4, 6, 8, 16, 17, 24, 32, 48, 64];
/// Row counts whose kept times are told.
const KEPT_ROWS: usize = 4;

/// What the engine counted while it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Tokens of the text that windows are cut from.
    pub text: usize,
    /// Time of making that text.
    pub text_time: Duration,
    /// Prompt rows fed.
    pub prompt_rows: usize,
    /// Time of feeding them.
    pub prompt_time: Duration,
    /// Windows and drafter passes, untimed ones included.
    pub launches: usize,
    /// Time of those and of every ingest.
    pub launch_time: Duration,
    /// The whole measurement.
    pub whole: Duration,
}

impl Measurement {
    /// The row counts that the calibration line tells: those of the list that the table holds.
    pub fn told_rows(&self) -> impl Iterator<Item = usize> {
        let most = self.table.verify().len();
        TOLD_ROWS.into_iter().filter(move |&rows| rows <= most)
    }

    /// Kept times of the first rows, in milliseconds.
    pub fn kept_ms(&self) -> impl Iterator<Item = f64> {
        self.timings.rows.iter().take(KEPT_ROWS).map(|&(_, ms)| ms)
    }
}

fn list(values: impl Iterator<Item = String>, separator: &str) -> String {
    values.collect::<Vec<_>>().join(separator)
}

/// How `engine` measured: the method, the size of the full plan, and what was kept of the first rows.
pub fn method_line(engine: &str, measured: &Measurement, tally: &Tally) -> String {
    let o = &measured.options;
    let shape = match o.shape {
        Shape::Raw => "raw",
        Shape::Fit => "fit",
    };
    let kept = list(measured.kept_ms().map(|ms| format!("{ms:.3}")), " / ");
    let rows = measured.timings.rows.len().min(KEPT_ROWS);
    format!(
        "calib method ({engine}): table {shape}, {} of {} after {} warm-up(s), rows 1-{} cycled, rows 1-{} rechecked, \
         rows 9+ {} runs; {} slots, {} timed runs, a {}-token text; rows 1-{rows} kept {kept} ms (rank 0)",
        o.statistic,
        o.reps,
        o.warm,
        o.cycle,
        o.recheck,
        o.deep_reps,
        measured.slots,
        measured.runs.planned,
        tally.text,
    )
}

/// What `engine` measured and where the time went; `end` says whether it was stored.
pub fn calibration_line(engine: &str, measured: &Measurement, tally: &Tally, end: &str) -> String {
    let table = &measured.table;
    let rows = list(measured.told_rows().map(|r| r.to_string()), "/");
    let times = list(measured.told_rows().map(|r| format!("{:.1}", table.window_ms(r))), ", ");
    format!(
        "calibration ({engine}): draft {:.2} ms (ingest {:.2}, first {:.2}), slot {:.2} ms, verify {rows} rows {times} ms, \
         measured in {:.2} s over {} timed runs (tokenizer and text {:.2} s, {} prompt rows in {:.2} s, \
         {} windows and passes in {:.2} s) ({end})",
        table.draft_ms(),
        measured.ingest_ms,
        measured.first_ms,
        table.slot_ms(),
        tally.whole.as_secs_f64(),
        measured.runs.timed,
        tally.text_time.as_secs_f64(),
        tally.prompt_rows,
        tally.prompt_time.as_secs_f64(),
        tally.launches,
        tally.launch_time.as_secs_f64(),
    )
}
