//! `bench sweep`: every fixed draft depth against the depth rule.
//!
//! Tokens a second depend on the luck of drafts as well as on time, so milliseconds of a round stand beside them.

use std::time::Duration;

use serde::Serialize;

use crate::compare::{ArmCommand, Server};
use crate::receipt::svg::{self, Line};
use crate::run::{CellRun, Part, concurrent};
use crate::stats::Spread;
use crate::stop::Stop;
use crate::table::{markdown, number};
use crate::verdict::{self, Hashes, Measured};
use crate::{BenchError, Client};

/// Names of the settings that fix a depth.
const RULE: &str = "TF_DSV41_DEPTH";
const DEPTH: &str = "TF_DSV41_DRAFT_DEPTH";

/// How many drafts a round verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Always so many, as far as there are.
    Fixed(usize),
    /// As many as the rule says, up to the cap.
    Rule,
}

impl std::fmt::Display for Depth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(depth) => write!(f, "{depth}"),
            Self::Rule => f.write_str("rule"),
        }
    }
}

/// What is swept.
#[derive(Debug, Clone)]
pub struct Options {
    /// The greatest depth, and the rule's cap.
    pub cap: usize,
    /// Cells of each depth.
    pub cells: concurrent::Options,
    /// Rest before each server's start.
    pub settle: Duration,
    /// Longest wait for a server to answer.
    pub start: Duration,
    /// Longest wait for one reply.
    pub reply: Duration,
}

/// The runs of one depth.
#[derive(Debug, Clone, Serialize)]
pub struct DepthRuns {
    /// The depth.
    pub depth: Depth,
    /// Cells by fresh servers, one list a pass.
    pub passes: Vec<Vec<CellRun>>,
}

/// What was swept.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Every depth, the rule last.
    pub depths: Vec<DepthRuns>,
}

impl Options {
    /// Starts `command` at every depth, in one order and then in the other, and runs all cells each time. `tell` hears of
    /// each server that is over.
    ///
    /// # Errors
    /// A server that does not start or names no model; the user's wish to stop.
    pub fn run(&self, command: &ArmCommand, stop: &Stop, tell: impl Fn()) -> Result<Report, BenchError> {
        let depths: Vec<Depth> = (0..=self.cap).map(Depth::Fixed).chain([Depth::Rule]).collect();
        let empty = |&depth| DepthRuns { depth, passes: Vec::new() };
        let mut report = Report { depths: depths.iter().map(empty).collect() };
        let there = 0..depths.len();
        for place in there.clone().chain(there.rev()) {
            stop.sleep(self.settle)?;
            let cells = self.cells(&self.command(command, depths[place]), stop)?;
            report.depths[place].passes.push(cells);
            tell();
        }
        Ok(report)
    }

    /// Servers of a sweep.
    pub fn servers(&self) -> usize {
        2 * (self.cap + 2)
    }

    fn command(&self, command: &ArmCommand, depth: Depth) -> ArmCommand {
        let (rule, most) = match depth {
            Depth::Fixed(depth) => ("static", depth),
            Depth::Rule => ("cost", self.cap),
        };
        let mut command = command.clone();
        command.env.insert(RULE.into(), rule.into());
        command.env.insert(DEPTH.into(), most.to_string());
        command
    }

    fn cells(&self, command: &ArmCommand, stop: &Stop) -> Result<Vec<CellRun>, BenchError> {
        let server = Server::start(command, self.start, stop)?;
        let client = Client::new(server.url(), None, self.reply)?;
        let (model, _) = client.model()?;
        let mut cells = Vec::new();
        for &temperature in &self.cells.temperatures {
            for &streams in &self.cells.levels {
                for load in &self.cells.loads {
                    let plan = self.cells.plan(Part::Concurrent, streams, temperature);
                    cells.push(plan.run(&client, &model, load, stop)?);
                }
            }
        }
        Ok(cells)
    }
}

/// One cell at one depth over all passes.
struct Point {
    speed: Option<f64>,
    round: Option<f64>,
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

impl DepthRuns {
    fn point(&self, cell: usize) -> Point {
        let runs: Vec<&CellRun> = self.passes.iter().filter_map(|pass| pass.get(cell)).collect();
        let speeds: Vec<f64> = runs.iter().filter_map(|run| run.measured().speed()).collect();
        let rounds: Vec<f64> =
            runs.iter().filter_map(|run| run.ms_per_round()).map(|s: Spread| s.median).collect();
        Point { speed: mean(&speeds), round: mean(&rounds) }
    }
}

impl Report {
    fn cells(&self) -> Vec<&CellRun> {
        self.depths.first().and_then(|d| d.passes.first()).into_iter().flatten().collect()
    }

    /// The rule's speed over that of the best fixed depth, and that depth.
    fn lead(&self, cell: usize) -> Option<(f64, Depth)> {
        let speed = |runs: &&DepthRuns| runs.point(cell).speed;
        let rule = self.depths.iter().find(|d| d.depth == Depth::Rule).as_ref().and_then(speed)?;
        let fixed = self.depths.iter().filter(|d| d.depth != Depth::Rule);
        let best = fixed.filter_map(|d| Some((speed(&d)?, d.depth))).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((rule / best.0, best.1))
    }

