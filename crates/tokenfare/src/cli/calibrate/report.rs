//! The result of `tokenfare calibrate`, for people and for programs.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use tokenfare_pricing::Measurement;

use super::spread::{Noise, Spread, movement};
use super::{NOISE_ROWS, Started, plot};
use crate::costs;

/// Everything that was found.
pub struct Report<'a> {
    /// The device's name.
    pub device: &'a str,
    /// Every start; the last one's table is shown.
    pub starts: &'a [Started],
    /// The machine's own noise.
    pub noise: Noise,
    /// Where the last table was stored.
    pub stored: Option<&'a Path>,
}

const WRITTEN: &str = "writing to a string cannot fail";

impl Report<'_> {
    fn measured(&self) -> Vec<&Measurement> {
        self.starts.iter().map(|start| &start.found.measurement).collect()
    }

    /// A table, a plot, and how far the numbers move.
    pub fn text(&self) -> String {
        let mut out = format!("device {}\n\n", self.device);
        let measured = self.measured();
        if let Some(last) = measured.last() {
            out += &table(last);
        }
        if measured.len() > 1 {
            writeln!(out, "\n{:<10} {:>10} {:>10} {:>8}", "entry", "least ms", "most ms", "moves")
                .expect(WRITTEN);
            for (name, spread) in movement(&measured) {
                let Spread { least, most } = spread;
                writeln!(out, "{name:<10} {least:>10.3} {most:>10.3} {:>6.1} %", spread.percent())
                    .expect(WRITTEN);
            }
            writeln!(out, "over {} starts, each with the model loaded anew", measured.len()).expect(WRITTEN);
        }
        let Noise { groups, runs, spread } = self.noise;
        writeln!(
            out,
            "\nnoise of this machine: one {NOISE_ROWS}-row window, {groups} times {runs} runs: {:.3} to {:.3} ms, {:.1} %",
            spread.least,
            spread.most,
            spread.percent()
        )
        .expect(WRITTEN);
        if let Some(path) = self.stored {
            writeln!(out, "stored {}", path.display()).expect(WRITTEN);
        }
        out
    }

    /// The same as one object.
    pub fn json(&self) -> Value {
        let spread = |s: Spread| json!({"least_ms": s.least, "most_ms": s.most, "percent": s.percent()});
        let starts = self.starts.iter().map(|start| {
            let measured = &start.found.measurement;
            let mut facts = costs::facts(&start.found, "");
            facts["verify_rows"] = json!((1..=measured.table.verify().len()).collect::<Vec<_>>());
            facts["verify_ms"] = json!(measured.table.verify());
            let timed = measured.timings.rows.iter().map(|(rows, ms)| json!({"rows": rows, "ms": ms}));
            facts["timed"] = json!(timed.collect::<Vec<_>>());
            facts["pair_ms"] = json!(measured.timings.pair);
            facts["planned_runs"] = json!(measured.runs.planned);
            facts["slots"] = json!(measured.slots);
            if let Some(object) = facts.as_object_mut() {
                object.remove("end");
            }
            facts
        });
        let moves = movement(&self.measured()).into_iter().map(|(name, s)| (name, spread(s)));
        json!({
            "device": self.device,
            "starts": starts.collect::<Vec<_>>(),
            "movement": moves.collect::<serde_json::Map<_, _>>(),
            "noise": {
                "rows": NOISE_ROWS,
                "groups": self.noise.groups,
                "runs": self.noise.runs,
                "spread": spread(self.noise.spread),
            },
            "stored": self.stored.map(|path| path.display().to_string()),
        })
    }
}

/// Every row of a table, which rows were timed, and the built-in table scaled to the same first row.
fn table(measured: &Measurement) -> String {
    let table = &measured.table;
    let mut out = format!(
        "{:>4} {:>10} {:>10} {:>10}  ms: # measured, + built-in scaled to the same 1-row window\n",
        "rows", "ms", "timed ms", "built-in"
    );
    for (rows, bar) in (1..).zip(plot::terminal(table)) {
        let timed = measured.timings.rows.iter().find(|timed| timed.0 == rows);
        let timed = timed.map_or_else(|| "-".to_owned(), |timed| format!("{:.3}", timed.1));
        let built_in = plot::scaled(table, rows);
        writeln!(out, "{rows:>4} {:>10.3} {timed:>10} {built_in:>10.3}  {bar}", table.window_ms(rows))
            .expect(WRITTEN);
    }
    writeln!(
        out,
        "pass {:.3} ms (ingest {:.3}), slot {:.3} ms",
        table.draft_ms(),
        measured.ingest_ms,
        table.slot_ms()
    )
    .expect(WRITTEN);
    out
}
