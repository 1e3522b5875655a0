//! What is said of a measurement, and the numbers in it.

use serde_json::{Value, json};
use tokenfare_lanes::Calibrated;
use tokenfare_pricing::{Shape, calibration_line, method_line};

use super::table_file::ENGINE;
use crate::lines::Line;

/// What is said of a measurement: how it was made, and what it found.
pub fn measurement_lines(found: &Calibrated, end: &str) -> [Line; 2] {
    let Calibrated { measurement, tally } = found;
    [
        Line::family(&method_line(ENGINE, measurement, tally)).with(method_facts(found)),
        Line::family(&calibration_line(ENGINE, measurement, tally, end)).with(facts(found, end)),
    ]
}

fn method_facts(found: &Calibrated) -> Value {
    let (measured, o) = (&found.measurement, &found.measurement.options);
    json!({
        "engine": ENGINE,
        "shape": if o.shape == Shape::Raw { "raw" } else { "fit" },
        "stat": o.statistic.to_string(),
        "reps": o.reps,
        "warm": o.warm,
        "cycle": o.cycle,
        "recheck": o.recheck,
        "deep_reps": o.deep_reps,
        "slots": measured.slots,
        "planned_runs": measured.runs.planned,
        "text_tokens": found.tally.text,
        "kept_ms": measured.kept_ms().collect::<Vec<_>>(),
        "rank": 0,
    })
}

/// The numbers of a measurement.
pub fn facts(found: &Calibrated, end: &str) -> Value {
    let Calibrated { measurement, tally } = found;
    let rows: Vec<usize> = measurement.told_rows().collect();
    json!({
        "engine": ENGINE,
        "draft_ms": measurement.table.draft_ms(),
        "ingest_ms": measurement.ingest_ms,
        "first_ms": measurement.first_ms,
        "slot_ms": measurement.table.slot_ms(),
        "verify_rows": rows,
        "verify_ms": rows.iter().map(|&r| measurement.table.window_ms(r)).collect::<Vec<_>>(),
        "seconds": tally.whole.as_secs_f64(),
        "timed_runs": measurement.runs.timed,
        "timed_seconds": measurement.timed.as_secs_f64(),
        "text_seconds": tally.text_time.as_secs_f64(),
        "prompt_rows": tally.prompt_rows,
        "prompt_seconds": tally.prompt_time.as_secs_f64(),
        "windows_and_passes": tally.launches,
        "windows_and_passes_seconds": tally.launch_time.as_secs_f64(),
        "end": end,
    })
}