    /// Tokens a second, then milliseconds of a round, by cell and depth.
    pub fn text(&self) -> String {
        let cells = self.cells();
        let mut head = vec!["cell".to_owned()];
        head.extend(self.depths.iter().map(|runs| match runs.depth {
            Depth::Fixed(depth) => format!("k = {depth}"),
            Depth::Rule => "rule".into(),
        }));
        let rounds_head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut speeds_head = rounds_head.clone();
        speeds_head.extend(["of best fixed", "hashes"]);
        let row = |number_of: &dyn Fn(Point) -> String, cell: usize| {
            let mut row = vec![cells[cell].cell.to_string()];
            row.extend(self.depths.iter().map(|runs| number_of(runs.point(cell))));
            row
        };
        let speeds = (0..cells.len()).map(|cell| {
            let mut row = row(&|point| number(point.speed, 1), cell);
            let lead = self.lead(cell).map(|(ratio, depth)| format!("{ratio:.3} (k = {depth})"));
            row.extend([lead.unwrap_or("-".into()), self.hashes(cell).to_string()]);
            row
        });
        let rounds = (0..cells.len()).map(|cell| row(&|point| number(point.round, 2), cell));
        let (speeds, rounds) = (markdown(&speeds_head, speeds), markdown(&rounds_head, rounds));
        format!(
            "Tokens a second, mean of the passes' medians:\n\n{speeds}\nMilliseconds of a round:\n\n{rounds}"
        )
    }

    /// What the hashes of a cell say over all depths and passes.
    fn hashes(&self, cell: usize) -> Hashes {
        let runs = self.depths.iter().flat_map(|d| &d.passes).filter_map(|pass| pass.get(cell));
        verdict::hashes(&runs.flat_map(CellRun::hashes).collect::<Vec<_>>())
    }

    /// Whether no cell failed and every reply has the same tokens at every depth.
    pub fn holds(&self) -> bool {
        let runs = || self.depths.iter().flat_map(|d| &d.passes).flatten();
        runs().all(|run| run.measured() != Measured::Failed)
            && (0..self.cells().len()).all(|cell| self.hashes(cell) == Hashes::Equal)
    }

    fn lines(&self, shift: usize, value: impl Fn(Point) -> Option<f64>) -> Vec<Line> {
        let line = |(cell, run): (usize, &&CellRun)| {
            let fixed = self.depths.iter().filter_map(|runs| match runs.depth {
                Depth::Fixed(depth) => Some(((depth + shift) as f64, value(runs.point(cell))?)),
                Depth::Rule => None,
            });
            Line { label: run.cell.to_string(), points: fixed.collect() }
        };
        self.cells().iter().enumerate().map(line).collect()
    }

    /// Plots by name: tokens a second against depth, milliseconds of a round against rows of its window.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn plots(&self) -> Result<Vec<(&'static str, String)>, BenchError> {
        let speeds = self.lines(0, |point| point.speed);
        let rounds = self.lines(1, |point| point.round);
        let mut plots =
            vec![("depth.svg", svg::lines("Speed by fixed depth", "depth", "tokens a second", &speeds)?)];
        if rounds.iter().any(|line| line.points.len() > 1) {
            plots.push(("rounds.svg", svg::lines("Time of a round", "rows of a window", "ms", &rounds)?));
        }
        Ok(plots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Counted, Counters, Reply};
    use crate::run::{Cell, Rep};

    fn run(speed: f64, hash: &str) -> CellRun {
        let reply = Reply {
            sent: Duration::ZERO,
            first: Duration::ZERO,
            last: Duration::from_secs_f64(100.0 / speed),
            pieces: 9,
            tokens: 101,
            counted: Counted::Usage,
            prompt_tokens: None,
            cached_tokens: None,
            token_sha256: Some(hash.into()),
            finish_reason: None,
            counters: Some(Counters {
                rounds: 9,
                drafted: 9,
                accepted: 9,
                ms_per_round: 7.0,
                prefill_seconds: 0.1,
            }),
        };
        let cell = Cell { part: Part::Concurrent, load: "code".into(), streams: 1, temperature: 0.0 };
        CellRun { cell, warm_up: None, reps: vec![Rep { replies: vec![reply] }], failure: None }
    }

    fn report(speeds: &[(Depth, [f64; 2])]) -> Report {
        let runs = |&(depth, [a, b]): &(Depth, [f64; 2])| DepthRuns {
            depth,
            passes: vec![vec![run(a, "x")], vec![run(b, "x")]],
        };
        Report { depths: speeds.iter().map(runs).collect() }
    }

    #[test]
    fn the_rule_is_held_against_the_best_fixed_depth() {
        let report = report(&[
            (Depth::Fixed(0), [100.0, 100.0]),
            (Depth::Fixed(1), [150.0, 250.0]),
            (Depth::Fixed(2), [180.0, 180.0]),
            (Depth::Rule, [210.0, 230.0]),
        ]);
        let (ratio, depth) = report.lead(0).unwrap();
        assert!((ratio - 1.1).abs() < 1e-9);
        assert_eq!((depth, report.holds()), (Depth::Fixed(1), true));
        let text = report.text();
        for words in ["| 200.0 |", "1.100 (k = 1)", "| 7.00 ", "equal"] {
            assert!(text.contains(words), "{words} in {text}");
        }
        let plots = report.plots().unwrap();
        assert_eq!(plots.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["depth.svg", "rounds.svg"]);
    }

    #[test]
    fn another_hash_at_any_depth_fails() {
        let mut report = report(&[(Depth::Fixed(0), [1.0, 1.0]), (Depth::Rule, [1.0, 1.0])]);
        report.depths[1].passes[1] = vec![run(1.0, "y")];
        assert!(!report.holds());
    }
}
