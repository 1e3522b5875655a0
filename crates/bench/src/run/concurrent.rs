//! `bench concurrent`: several streams of fixed length.

use std::time::Duration;

use serde::Serialize;

use super::cell::Seeds;
use super::{CellPlan, CellRun, Exactness, Part, Reference};
use crate::load::{Length, Load};
use crate::stop::Stop;
use crate::table::{self, number};
use crate::{BenchError, Client};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Numbers of streams.
    pub levels: Vec<usize>,
    /// Tokens of a reply.
    pub tokens: usize,
    /// Repetitions.
    pub reps: usize,
    /// Temperatures.
    pub temperatures: Vec<f64>,
    /// What is asked.
    pub loads: Vec<Load>,
    /// Seeds of requests.
    pub seeds: Seeds,
    /// Time between the starts of two streams.
    pub stagger: Duration,
    /// How replies are made once more.
    pub references: Vec<Reference>,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Every cell.
    pub cells: Vec<CellRun>,
    /// Replies against their references.
    pub exactness: Vec<(Reference, Exactness)>,
}

impl Options {
    /// The plan of one cell.
    pub fn plan(&self, part: Part, streams: usize, temperature: f64) -> CellPlan {
        let Self { tokens, reps, seeds, stagger, .. } = *self;
        CellPlan { part, streams, tokens, reps, temperature, seeds, length: Length::Fixed, stagger }
    }

    /// Runs every cell on the server of `client`.
    ///
    /// # Errors
    /// No model that the server names; the user's wish to stop.
    pub fn run(&self, client: &Client, stop: &Stop) -> Result<Report, BenchError> {
        let (model, _) = client.model()?;
        let mut report = Report::default();
        report.exactness.extend(self.references.iter().map(|&r| (r, Exactness::default())));
        for &temperature in &self.temperatures {
            for &streams in &self.levels {
                for load in &self.loads {
                    let plan = self.plan(Part::Concurrent, streams, temperature);
                    let run = plan.run(client, &model, load, stop)?;
                    for (reference, counts) in &mut report.exactness {
                        counts.add(plan.compare(&run, *reference, (client, &model), load, stop)?);
                    }
                    report.cells.push(run);
                }
            }
        }
        Ok(report)
    }
}

impl Report {
    /// Cells as a table, then what the replies' hashes say.
    pub fn text(&self) -> String {
        let head =
            ["streams", "T", "load", "tok/s", "min", "max", "a stream", "first token ms", "ms/round", ""];
        let rows = self.cells.iter().map(|run| {
            let (speed, first) = (run.speed(), run.first_token_ms());
            vec![
                run.cell.streams.to_string(),
                run.cell.temperature.to_string(),
                run.cell.load.clone(),
                number(speed.map(|s| s.median), 1),
                number(speed.map(|s| s.min), 1),
                number(speed.map(|s| s.max), 1),
                number(run.stream_speed().map(|s| s.median), 1),
                number(first.map(|s| s.median), 1),
                number(run.ms_per_round().map(|s| s.median), 2),
                table::remark(run),
            ]
        });
        let mut text = table::markdown(&head, rows);
        for (reference, counts) in &self.exactness {
            let name = match reference {
                Reference::Alone => "alone",
                Reference::Serial => "serial",
            };
            text += &format!("{name}: {counts}\n");
        }
        text
    }

    /// Whether no cell failed and every reply has the tokens of its references.
    pub fn holds(&self) -> bool {
        self.cells.iter().all(|run| run.failure.is_none()) && self.exactness.iter().all(|(_, e)| e.holds())
    }
}
