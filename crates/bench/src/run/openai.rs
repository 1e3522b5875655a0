//! `bench openai`: plain requests, one at a time, as any client makes them.

use std::time::Duration;

use serde::Serialize;

use super::cell::Seeds;
use super::{CellPlan, CellRun, Part};
use crate::load::{Length, Load};
use crate::stop::Stop;
use crate::table::{self, number};
use crate::verdict::{self, Hashes};
use crate::{BenchError, Client};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most tokens of a reply.
    pub tokens: usize,
    /// Repetitions.
    pub reps: usize,
    /// Temperatures.
    pub temperatures: Vec<f64>,
    /// What is asked.
    pub loads: Vec<Load>,
}

/// What was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Every cell.
    pub cells: Vec<CellRun>,
}

impl Options {
    /// The plan of one cell.
    pub fn plan(&self, temperature: f64) -> CellPlan {
        CellPlan {
            part: Part::Openai,
            streams: 1,
            tokens: self.tokens,
            reps: self.reps,
            temperature,
            seeds: Seeds::ByStream,
            length: Length::Natural,
            stagger: Duration::ZERO,
        }
    }

    /// Runs every cell on the server of `client`.
    ///
    /// # Errors
    /// No model that the server names; the user's wish to stop.
    pub fn run(&self, client: &Client, stop: &Stop) -> Result<Report, BenchError> {
        let (model, _) = client.model()?;
        let mut report = Report::default();
        for &temperature in &self.temperatures {
            for load in &self.loads {
                report.cells.push(self.plan(temperature).run(client, &model, load, stop)?);
            }
        }
        Ok(report)
    }
}

impl Report {
    /// Cells as a table with the hash of each cell's replies.
    pub fn text(&self) -> String {
        let head = ["T", "load", "tok/s", "min", "max", "tokens", "first token ms", "token_sha256", ""];
        let rows = self.cells.iter().map(|run| {
            let speed = run.speed();
            let tokens = run.reps.first().and_then(|rep| rep.replies.first()).map(|r| r.tokens);
            vec![
                run.cell.temperature.to_string(),
                run.cell.load.clone(),
                number(speed.map(|s| s.median), 1),
                number(speed.map(|s| s.min), 1),
                number(speed.map(|s| s.max), 1),
                tokens.map_or("-".into(), |n| n.to_string()),
                number(run.first_token_ms().map(|s| s.median), 1),
                hash(run),
                table::remark(run),
            ]
        });
        table::markdown(&head, rows)
    }

    /// Whether a cell failed, or hashes of its repetitions differ. Hashes that a server does not tell are no failure: they
    /// are shown as such, and nothing is claimed of them.
    pub fn failed(&self) -> bool {
        let differs = |run: &CellRun| verdict::hashes(&run.hashes()) == Hashes::Unequal;
        self.cells.iter().any(|run| run.failure.is_some() || differs(run))
    }
}

fn hash(run: &CellRun) -> String {
    let hashes = run.hashes();
    match (verdict::hashes(&hashes), hashes.first().and_then(|rep| rep.first())) {
        (Hashes::Equal, Some(Some(hash))) => hash.chars().take(12).collect(),
        (state, _) => state.to_string(),
    }
}
